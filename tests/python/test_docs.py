"""The documents are true: options and commands that they name exist, links lead somewhere, marked blocks run, and pages
stay short."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cli import completed
from conftest import REPOSITORY, marked_blocks
from PIL import Image
from safetensors.torch import save_file

DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]
OPTIONS = DOCS / "reference" / "options.md"
KINDS = {"tutorials": "Tutorial", "how-to": "How-to", "reference": "Reference", "explanation": "Explanation"}
# Options of programs that are not ours.
FOREIGN = {
    "standalone",
    "no-python",
    "nproc-per-node",
    "nnodes",
    "node-rank",
    "max-restarts",
    "rdzv-endpoint",
    "rdzv-backend",
    "rdzv-id",
    "recursive",
    "gpus",
    "ntasks",
    "bind-to",
    "force",
    "logdir",
    "name",
    "signal",
    "install",
}
LAUNCHERS = (".venv/bin/torchrun", "srun", "mpirun", "bundle/run")
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9_-]*)")
# Run by test_bring_your_own.py, which takes longer, and by test_convert.py.
OF_ANOTHER_TEST = {
    DOCS / "how-to" / "convert_checkpoints.md",
    DOCS / "tutorials" / "own_data_and_network.md",
    DOCS / "how-to" / "add_a_network.md",
    DOCS / "reference" / "mapping.md",
}


def shown(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def blocks(page: Path, language: str) -> list[str]:
    """The texts of its blocks of this language; "" of those that name none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [text for named, text in found if named == language]


def prose(page: Path) -> str:
    """The page without its blocks, in which `[](...)` is C++."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


each_page = pytest.mark.parametrize("page", PAGES, ids=shown)


def options_in(text: str) -> set[str]:
    """Words joined by `_`, as `-` and `_` are the same to dimred."""
    return {name.replace("-", "_") for name in OPTION.findall(text)}


# What a page names.


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Every option in docs/reference/options.md and in our Python and shell commands."""
    names = options_in(OPTIONS.read_text()) | {"help", "version"}
    for folder in ("experiments", "experiments/benchmarks", "scripts"):
        for file in [*(REPOSITORY / folder).glob("*.py"), *(REPOSITORY / folder).glob("*.sh")]:
            names |= options_in(file.read_text())
    return names


@each_page
def test_options_that_a_page_names_exist(page: Path, known: set[str]) -> None:
    foreign = {name.replace("-", "_") for name in FOREIGN}
    of_today = re.sub(r"made at revision `\w+` with\s`[^`]+`", "", page.read_text(), flags=re.IGNORECASE)
    assert sorted(options_in(of_today) - foreign - known) == []


def sections() -> dict[tuple[str, ...], str]:
    """The sections of the reference of options: a command's words, and what its --help says."""
    parts = re.split(r"^## dimred (.+)$", OPTIONS.read_text(), flags=re.MULTILINE)
    return {tuple(words.split()): text for words, text in zip(parts[1::2], parts[2::2], strict=True)}


SECTIONS = sections()


def options_of_command(words: list[str]) -> set[str]:
    """The options of the dimred command that these words begin. Raises KeyError where there is none."""
    fitting = [section for section in SECTIONS if section[0] == words[0] and set(section) <= set(words)]
    if not fitting or (words[0] in ("data", "store") and len(max(fitting, key=len)) == 1):
        raise KeyError(" ".join(words[:2]))
    return options_in(SECTIONS[max(fitting, key=len)])


def options_of_script(name: str) -> set[str]:
    """The options of a script of ours and of the programs that it starts. Raises KeyError where it does not exist."""
    file = REPOSITORY / name
    if not file.is_file():
        raise KeyError(name)
    text = file.read_text()
    started = [REPOSITORY / found for found in re.findall(r"\$root/([\w/]+\.py)", text)]
    trainer = re.search(r"^start (stage[12]) ", text, re.MULTILINE)
    return options_in("".join([text, *(other.read_text() for other in started)])) | (
        options_of_command([trainer[1]]) if trainer else set()
    )


SHELL_WORDS = ("cat", "cd", "cp", "mkdir", "pip", "sha256sum")


def faults_of(command: str) -> list[str]:
    """What is wrong with one command line of a page: an unknown program, command or option."""
    words = shlex.split(command, comments=True)
    if words and words[0] in LAUNCHERS:
        words = words[next(i for i, word in enumerate(words) if word.endswith("dimred")) :]
    if not words or words[0] in SHELL_WORDS or words[:3] == ["python3", "-m", "tarfile"]:
        return []
    program, rest = re.sub("^bundle/", "scripts/", words[0]), words[1:]
    if program == ".venv/bin/python":
        program, rest = rest[0], rest[1:]
    try:
        taken = options_of_command(rest) if Path(program).name == "dimred" else options_of_script(program)
    except KeyError as unknown:
        return [f"there is no {unknown} in: {command}"]
    given = {name for word in rest if word.startswith("--") for name in options_in(word)}
    return [f"{program} takes no --{name} in: {command}" for name in sorted(given - taken)]


@each_page
def test_commands_of_a_pages_blocks_exist_and_take_their_options(page: Path) -> None:
    commands = [re.sub(r"<<'(\w+)'\n.*?\n\1\n", "\n", block + "\n", flags=re.DOTALL) for block in blocks(page, "sh")]
    lines = [line for block in commands for line in block.replace("\\\n", " ").splitlines()]
    assert [fault for line in lines for fault in faults_of(line)] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page != OPTIONS], ids=shown)
def test_blocks_of_commands_say_that_they_are_shell(page: Path) -> None:
    """Else the test above would not read them."""
    for block in blocks(page, ""):
        assert not re.search(r"^(build/bin/)?(dimred|torchrun) |^scripts/\w+\.sh", block, re.MULTILINE), block


# What a page links to.


@each_page
def test_places_that_a_page_links_to_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", prose(page)):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def anchors(page: Path) -> set[str]:
    """The anchors of its headings, as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    report = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in report}


@each_page
def test_headings_that_a_page_links_to_are_there(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        assert anchor in anchors(page.parent / target if target else page), f"{target}#{anchor}"


def test_every_page_is_in_the_sites_navigation_once() -> None:
    listed = [page for pages in runpy.run_path(str(DOCS / "conf.py"))["NAVIGATION"].values() for page in pages]
    records = sorted((REPOSITORY / "experiments" / "records").glob("*.md"))
    there = [shown(page).removesuffix(".md") for page in [*PAGES[1:], *records]]
    assert sorted(listed) == sorted(there)


def test_a_page_whose_script_has_left_names_a_revision_that_has_it() -> None:
    pages = [*(REPOSITORY / "experiments" / "records").glob("*.md"), DOCS / "results" / "README.md"]
    departed: list[str] = []  # REVISION:FILE
    for page in pages:
        text = page.read_text()
        command = r"`(?:python )?((?:experiments|scripts)/\w+\.(?:py|sh))(?:\s(experiments/[\w/]+\.toml))?"
        made = re.findall(r"made at revision `(\w+)` with\s" + command, text, re.IGNORECASE)
        there = {script for script, _ in re.findall(command, text) if (REPOSITORY / script).exists()}
        assert {script for script, _ in re.findall(command, text)} == there | {script for _, script, _ in made}, shown(
            page
        )
        departed += [f"{revision}:{file}" for revision, *files in made for file in files if file]
    assert len(departed) > 10
    git = ["git", "-C", str(REPOSITORY)]
    shallow = completed([*git, "rev-parse", "--is-shallow-repository"]).stdout.strip()
    if shallow != "false":
        pytest.skip("the history is not here")
    lines = subprocess.run(
        [*git, "cat-file", "--batch-check"], input="\n".join(departed), capture_output=True, text=True, check=True
    ).stdout
    assert [line for line in lines.splitlines() if " blob " not in line] == []


# What kind a page is, and how long.


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name in KINDS], ids=shown)
def test_a_page_says_of_which_kind_it_is(page: Path) -> None:
    title, first = page.read_text().split("\n\n")[:2]
    assert title.startswith("# ")
    assert first.startswith(f"**{KINDS[page.parent.name]}.** ")


def words(page: Path) -> int:
    return len(page.read_text().split())


def test_documents_stay_short() -> None:
    """A page that is read to its end. Options, columns and the records of measurements are looked up."""
    assert words(PAGES[0]) <= 1_500
    assert words(DOCS / "decisions.md") <= 4_000
    assert {shown(page): words(page) for page in (DOCS / "how-to").glob("*.md") if words(page) > 800} == {}
    looked_up = (OPTIONS, DOCS / "reference" / "columns.md")
    read = [page for page in PAGES if page not in looked_up and page.parent.name != "results"]
    assert sum(words(page) for page in read) <= 35_000


def test_a_decision_has_at_most_three_sentences() -> None:
    items = [item for item in (DOCS / "decisions.md").read_text().split("\n\n") if item.startswith("**")]
    assert len(items) > 50
    for item in items:
        plain = re.sub(r"`[^`]*`|\d\.\d", "x", item)
        assert len(re.findall(r"[.!?](?:\*\*)?(?=\s|$)", plain)) <= 3, item


# What a page shows runs.


@pytest.fixture(scope="module")
def pictures(desk: Path) -> Path:
    """The desk with class folders of a few images as DATA, and checkpoints of one network."""
    for split, count in (("train", 6), ("test", 4)):
        for label in ("dark", "light"):
            folder = desk / "DATA" / split / label
            folder.mkdir(parents=True)
            for i in range(count):
                Image.new("RGB", (40, 30), (20 * i, 60, 90)).save(folder / f"{i}.png")
    write_checkpoints(desk)
    return desk


def write_checkpoints(folder: Path) -> None:
    """A network as a folder `before`, as `after.bin`, and as `wrapped.bin` under other names."""
    network = torch.nn.Linear(3, 2).state_dict()
    (folder / "before").mkdir()
    save_file(network, folder / "before" / "model.safetensors")
    torch.save(network, folder / "after.bin")
    torch.save({f"module.{name}": value for name, value in network.items()}, folder / "wrapped.bin")
    (folder / "names.txt").write_text("^(.*)$ -> module.\\1\n")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if marked_blocks(page) and page not in OF_ANOTHER_TEST], ids=shown
)
def test_marked_blocks_run(page: Path, pictures: Path) -> None:
    path = f"{pictures / 'build' / 'bin'}:{os.environ['PATH']}"
    for language, text in marked_blocks(page):
        assert language == "sh"
        done = completed(["bash", "-euo", "pipefail", "-c", text], env={**os.environ, "PATH": path}, cwd=pictures)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def test_pages_with_marked_blocks_are_several() -> None:
    assert len([page for page in PAGES if marked_blocks(page)]) >= 5


def test_files_that_a_page_shows_are_those() -> None:
    """The build compiles them, and other tests run them. An extension fits into 60 lines."""
    shown = [
        (page, *found)
        for page in PAGES
        for found in re.findall(
            r"already\shas\sthis\sexample,\s`([^`]+)`:\n\n```cpp\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL
        )
    ]
    assert [file for _, file, _ in shown] == [
        "lib/data/equalize.cpp",
        "schedules/inverse_sqrt.cpp",
        "method/sr1.cpp",
        "lib/run/hooks/batches.cpp",
    ]
    for page, file, text in shown:
        assert text == (REPOSITORY / file).read_text(), page
        assert len(text.splitlines()) <= 60


# What the sources say of pages.


def test_pages_that_a_source_cites_are_there() -> None:
    rooms = [
        path
        for path in REPOSITORY.iterdir()
        if path.is_dir() and path.name not in ("build", "runs") and path.name[0] != "."
    ]
    sources = [
        file
        for room in rooms
        for file in room.rglob("*")
        if file.suffix in (".py", ".sh", ".h", ".cpp", ".cu", ".cuh", ".cmake")
    ]
    cited = {page for file in sources for page in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text())}
    assert len(cited) > 5
    assert sorted(page for page in cited if not (REPOSITORY / page).is_file()) == []


def test_every_key_of_fastnn_is_on_the_page_of_mappings() -> None:
    sources = (REPOSITORY / "lib" / "imports" / "fastnn.cpp").read_text()
    keys = set(re.findall(r'\{"(\w+)",\s*Type::', sources))
    assert len(keys) > 60
    page = (DOCS / "reference" / "mapping.md").read_text()
    assert sorted(key for key in keys if f"`{key}`" not in page) == []


def test_the_reference_of_options_is_what_the_build_says(binaries: Path) -> None:
    script = REPOSITORY / "scripts" / "options_reference.py"
    done = completed([sys.executable, script, "--check"], env={"DIMRED_BUILD": str(binaries.parent)})
    assert done.returncode == 0, done.stderr


def test_every_column_is_on_the_page_of_columns() -> None:
    page = (DOCS / "reference" / "columns.md").read_text().partition("## steps.csv")
    for source, text in (("lib/run/curve.cpp", page[0]), ("stage2/telemetry.cpp", page[2])):
        header = re.search(r"constexpr auto header =(.*?);", (REPOSITORY / source).read_text(), re.DOTALL)[1]
        columns = "".join(re.findall(r'"(.*?)(?:\\n)?"', header)).split(",")
        assert len(columns) > 10
        assert [name for name in columns if f"`{name}`" not in text] == []


def test_no_merge_is_left_half() -> None:
    """No file of ours holds a conflict's marks."""
    marked = completed(["git", "grep", "-lE", "^(<<<<<<<|>>>>>>>) "], cwd=REPOSITORY)
    assert marked.stdout == ""
