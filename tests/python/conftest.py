"""Paths of the build and of the Python packages that live beside the tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # a shell's background job ignores it, and so would the programs

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = Path(os.environ.get("DIMRED_BUILD", REPOSITORY / "build")) / "python"
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "experiments"), str(PACKAGE)]

from cli import cli  # noqa: E402 - of the folder that the line above names

# Fixtures of a few files each, which name them in `pytest_plugins`: here, every file would wait for what they import.
pytest.register_assert_rewrite("compared_runs", "fake_comparison", "image_probe", "record_samples", "store_servers")


def marked_blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of the blocks of a page of the docs behind `<!-- test -->`: the tests run them as they stand."""
    return re.findall(r"^<!-- test -->\n```(\w+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="session")
def desk(tmp_path_factory, binaries: Path) -> Path:
    """A folder that looks like the repository's root, with runs of its own."""
    folder = tmp_path_factory.mktemp("desk")
    for name in ("scripts", "experiments", ".venv"):
        (folder / name).symlink_to(REPOSITORY / name)
    (folder / "build").symlink_to(binaries.parent)
    return folder


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The build's bin folder: $DIMRED_BUILD/bin, default <repository>/build/bin."""
    return Path(os.environ.get("DIMRED_BUILD", REPOSITORY / "build")) / "bin"


@pytest.fixture(scope="session")
def execute(binaries: Path) -> Callable[..., str]:
    """Runs a program of the build with `cli`'s words and returns its standard output; fails with its error text."""

    def call(program: str, *words: object, **options: object) -> str:
        command = [str(binaries / program), *cli(*words, **options)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stderr}"
        return done.stdout

    return call


@pytest.fixture(scope="session")
def fails(binaries: Path) -> Callable[..., str]:
    """Runs `dimred` with `cli`'s words, expects this exit code and one line; returns the line."""

    def call(code: int, *words: object, **options: object) -> str:
        command = [str(binaries / "dimred"), *cli(*words, **options)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, f"{' '.join(command)}: {done.returncode}\n{done.stderr}"
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("dimred"), done.stderr
        return done.stderr

    return call


SMALL = """
title = "small"
selection_seeds = [1, 2]

[stage1]
data = "{data}"
epochs = 3
total_epochs = 8
train_samples = 640
test_samples = 200
validation_fraction = 0.2
snapshots_per_epoch = 4
learning_rate = 0.05

[matrices.pca]
components = 6

[methods.robust]
matrix = "pca"
epochs = 1

[methods.continued]
role = "baseline"
command = "stage1"
epochs = "+1"

[methods.annealed]
role = "baseline"
command = "stage1"
epochs = "+1"
anneal_from_epoch = "+0"
"""


@pytest.fixture(scope="session")
def small_comparison(tmp_path_factory, binaries) -> Path:
    """A real comparison of 8 short runs, which reports and notebooks may share; nothing writes into it."""
    import compare
    from fashion import few

    folder = tmp_path_factory.mktemp("comparison")
    (folder / "small.toml").write_text(SMALL.format(data=few()))
    assert (
        compare.main(
            [str(folder / "small.toml"), "--output", str(folder / "out"), "--dimred", str(binaries / "dimred")]
        )
        == 0
    )
    add_landscape(folder / "out", binaries / "dimred")
    return folder / "out"


def add_landscape(folder: Path, dimred: Path) -> None:
    """landscape.csv for the notebook that draws it, where the build has the command."""
    report = subprocess.run([dimred, "inspect", "--help"], capture_output=True, text=True, check=True).stdout
    if "--landscape" in report:
        stage1, matrix = next(folder.glob("seed_1/stage1-*/")), next(folder.glob("seed_1/*/pca_mat.npy"))
        words = ["--landscape", stage1, "--pca_mat", matrix, "--grid=5,5", "--samples=200", "--batchnorm=keep"]
        subprocess.run([dimred, "inspect", *words, "--output", folder / "landscape.csv", "--quiet"], check=True)


@pytest.fixture(scope="session")
def dimred(binaries: Path) -> Path:
    """The command."""
    return binaries / "dimred"
