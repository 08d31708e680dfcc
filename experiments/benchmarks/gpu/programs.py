"""The build's programs and data, in a repository or in an unpacked bundle, for the GPU check and tests/device.

DIMRED_BUILD names another build, DIMRED_FASHION and DIMRED_CIFAR10 the data. Needs the standard library alone.
"""

from __future__ import annotations

import csv
import ctypes
import functools
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[3]
BUNDLE = SOURCES.parent if (SOURCES.parent / "bundle.json").is_file() else None
BIN = BUNDLE / "bin" if BUNDLE else Path(os.environ.get("DIMRED_BUILD", SOURCES / "build")) / "bin"
# Suites of tests that need a device are called Device..., and are skipped without one; all of cuda/ is about devices.
DEVICE_TESTS = {
    "cuda": "*",
    "distributed": "Device*",
    "optimizers": "Device*",
    "engine": "Device*",
    "stage2": "Device*",
}
FASHION = Path("/usr/share/datasets/fashion-mnist")  # Debian's dataset-fashion-mnist


class Failed(RuntimeError):
    """Why a program gave no result, in one line."""


@dataclass(frozen=True)
class Done:
    """What a program printed on standard output and standard error, its exit code, and the seconds from its start to
    its end."""

    output: str
    seconds: float
    code: int = 0
    error: str = ""


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


def why_no_device(device: str) -> str:
    """Why this machine's driver does not show that CUDA device; empty: it does. Does not need torch."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver was found (libcuda.so.1)"
    if code := driver.cuInit(0):
        return f"the driver's cuInit ended with {code}"
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    index = int(device.partition(":")[2] or 0)
    return "" if index < count.value else f"this machine has {count.value} devices, counted from 0"


def data(name: str) -> Path | None:
    """The folder of fashion or cifar10; None: it is not here."""
    default = BUNDLE / "data" / name if BUNDLE else {"fashion": FASHION}.get(name)
    path = os.environ.get(f"DIMRED_{name.upper()}", default)
    return Path(path) if path and Path(path).exists() else None


def run(program: str, *words: object, seconds: float = 120, fail: bool = True, **variables: str | None) -> Done:
    """Runs a program to its end, with more environment variables, or without those that are None; prints the command
    and what it printed. Raises Failed where it is not there, ends with an error (unless `fail` is false), or is not
    done after `seconds`."""
    command = [str(BIN / program), *map(str, words)]
    name = f"{program} {words[0]}"
    changes = [f"-u {key}" if value is None else f"{key}={value}" for key, value in variables.items()]
    print("$", *(["env", *changes] if changes else []), *command, flush=True)
    given = {key: value for key, value in (environment() | variables).items() if value is not None}
    start = time.perf_counter()
    try:
        done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=max(1, seconds), check=False)
    except subprocess.TimeoutExpired as error:
        print(*(text.decode(errors="replace") for text in (error.stdout, error.stderr) if text), flush=True)
        raise Failed(f"{name} had not finished after {seconds:.0f} s") from None
    except OSError as error:
        raise Failed(f"cannot start {command[0]}: {error.strerror}") from error
    taken = time.perf_counter() - start
    print(f"{done.stdout}{done.stderr}exit code {done.returncode}, {taken:.2f} s", flush=True)
    last = " ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-1:])
    if done.returncode and fail:
        raise Failed(f"{name} ended with {done.returncode}: {last}")
    return Done(done.stdout, taken, done.returncode, done.stderr.strip())


def options_of(**options: object) -> list[str]:
    """--name=value of each keyword."""
    return [f"--{name}={value}" for name, value in options.items()]


def train(stage: str, output: Path, seconds: float = 120, **options: object) -> Done:
    """`dimred stage1` or `stage2`; options as keywords."""
    return run("dimred", stage, f"--output={output}", *options_of(**options), seconds=seconds)


def rows_of(path: Path) -> list[dict[str, str]]:
    """A CSV file's."""
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))
