"""Compiles each of the files named on standard input alone, as neither the unity build nor its precompiled header does.

    git ls-files '*.cpp' '*.h' | python3 scripts/lint_alone.py

A header is alone in a source that includes it first, and otherwise compiled itself. Only the syntax is checked, with
the flags of the last build. torch's largest header is precompiled for the files that include it by themselves anyway:
its names are then theirs, and it takes 6 s of the 8 s of such a file.
"""

import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PRECOMPILED = BUILD / "lint" / "torch_types.h"
HOLDS_TORCH_TYPES = re.compile(r"^#include <torch/(types\.h|utils\.h|nn/.+)>", re.MULTILINE)
KEPT = re.compile(r"\S*\+\+(?= )| (?:-isystem \S+|-[DI]\S+|-std=\S+|-m\S+|-fopenmp)")


def commands() -> dict[str, str]:
    """Source -> compiler and flags, of a unity build's units, too."""
    found: dict[str, str] = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        unit = pathlib.Path(entry["file"])
        sources = re.findall(r'^#include "(/.+)"', unit.read_text(), re.MULTILINE) if "/Unity/" in str(unit) else [unit]
        command = "".join(KEPT.findall(entry["command"]))
        found |= {str(pathlib.Path(source).relative_to(ROOT)): command for source in sources}
    return {source: command for source, command in found.items() if not source.startswith("build/")}


@functools.cache
def included(path: pathlib.Path) -> list[pathlib.Path]:
    """The files of the repository that a file includes, first to last."""
    names = re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE)
    places = (ROOT / folder / name for name in names for folder in ("", "lib"))
    return [place for place in places if place.is_file()]


def brings_torch_types(path: pathlib.Path, seen: set[pathlib.Path]) -> bool:
    """Whether a file includes the precompiled header by itself, perhaps through others of ours."""
    seen.add(path)
    return bool(HOLDS_TORCH_TYPES.search(path.read_text())) or any(
        brings_torch_types(other, seen) for other in included(path) if other not in seen
    )


def compile_alone(job: tuple[str, str]) -> str:
    """What the compiler says of a file; nothing where it compiles."""
    file, command = job
    flags = ["-include", str(PRECOMPILED)] if brings_torch_types(ROOT / file, set()) else []
    arguments = [*shlex.split(command), *flags, "-fsyntax-only", "-w", "-x", "c++", "-"]
    done = subprocess.run(
        arguments, input=f'#include "{file}"\n', cwd=ROOT, capture_output=True, text=True, check=False
    )
    return f"{file} does not compile alone:\n{done.stderr}" if done.returncode else ""


def precompile(command: str) -> None:
    PRECOMPILED.parent.mkdir(exist_ok=True)
    PRECOMPILED.write_text("#include <torch/types.h>\n")
    subprocess.run(
        [*shlex.split(command), "-w", "-x", "c++-header", PRECOMPILED, "-o", f"{PRECOMPILED}.gch"], check=True
    )


def main() -> int:
    command_of = commands()
    wanted = [pathlib.Path(name) for name in sys.stdin.read().split()]
    sources = [path for path in wanted if path.suffix == ".cpp"]
    firsts = {included(ROOT / source)[0] for source in sources if included(ROOT / source)}
    headers = [path for path in wanted if path.suffix == ".h" and ROOT / path not in firsts]
    jobs, unseen = [], []
    for path in [*headers, *sources]:
        # A header has the flags of the sources beside it, of those with torch in sight where there are some.
        beside = [command for source, command in command_of.items() if pathlib.Path(source).parent == path.parent]
        command = command_of.get(str(path)) or (max(beside, key=len, default=None) if path in headers else None)
        jobs.append((str(path), command)) if command else unseen.append(str(path))
    if unseen:
        print("lint: these files were not compiled alone, because the build has no flags for them:", *unseen)
    with_torch = next((command for _, command in jobs if "/torch/" in command), None)
    if with_torch:
        precompile(with_torch)
    failed = False
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("DIMRED_JOBS") or os.cpu_count() or 1)) as pool:
        for text in filter(None, pool.map(compile_alone, jobs)):
            print(text, end="", flush=True)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
