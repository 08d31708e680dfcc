"""docs/reference/mapping.md: what other systems' users bring runs as the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli import completed
from conftest import REPOSITORY, marked_blocks
from source_inputs import HYPER, make

PAGE = REPOSITORY / "docs" / "reference" / "mapping.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| there"))
]
REFUSED = [row for row in ROWS if row[1].startswith("**refused**: ")]


def runs() -> list[tuple[str, str]]:
    """(letter, command) of the page's end, in their order."""
    [(_, block)] = marked_blocks(PAGE)
    found, letter = [], ""
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith("# "):
            letter = line[2:]
        else:
            found.append((letter, line))
    return found


@pytest.fixture(scope="module")
def shown(tmp_path_factory, binaries: Path) -> dict[str, subprocess.CompletedProcess[str]]:
    """Each command and how it ended."""
    folder = make(tmp_path_factory.mktemp("inputs"))
    environment = os.environ | {
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "DIMRED_PYTHON": sys.executable,
    }
    return {command: completed(shlex.split(command), env=environment, cwd=folder) for _, command in runs()}


@pytest.mark.parametrize("command", [command for _, command in runs()])
def test_each_run_of_the_page_ends_well(command: str, shown) -> None:
    done = shown[command]
    assert (done.returncode, done.stderr.count("error")) == (0, 0), done.stderr


def test_every_row_names_a_run_with_its_options() -> None:
    """Or a page of the reference, whose own tests run it; or why it cannot exist here."""
    commands: dict[str, str] = {}
    for letter, command in runs():
        commands[letter] = commands.get(letter, "") + command
    for there, here, run in (row for row in ROWS if row not in REFUSED):
        letters = re.findall(r"\b[A-Z]\b", run)
        assert letters or ".md)" in run + here, there
        assert set(letters) <= set(commands), (there, letters)
        words = re.sub(r"`--fastnn FILE`|; for `amp_lists`.*", "", here)
        options = re.findall(r"--\w+", words) if letters and letters != ["H"] else []
        run_words = " ".join(commands[letter] for letter in letters)
        for option in options:
            assert re.search(rf"{option}\b", run_words), (there, option, letters)


def test_few_rows_are_refused() -> None:
    assert len(REFUSED) <= 5
    assert all(len(row[1].split()) > 5 for row in REFUSED)


def test_fastnns_file_holds_every_key() -> None:
    """The file has each flag that imports/fastnn.cpp answers."""
    keys = set(re.findall(r'\{"(\w+)",\s*Type::', (REPOSITORY / "lib" / "imports" / "fastnn.cpp").read_text()))
    assert {line.split("=")[0] for line in HYPER.splitlines()} == keys - {"tables"}
