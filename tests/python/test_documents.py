"""The documents are true: options that they name exist, places that they link to are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
# Of programs that are not ours.
FOREIGN = {"standalone", "no-python", "nproc-per-node", "nnodes", "node-rank", "max-restarts", "rdzv-endpoint",
           "rdzv-backend", "rdzv-id", "recursive", "gpus", "ntasks", "bind-to", "force", "logdir", "name",
           "signal"}  # fmt: skip
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9_-]*)")


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Every option in docs/options.md and in our Python and shell commands, words joined by `_`."""
    names = set(OPTION.findall((REPOSITORY / "docs" / "options.md").read_text()))
    for folder in ("experiments", "benchmarks", "scripts"):
        for file in [*(REPOSITORY / folder).glob("*.py"), *(REPOSITORY / folder).glob("*.sh")]:
            names |= set(OPTION.findall(file.read_text()))
    return {name.replace("-", "_") for name in names | {"help", "version"}}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_that_a_page_names_exist(page: Path, known: set[str]) -> None:
    named = {name.replace("-", "_") for name in OPTION.findall(page.read_text()) if name not in FOREIGN}
    assert sorted(named - known) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_places_that_a_page_links_to_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def anchors(page: Path) -> set[str]:
    """Of its headings, as they are linked to."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    told = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in told}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_headings_that_a_page_links_to_are_there(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        assert anchor in anchors(page.parent / target if target else page), f"{target}#{anchor}"


def test_pages_that_a_source_cites_are_there() -> None:
    rooms = [path for path in REPOSITORY.iterdir() if path.is_dir() and path.name not in ("build", "runs") and path.name[0] != "."]
    files = [file for room in rooms for file in room.rglob("*")]
    pages = {file.name for file in [*files, *PAGES] if file.suffix == ".md"} | {"record.md"}  # which a comparison writes
    sources = [file for file in files if file.suffix in (".py", ".sh", ".h", ".cpp", ".cu", ".cuh", ".cmake")]
    cited = {name for file in sources for name in re.findall(r"[\w-]+\.md\b", file.read_text())}
    assert len(cited) > 5
    assert sorted(cited - pages) == []


def test_every_key_of_fastnn_is_on_the_page_of_mappings() -> None:
    sources = "".join(file.read_text() for file in (REPOSITORY / "imports").glob("fastnn_*.cpp"))
    keys = set(re.findall(r'\{"(\w+)",\s*Type::', sources))
    assert len(keys) > 60
    page = (REPOSITORY / "docs/mapping.md").read_text()
    assert sorted(key for key in keys if f"`{key}`" not in page) == []


def test_the_reference_of_options_is_what_the_build_says(binaries: Path) -> None:
    script = REPOSITORY / "scripts" / "options_reference.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False,
                          env={"DIMRED_BUILD": str(binaries.parent)})  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_no_merge_is_left_half() -> None:
    """In any file of ours."""
    marked = subprocess.run(["git", "grep", "-lE", "^(<<<<<<<|>>>>>>>) "], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert marked.stdout == ""
