"""The marked blocks of the tutorial with a network and data of one's own, and of the page of a network in C++."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from cli import completed
from conftest import REPOSITORY, marked_blocks

DOCS = REPOSITORY / "docs"


def test_commands_and_programs_run(desk: Path) -> None:
    found = marked_blocks(DOCS / "tutorials" / "own_data_and_network.md")
    assert len(found) == 7
    for language, text in found:
        command = [sys.executable, "-c", text] if language == "python" else ["bash", "-euo", "pipefail", "-c", text]
        done = completed(command, cwd=desk)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    assert len((desk / "answers.csv").read_text().splitlines()) == 1 + 2 * 20
    assert (desk / "runs" / "pictures" / "export" / "1" / "model.onnx").exists()
    assert (desk / "runs" / "boost" / "model.pt").read_bytes() == (desk / "mine.pt").read_bytes()


def test_the_network_in_cpp_compiles(binaries: Path, tmp_path: Path) -> None:
    """The command is that of an existing network; the declaration is the page's line in models/network.h."""
    [(_, text)] = marked_blocks(DOCS / "how-to" / "add_a_network.md")
    entries = json.loads((binaries.parent / "compile_commands.json").read_text())
    entry = next(entry for entry in entries if "/dimred_models.dir/" in entry["command"])
    declaration = (
        "namespace dimred::models { std::shared_ptr<Network> make_perceptron(const InputShape&, std::int64_t); }\n"
    )
    source = tmp_path / "perceptron.cpp"
    source.write_text(text.replace('#include "models/network.h"\n', f'#include "models/network.h"\n{declaration}'))
    words = shlex.split(entry["command"])
    words = [str(source) if word == entry["file"] else word for word in words if word not in ("-c",)]
    words[words.index("-o") : words.index("-o") + 2] = ["-fsyntax-only"]
    done = completed(words, cwd=entry["directory"])
    assert done.returncode == 0, done.stderr
