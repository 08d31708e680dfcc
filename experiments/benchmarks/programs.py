"""The build's programs and data, in a repository or in an unpacked bundle: for experiments/benchmarks/device.py and
tests/device.

DIMRED_BUILD names another build, DIMRED_FASHION and DIMRED_CIFAR10 the data.
"""

from __future__ import annotations

import csv
import functools
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]
BUNDLE = SOURCES.parent if (SOURCES.parent / "bundle.json").is_file() else None
BIN = BUNDLE / "bin" if BUNDLE else Path(os.environ.get("DIMRED_BUILD", SOURCES / "build")) / "bin"
# Tests that need a device say so in their names, and are skipped without one.
DEVICE_TESTS = "*Cuda*:*Nccl*:Device*"
DEVICE_ROOMS = ("distributed", "models", "optimizers", "training", "stage1", "stage2")
FASHION = Path("/usr/share/datasets/fashion-mnist")  # Debian's dataset-fashion-mnist


class Failed(RuntimeError):
    """Why a program gave no result, in one line."""


@dataclass(frozen=True)
class Done:
    """A program's output, and how long it took from its start to its end."""

    output: str
    seconds: float


@functools.cache
def environment() -> dict[str, str]:
    """The environment of our programs: in a bundle they need torch's libraries. Raises torch_libraries.Unfit where
    torch or the system is another one."""
    if not BUNDLE:
        return dict(os.environ)
    sys.path.insert(0, str(SOURCES / "scripts" / "bundle"))
    import torch_libraries

    given = [path for path in [os.environ.get("LD_LIBRARY_PATH")] if path]
    return os.environ | {"LD_LIBRARY_PATH": ":".join([*map(str, torch_libraries.search_path(BUNDLE)), *given])}


def data(name: str) -> Path | None:
    """The folder of fashion or cifar10; None: it is not here."""
    default = BUNDLE / "data" / name if BUNDLE else {"fashion": FASHION}.get(name)
    path = os.environ.get(f"DIMRED_{name.upper()}", default)
    return Path(path) if path and Path(path).exists() else None


def run(program: str, *words: object, seconds: float = 120, fail: bool = True) -> Done:
    """Runs a program to its end. Raises Failed where it is not there, ends with an error (unless `fail` is false), or
    is not done after `seconds`."""
    command = [str(BIN / program), *map(str, words)]
    name = f"{program} {words[0]}"
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=max(1, seconds), check=False
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{name} was not done after {seconds:.0f} s") from None
    except OSError as error:
        raise Failed(f"cannot start {command[0]}: {error.strerror}") from error
    if done.returncode and fail:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Failed(f"{name} ended with {done.returncode}: {' '.join(last)}")
    return Done(done.stdout, time.perf_counter() - start)


def train(stage: str, output: Path, seconds: float = 120, **options: object) -> Done:
    """`dimred stage1` or `stage2`; options as keywords."""
    return run(
        "dimred",
        stage,
        f"--output={output}",
        *(f"--{name}={value}" for name, value in options.items()),
        seconds=seconds,
    )


def rows_of(path: Path) -> list[dict[str, str]]:
    """A CSV file's."""
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))
