"""Names that meet or mislead: lint_names.py FILE... (all C++ files, paths from here), with universal-ctags.

A unit is several files of a room, so their unnamed namespaces are one. A name of one file (in an unnamed
namespace, static or const) is reported where another file of the room has such a name, too, and where a header
that one of the room's files includes declares it in the same or an enclosing namespace: a call could reach the
wrong one without a word. Names that are all capitals are macros of tests. A type of the product whose name a
type of another file has too is reported, unless TWO_HOMES names it.
"""

import collections
import functools
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator

# Types that two rooms may call alike: the options of either stage, and what a merge and its inputs have as others do.
TWO_HOMES = {"Found", "Kind", "Options", "Pass", "Recipe", "Shard"}
TYPES = {"struct", "class", "union", "enum"}

KINDS = {"function", "prototype", "variable", "struct", "class", "union", "enum", "typedef"}

Namespaces = tuple[str, ...]


def tags(files: list[str]) -> Iterator[tuple[str, int, Namespaces, bool, str, str]]:
    """What `files` declare at namespace scope: (file, line, namespaces, whether of its file alone, name, kind)."""
    options = "--langmap=C++:+.h.inc.cu.cuh --languages=C++ --kinds-C++=+p --fields=+szn --output-format=json -f - -L -"
    command = ["ctags", *options.split()]
    done = subprocess.run(command, input="\n".join(files), capture_output=True, text=True, check=True)
    for tag in map(json.loads, done.stdout.splitlines()):
        is_of_namespace = tag.get("scopeKind", "namespace") == "namespace"
        if tag["kind"] not in KINDS or not is_of_namespace or re.fullmatch("[A-Z][A-Z0-9_]+", tag["name"]):
            continue
        scope = tag.get("scope", "").split("::")
        named = tuple(part for part in scope if part and not part.startswith("__anon"))
        text = tag.get("pattern", "").removeprefix("/^")
        is_internal = text.startswith("static ") or (tag["kind"] == "variable" and not text.startswith("extern"))
        is_private = is_internal or any("__anon" in part for part in scope)
        yield tag["path"], tag["line"], named, is_private, tag["name"], tag["kind"]


@functools.cache
def included(file: str) -> list[str]:
    """The files of the repository that `file` includes itself."""
    names = re.findall(r'^#include "(.+)"', pathlib.Path(file).read_text(), re.MULTILINE)
    places = (pathlib.Path(folder, name) for name in names for folder in ("", "lib"))
    return [str(place) for place in places if place.is_file()]


def closure(files: Iterable[str]) -> set[str]:
    seen, left = set(), list(files)
    while left:
        file = left.pop()
        if file not in seen:
            seen.add(file)
            left.extend(included(file))
    return seen


def room_of(file: str) -> str:
    parts = pathlib.PurePath(file).parts
    return "/".join(parts[: 2 if parts[0] in ("tests", "lib") else 1])


def types_with_two_homes(types: Iterable[tuple[str, str, int]]) -> Iterator[str]:
    """types: (name, file, line) of the product's."""
    homes: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for name, path, line in types:
        homes[name].setdefault(path, line)
    for name, places in sorted(homes.items()):
        first, *others = (f"{path}:{line}" for path, line in sorted(places.items()))
        for other in others if name not in TWO_HOMES and not name.startswith("__anon") else ():
            yield f"{other}: {name} is a type of {first}, too"


def findings(files: list[str]) -> Iterator[str]:
    types: list[tuple[str, str, int]] = []
    private: dict[tuple[str, Namespaces, str], dict[str, int]] = collections.defaultdict(dict)  # file -> line
    shared: dict[tuple[Namespaces, str], list[tuple[str, int]]] = collections.defaultdict(list)  # (header, line)
    for path, line, namespaces, is_private, name, kind in tags(files):
        if kind in TYPES and not path.startswith(("tests/", "experiments/")):
            types.append((name, path, line))
        if path.endswith((".h", ".cuh")):
            shared[namespaces, name].append((path, line))
        elif is_private:
            private[room_of(path), namespaces, name].setdefault(path, line)
    yield from types_with_two_homes(types)
    visible = {room: closure(file for file in files if room_of(file) == room) for room in set(map(room_of, files))}
    for (room, namespaces, name), places in sorted(private.items()):
        first, *others = (f"{path}:{line}" for path, line in places.items())
        for other in others:
            yield f"{other}: {name} is a name of {first}, too"
        for length in range(len(namespaces) + 1):
            where = [f"{path}:{line}" for path, line in shared[namespaces[:length], name] if path in visible[room]]
            if where:
                yield f"{first}: {name} hides or overloads {'::'.join((*namespaces[:length], name))} of {where[0]}"


def main() -> int:
    found = list(findings(sys.argv[1:]))
    print("".join(f"{line}\n" for line in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
