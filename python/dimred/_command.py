"""The command `dimred`, which starts the program in the wheel."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Replaces this process by the program and passes on the arguments."""
    program = Path(__file__).parent / "bin" / "dimred"
    try:
        os.execv(program, [str(program), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"dimred: cannot run {program}: {error.strerror}")
