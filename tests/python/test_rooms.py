"""The tree is what README says of it: every room and command is named, and a room links what it includes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import REPOSITORY

README = (REPOSITORY / "README.md").read_text()
KEYWORDS = ("SHARED", "ONLY", "EXCEPT", "ALSO", "LINKS", "LIBRARIES")


class Room(NamedTuple):
    """One call of dimred_room() in a CMakeLists.txt."""

    folder: Path
    arguments: dict[str, list[str]]  # keyword -> words

    def sources(self) -> list[Path]:
        """Its files and their headers; of a folder that holds several targets those that ONLY names."""
        if only := self.arguments.get("ONLY"):
            return [
                file
                for name in only
                for file in (self.folder / name, (self.folder / name).with_suffix(".h"))
                if file.exists()
            ]
        left_out = [self.folder / name for name in self.arguments.get("EXCEPT", [])]
        return [
            file
            for file in self.folder.rglob("*")
            if file.suffix in (".h", ".cpp", ".inc", ".cuh")
            and file not in left_out
            and not any((folder / "CMakeLists.txt").exists() for folder in inner_folders(file, self.folder))
        ]

    def included(self) -> set[str]:
        """Folders' names of the paths that it includes in quotes: of a room within a room, and first parts."""
        return {
            path.split("/")[1] if path.startswith("checkpoints/verbs/") else path.split("/")[0]
            for file in self.sources()
            for path in re.findall(r'^#include "(\w+/[^"]+)"', file.read_text(), re.MULTILINE)
        }


def inner_folders(file: Path, room: Path) -> list[Path]:
    """Folders between a file and its room, which may be rooms themselves."""
    return [folder for folder in file.parents if room in folder.parents]


def rooms() -> dict[str, Room]:
    found = {}
    patterns = ["*/CMakeLists.txt", "lib/*/CMakeLists.txt", "checkpoints/*/CMakeLists.txt"]
    for file in (file for pattern in patterns for file in REPOSITORY.glob(pattern)):
        for name, text in re.findall(r"^dimred_room\((\w+)([^)]*)\)", file.read_text(), re.MULTILINE):
            arguments: dict[str, list[str]] = {}
            keyword = ""
            for word in text.split():
                if word in KEYWORDS:
                    keyword = word
                else:
                    arguments.setdefault(keyword, []).append(word)
            found[name] = Room(file.parent, arguments)
    return found


ROOMS = rooms()


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_links_the_rooms_that_it_includes(name: str) -> None:
    room = ROOMS[name]
    links = set(room.arguments.get("LINKS", []))
    folders = {"commands" if ROOMS[link].folder.name == "commands" else link for link in links}
    assert room.included() & set(ROOMS) - {room.folder.name} - folders == set()


def test_the_engine_knows_no_files() -> None:
    """Values in, values out: no include of the rooms of files and runs, nor of a header that opens or prints."""
    engine = ROOMS["engine"]
    assert {"checkpoints", "run"} & ({*engine.arguments["LINKS"]} | engine.included()) == set()
    headers = {
        header
        for file in engine.sources()
        for header in re.findall(r'^#include [<"]([^>"]+)[>"]', file.read_text(), re.MULTILINE)
    }
    assert "engine/setup.h" in headers
    opening = {f"support/{name}.h" for name in ("atomic_file", "console", "list_files", "mapped_file", "open_file")}
    assert headers & (opening | {"filesystem", "fstream", "iostream"}) == set()


def test_readme_names_every_room() -> None:
    folders = {room.folder for room in ROOMS.values()}
    assert len(folders) > 15
    places = [folder.relative_to(REPOSITORY) for folder in folders]
    names = {place.name if place.parent.name == "lib" else f"{place}/" for place in places}
    assert sorted(name for name in names if f"`{name}`" not in README) == []


def test_readme_names_every_command() -> None:
    commands = re.findall(r'Subcommand\{\s*"(\w+)"', (REPOSITORY / "commands" / "front_main.cpp").read_text())
    assert len(commands) > 10
    assert sorted(name for name in commands if not re.search(rf"^\| .*`(dimred )?{name}\b", README, re.MULTILINE)) == []


def test_the_first_screen_is_short() -> None:
    entries = subprocess.run(
        ["git", "ls-tree", "--name-only", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(entries) <= 26
