"""The machine that a figure is of."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path


def processor() -> str:
    """Model name, as Linux reports it."""
    match = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return match.group(1) if match else platform.machine()


def processor_seconds(process: int) -> float:
    """The processor seconds that all threads of a process have used so far; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
