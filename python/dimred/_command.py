"""The command `dimred`: the program that the wheel brings."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the program, with this process's arguments."""
    program = Path(__file__).parent / "bin" / "dimred"
    try:
        os.execv(program, [str(program), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"dimred: cannot run {program}: {error.strerror}")
