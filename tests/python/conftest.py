"""Paths of the build and of the Python packages that live beside the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "experiments")]


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The build's bin folder: $DIMRED_BUILD/bin, default <repository>/build/bin."""
    return Path(os.environ.get("DIMRED_BUILD", REPOSITORY / "build")) / "bin"


@pytest.fixture(scope="session")
def execute(binaries: Path) -> Callable[..., str]:
    """Runs a program of the build and returns its standard output; fails with its error text."""

    def call(program: str, *arguments: object) -> str:
        command = [str(binaries / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stderr}"
        return done.stdout

    return call


@pytest.fixture(scope="session")
def fails(binaries: Path) -> Callable[..., str]:
    """Runs `dimred` with these arguments, expects this exit code and one line; returns the line."""

    def call(code: int, *arguments: object) -> str:
        command = [str(binaries / "dimred"), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, f"{' '.join(command)}: {done.returncode}\n{done.stderr}"
        assert len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr

    return call
