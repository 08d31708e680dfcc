"""Comparisons of a fake dimred, which counts its calls: fixtures and what the tests of compare.py share."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import compare
import pandas as pd
import pytest

FAKE = Path(__file__).with_name("fake_dimred.py")
COMPARE = Path(compare.__file__)
CONFIG = """
title = "fake"
selection_seeds = [1, 2, 3]
confirmation_seeds = [11, 12]

[stage1]
epochs = 2
validation_fraction = 0.1

[matrices.pca]

[matrices.random]
kind = "random"

[methods.robust]
matrix = "pca"
alpha = [0.1, 0.2]

[methods.random]
role = "control"
matrix = "random"

[methods.continued]
role = "baseline"
command = "stage1"
epochs = "+2"

[methods.annealed]
role = "baseline"
command = "stage1"
epochs = "+2"
anneal_from_epoch = "+0"

[axes.matrices]
components = [4, 8]
"""
SHORT = """
selection_seeds = [1, 2]
[stage1]
epochs = 2
validation_fraction = 0.1
[matrices.pca]
[methods.robust]
matrix = "pca"
[methods.annealed]
role = "baseline"
command = "stage1"
epochs = "+2"
anneal_from_epoch = "+0"
"""


def call_fake_in(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """The environment of the fake dimred. Its python3 is this one: a version manager's starts more slowly than it."""
    patch.setenv("FAKE_FOLDER", str(folder))
    patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch) -> Path:
    """A folder with comparison.toml, in which the fake dimred counts its calls."""
    call_fake_in(tmp_path, monkeypatch)
    (tmp_path / "comparison.toml").write_text(CONFIG)
    return tmp_path


def compared(folder: Path, config: str) -> Path:
    """A folder with a finished comparison."""
    (folder / "comparison.toml").write_text(config)
    with pytest.MonkeyPatch.context() as patch:
        call_fake_in(folder, patch)
        assert compare.main(arguments(folder)) == 0
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The comparison of CONFIG; nothing writes into it."""
    return compared(tmp_path_factory.mktemp("whole"), CONFIG)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> pd.DataFrame:
    """The results of SHORT when nothing happens to it."""
    return results(compared(tmp_path_factory.mktemp("short"), SHORT))


@pytest.fixture
def copy(whole: Path, fake: Path) -> Path:
    """The comparison of CONFIG again, to be damaged."""
    shutil.copytree(whole, fake, dirs_exist_ok=True)
    return fake


def arguments(folder: Path, *more: str) -> list[str]:
    """The arguments of compare.py."""
    return [str(folder / "comparison.toml"), "--output", str(folder / "out"), "--jobs=2", "--dimred", str(FAKE), *more]


def calls(folder: Path) -> list[str]:
    """Command lines of the fake dimred so far, without process ids."""
    file = folder / "calls.txt"
    return [line.split(" ", 1)[1] for line in file.read_text().splitlines()] if file.exists() else []


def results(folder: Path) -> pd.DataFrame:
    """The tidy table."""
    return pd.read_csv(folder / "out" / "results.csv")


def running(folder: Path) -> list[int]:
    """Processes of the fake dimred that are alive."""
    pids = [int(line.split()[0]) for line in (folder / "calls.txt").read_text().splitlines()]
    return [
        pid
        for pid in pids
        if b"fake_dimred"
        in (Path(f"/proc/{pid}/cmdline").read_bytes() if Path(f"/proc/{pid}/cmdline").exists() else b"")
    ]


def until(true: Callable[[], object], seconds: float = 20) -> None:
    """Waits."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
