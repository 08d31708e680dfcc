"""The blocks of docs/bring_your_own.md that are marked `test`, as they stand there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "bring_your_own.md"
BLOCK = re.compile(r"^```(\w+) test\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(*languages: str) -> list[tuple[str, str]]:
    """(language, text) in the page's order."""
    return [block for block in BLOCK.findall(PAGE.read_text()) if block[0] in languages]


@pytest.fixture(scope="module")
def desk(tmp_path_factory, binaries: Path) -> Path:
    """A folder that looks like the repository's root, with runs of its own."""
    folder = tmp_path_factory.mktemp("desk")
    for name in ("scripts", "experiments", ".venv"):
        (folder / name).symlink_to(REPOSITORY / name)
    (folder / "build").symlink_to(binaries.parent)
    return folder


def test_commands_and_programs_run(desk: Path) -> None:
    found = blocks("bash", "python")
    assert len(found) == 7
    for language, text in found:
        command = [sys.executable, "-c", text] if language == "python" else ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(command, cwd=desk, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    assert len((desk / "answers.csv").read_text().splitlines()) == 1 + 2 * 20
    assert (desk / "runs" / "pictures" / "export" / "1" / "model.onnx").exists()
    assert (desk / "runs" / "boost" / "model.pt").read_bytes() == (desk / "mine.pt").read_bytes()


def test_the_network_in_cpp_compiles(binaries: Path, tmp_path: Path) -> None:
    """With the command of a network that there is; the declaration is the page's line in models/network.h."""
    [(_, text)] = blocks("cpp")
    entries = json.loads((binaries.parent / "compile_commands.json").read_text())
    entry = next(entry for entry in entries if "/dimred_models.dir/" in entry["command"])
    declaration = ("namespace dimred::models { std::shared_ptr<Network> make_perceptron(const InputShape&, std::int64_t); }\n")
    source = tmp_path / "perceptron.cpp"
    source.write_text(text.replace('#include "models/network.h"\n', f'#include "models/network.h"\n{declaration}'))
    words = shlex.split(entry["command"])
    words = [str(source) if word == entry["file"] else word for word in words if word not in ("-c",)]
    words[words.index("-o") : words.index("-o") + 2] = ["-fsyntax-only"]
    done = subprocess.run(words, cwd=entry["directory"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
