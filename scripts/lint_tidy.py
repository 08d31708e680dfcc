"""clang-tidy over the units of a finished build that hold or include the files named on standard input.

A unit is what one compiler process gets: up to 16 files of a room, so that torch's headers are parsed once
for all of them. What no unit of this machine's build includes is named, which is no failure.

    git ls-files '*.cpp' '*.h' | python3 scripts/lint_tidy.py
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
# clang reads no precompiled header of g++, which the files can do without, and knows neither its parameters nor its
# omp.h nor all of its warnings; after an error, and with -Werror each of these is one, the analyzer would not run.
ONLY_GCC = re.compile(r" -Winvalid-pch -include \S*cmake_pch.hxx| -fpch-preprocess| -fopenmp| --param=\S*")


def command_for_clang(entry: dict[str, str]) -> str:
    """A unit's own, or for a .cu the host's side of it, for which clang needs the toolkit's headers alone."""
    if not entry["file"].endswith(".cu"):
        return ONLY_GCC.sub("", entry["command"]) + " -Wno-unknown-warning-option"
    toolkit = pathlib.Path(entry["command"].split()[0]).parent.parent
    flags = f"--cuda-host-only --cuda-path={toolkit} -nocudalib -std=c++20 -I{ROOT} -I{ROOT}/lib"
    return f"clang++ -x cuda {flags} -c {entry['file']}"


def built_from() -> dict[str, set[str]]:
    """Unit -> the files of the repository that it is built from, as the last build saw them."""
    lines = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    files = {}
    for block in filter(None, lines.split("\n\n")):
        target, *paths = block.splitlines()
        names = {os.path.relpath(BUILD / path.strip(), ROOT) for path in paths}
        files[target.split(":")[0]] = {name for name in names if not name.startswith(("..", ".venv/", "build/"))}
    return files


def units() -> dict[str, set[str]]:
    """The build's units with the files they are made of; writes their commands for clang beside the build's own."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    files = built_from()
    found = {}
    for entry in commands:
        target = entry["command"].split(" -o ")[1].split()[0]
        if target not in files:
            sys.exit(f"lint: {target} was never built, so its includes are unknown; run scripts/setup.sh --tests first")
        entry["command"] = command_for_clang(entry)
        is_of_tests = entry["file"].startswith(f"{BUILD}/tests/")
        is_compiled_once_more = is_of_tests and not any(
            name.startswith("tests/") and name.endswith(".cpp") for name in files[target]
        )
        if not is_compiled_once_more:
            found[entry["file"]] = files[target]
    (BUILD / "lint").mkdir(exist_ok=True)
    (BUILD / "lint" / "compile_commands.json").write_text(json.dumps(commands))
    return found


def tidy(unit: str) -> str:
    """What clang-tidy says of a unit."""
    # A unit lies in build/, so that clang-tidy itself would find the root's configuration alone.
    folder = "tests/" if unit.startswith(f"{BUILD}/tests/") else ""
    options = ["--quiet", f"--config-file={folder}.clang-tidy"]
    command = [str(ROOT / ".venv/bin/clang-tidy"), "-p", str(BUILD / "lint"), *options, unit]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def main() -> int:
    wanted = set(sys.stdin.read().split())
    all_units = units()
    chosen = [unit for unit, files in all_units.items() if files & wanted]
    unseen = sorted(wanted - set().union(*all_units.values()))
    if unseen:
        print("lint: clang-tidy did not check these files, because no unit of the build includes them:", *unseen)
    jobs = int(os.environ.get("DIMRED_JOBS") or os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        said = list(pool.map(tidy, chosen))
    print("".join(said), end="")
    return 1 if any(said) else 0


if __name__ == "__main__":
    sys.exit(main())
