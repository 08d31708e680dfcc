"""The machine that a figure is of."""

from __future__ import annotations

import platform
import re
from pathlib import Path


def processor() -> str:
    """Model name, as Linux reports it."""
    match = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return match.group(1) if match else platform.machine()
