"""clang-tidy over the units of a finished build that hold or include the files named on standard input.

A unit is what one compiler process gets: up to 16 files of a room, so that torch's headers are parsed once
for all of them. What no unit of this machine's build includes is named, and so is what the time did not
suffice for; only the latter and findings are a failure.

    git ls-files '*.cpp' '*.h' | .venv/bin/python scripts/lint_tidy.py [MINUTES]
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
# clang reads no precompiled header of g++, which the files can do without, and knows neither its parameters nor its
# omp.h nor all of its warnings; after an error, and with -Werror each of these is one, the analyzer would not run.
ONLY_GCC = re.compile(r" -Winvalid-pch -include \S*cmake_pch.hxx| -fpch-preprocess| -fopenmp| --param=\S*")


def command_for_clang(entry):
    """A unit's own, or for a .cu the host's side of it: clang needs the toolkit's headers and no library of its device."""
    if not entry["file"].endswith(".cu"):
        return ONLY_GCC.sub("", entry["command"]) + " -Wno-unknown-warning-option"
    toolkit = pathlib.Path(entry["command"].split()[0]).parent.parent
    return f"clang++ -x cuda --cuda-host-only --cuda-path={toolkit} -nocudalib -std=c++20 -I{ROOT} -c {entry['file']}"


def built_from():
    """Unit -> the files of the repository that it is built from, as the last build saw them."""
    lines = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    files = {}
    for block in filter(None, lines.split("\n\n")):
        target, *paths = block.splitlines()
        names = {os.path.relpath(BUILD / path.strip(), ROOT) for path in paths}
        files[target.split(":")[0]] = {name for name in names if not name.startswith(("..", ".venv/", "build/"))}
    return files


def units():
    """The build's units with the files they are made of; writes their commands for clang beside the build's own."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    files = built_from()
    found = {}
    for entry in commands:
        target = re.search(r" -o (\S+)", entry["command"])[1]
        if target not in files:
            sys.exit(f"lint: {target} was never built, so what it includes is unknown: scripts/setup.sh --tests first")
        entry["command"] = command_for_clang(entry)
        is_of_tests = entry["file"].startswith(f"{BUILD}/tests/")
        is_compiled_once_more = is_of_tests and not any(name.startswith("tests/") and name.endswith(".cpp") for name in files[target])
        if not is_compiled_once_more:
            found[entry["file"]] = files[target]
    (BUILD / "lint").mkdir(exist_ok=True)
    (BUILD / "lint" / "compile_commands.json").write_text(json.dumps(commands))
    return found


def tidy(unit, deadline):
    """What clang-tidy says of a unit: None where the time is over."""
    if time.monotonic() > deadline:
        return None
    # A unit lies in build/, so that clang-tidy itself would find the root's configuration alone.
    folder = "tests/" if unit.startswith(f"{BUILD}/tests/") else ""
    command = [ROOT / ".venv/bin/clang-tidy", "-p", BUILD / "lint", "--quiet", f"--config-file={folder}.clang-tidy", unit]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def main():
    deadline = time.monotonic() + 60 * float(sys.argv[1]) if len(sys.argv) > 1 else float("inf")
    wanted = set(sys.stdin.read().split())
    all_units = units()
    chosen = [unit for unit, files in all_units.items() if files & wanted]
    unseen = sorted(wanted - set().union(*all_units.values()))
    if unseen:
        print("lint: not seen by clang-tidy, as nothing built here includes them:", *unseen)
    jobs = int(os.environ.get("DIMRED_JOBS", 0)) or os.cpu_count()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        said = list(pool.map(lambda unit: tidy(unit, deadline), chosen))
    print("".join(text for text in said if text), end="")
    late = said.count(None)
    if late:
        print(f"lint: the time was over before clang-tidy had seen {late} of {len(chosen)} units: run scripts/lint.sh, then set .ci/linted")
    return 1 if any(text != "" for text in said) else 0


if __name__ == "__main__":
    sys.exit(main())
