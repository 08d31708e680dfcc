"""How many faults the tests see: 60 small faults, ten a room, chosen by chance, and the test that sees each.

python3 scripts/mutations.py --tree CHECKOUT --folder WORK --seed 1

CHECKOUT is a clean git checkout whose build/ has the programs and the tests. One build holds all mutations, and the
environment variable DIMRED_MUTANT switches one on. The sources are changed during that build alone, and are restored
however it ends. The next ninja in CHECKOUT makes the real programs again. A mutation that does not compile is replaced
by the next one. For each mutation, the room's C++ tests run first, then its Python tests; the first failure ends them,
and a test that hangs has seen it, too. The same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mutation_places import Drawn, Place, first_apart, in_random_order, rewritten

VARIABLE = "DIMRED_MUTANT"
HEADER = f"""#pragma once
#include <cstdlib>
// What a mutation may well provoke; the build is to stop at other warnings as before.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic warning "-Warray-bounds"
#pragma GCC diagnostic warning "-Wstringop-overflow"
#pragma GCC diagnostic warning "-Wstringop-overread"
#pragma GCC diagnostic warning "-Wnonnull"
#pragma GCC diagnostic warning "-Wuse-after-free"
#pragma GCC diagnostic warning "-Wdangling-pointer"
#pragma GCC diagnostic warning "-Waggressive-loop-optimizations"
#pragma GCC diagnostic warning "-Wfree-nonheap-object"
#endif
namespace dimred {{
inline bool mutant(int number) {{
  static const int chosen = [] {{
    const char* text = std::getenv("{VARIABLE}");
    return text == nullptr ? 0 : std::atoi(text);
  }}();
  return chosen == number;
}}
}}  // namespace dimred
"""


@dataclass(frozen=True)
class Room:
    """Folders of product code, and the tests that see it: names of ctest, then files of tests/python.

    What a checkout does not have is passed over, so that earlier revisions can be measured, too.
    """

    name: str
    folders: tuple[str, ...]
    suites: tuple[str, ...]
    python: tuple[str, ...]


ROOMS = (
    Room(
        "checkpoints",
        ("checkpoints",),
        ("checkpoints", "verbs", "merge", "pca", "commands", "run"),
        ("test_inspect", "test_convert", "test_rank_files", "test_diff", "test_weight_files", "test_paths"),
    ),
    Room("merge", ("merge",), ("merge", "commands"), ("test_merge_kinds", "test_readouts", "test_convert")),
    Room("pca", ("pca",), ("pca", "commands", "stage2"), ("test_trajectory", "test_outputs", "test_package")),
    Room(
        "engine and run",
        ("lib/engine", "lib/run", "lib/training"),
        ("engine", "run", "training", "stage1", "stage2", "serving", "trainer_commands"),
        ("test_run_control", "test_runs", "test_transfer", "test_margin_softmax", "test_precision", "test_ranks"),
    ),
    Room(
        "data",
        ("lib/data",),
        ("data", "engine"),
        ("test_data_tools", "test_record_files", "test_images", "test_decode", "test_image_pipeline"),
    ),
    Room(
        "stage 2 and method",
        ("stage2", "method"),
        ("method", "stage2", "trainer_commands"),
        ("test_subspace_optimizer", "test_presets", "test_methods", "test_mindspore"),
    ),
)
TOOLS = ("programs", "python_package", "image_tool", "replay_tool", "logits_tool", "head_tool", "verify_tool")


class Refused(ValueError):
    """Something that cannot be done, in one line."""


class Stopped(Exception):
    """The run ends before a mutation has its result."""


def run(command: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder and keeps what it prints."""
    return subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True, check=False)


def run_ninja(build: Path, words: Sequence[str]) -> tuple[int, str]:
    """Its exit code and output. No compiler goes on when this program is stopped: ninja ends its own."""
    with subprocess.Popen(
        ["ninja", "-C", str(build), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    return process.returncode, output


def end_group(group: int) -> None:
    """Ends a process that leads a group, and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def git(tree: Path, *words: str) -> str:
    """The output of git; raises Refused where it fails."""
    done = run(["git", *words], tree)
    if done.returncode:
        raise Refused(f"git {words[0]} in {tree}: {done.stderr.strip() or 'no output'}")
    return done.stdout


class Tree:
    """The checkout, its compile commands, and its sources with and without mutations."""

    def __init__(self, tree: Path, build: Path, folder: Path) -> None:
        """Restores what a killed run left changed; raises Refused for a checkout that is not clean."""
        self.path, self.build, self.folder = tree, build, folder
        self.header, self.changed = folder / "mutants.h", folder / "changed.json"
        folder.mkdir(parents=True, exist_ok=True)
        self.header.write_text(HEADER)
        self.restore()
        if git(tree, "status", "--porcelain", "--untracked-files=no").strip():
            raise Refused(f"--tree needs a checkout without changes, received {tree}")
        commands = build / "compile_commands.json"
        if not commands.is_file():
            raise Refused(f"--tree needs a build with the tests; {commands} is missing")
        self.revision = git(tree, "rev-parse", "HEAD").strip()
        self.commands = commands_by_file(json.loads(commands.read_text()))

    def texts(self, room: Room) -> dict[str, str]:
        """The sources of a room that the build compiles."""
        folders = [folder for folder in room.folders if (self.path / folder).is_dir()]
        names = git(self.path, "ls-files", "--", *folders).splitlines() if folders else []
        kept = [name for name in names if name.endswith(".cpp") and str(self.path / name) in self.commands]
        return {name: (self.path / name).read_text() for name in kept}

    def with_mutations(self, file: str, mutations: dict[int, Place]) -> str:
        """A source with its mutations."""
        path = self.path / file
        return rewritten(git(self.path, "show", f"HEAD:{file}"), str(path), str(self.header), mutations)

    def errors(self, file: str, mutations: dict[int, Place]) -> str:
        """What the compiler says of a source with these mutations; empty where it compiles."""
        number = "_".join(map(str, sorted(mutations)))
        copy = self.folder / f"check_{number}.cpp"
        copy.write_text(self.with_mutations(file, mutations))
        command, folder = self.commands[str(self.path / file)]
        own = ["-fsyntax-only", "-iquote", str((self.path / file).parent), str(copy)]
        done = run([*command, *own], folder)
        copy.unlink()
        return done.stderr or "failed" if done.returncode else ""

    def restore(self) -> None:
        """Takes the changed sources back; a second Ctrl-C waits."""
        if not self.changed.exists():
            return
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            git(self.path, "checkout", "HEAD", "--", *json.loads(self.changed.read_text()))
            self.changed.unlink()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    @contextmanager
    def mutated(self, texts: dict[str, str]) -> Iterator[None]:
        """The checkout with these texts in the place of its sources, until the block ends."""
        temporary = self.changed.with_suffix(".tmp")
        temporary.write_text(json.dumps(sorted(texts)))
        temporary.rename(self.changed)
        try:
            for file, text in texts.items():
                (self.path / file).write_text(text)
            yield
        finally:
            self.restore()


def commands_by_file(database: Iterable[dict[str, Any]]) -> dict[str, tuple[list[str], Path]]:
    """Source -> the words that compile it, without input and output, and the folder where; of unity builds, too."""
    found: dict[str, tuple[list[str], Path]] = {}
    for entry in database:
        words = entry.get("arguments") or shlex.split(entry["command"])
        if "/tests/" in entry["file"] or "/fuzz/" in entry["file"]:
            continue
        output = words.index("-o") if "-o" in words else len(words)
        command = [word for word in words[:output] + words[output + 2 :] if word not in ("-c", entry["file"])]
        unit = Path(entry["file"])
        is_unity = "/Unity/" in entry["file"] and unit.is_file()
        files = re.findall(r'#include "(.+\.cpp)"', unit.read_text()) if is_unity else [entry["file"]]
        for file in files:
            found.setdefault(file, (command, Path(entry["directory"])))
    return found


def lines_of_errors(text: str, path: str) -> set[int]:
    """The lines of a file that the compiler's errors name."""
    return {int(line) for line in re.findall(rf"^{re.escape(path)}:(\d+):\d+: error:", text, re.MULTILINE)}


def spans(text: str, place: Place) -> range:
    """The lines of a place; `text` is the file's."""
    return range(text.count("\n", 0, place.start) + 1, text.count("\n", 0, place.end) + 2)


class Choice:
    """The mutations, by number from 1, ten a room."""

    def __init__(self, tree: Tree, seed: int, each: int, jobs: int) -> None:
        """Nothing is drawn yet."""
        self.tree, self.each, self.jobs = tree, each, jobs
        self.texts = {room.name: tree.texts(room) for room in ROOMS}
        self.orders = {name: in_random_order(name, texts, seed) for name, texts in self.texts.items()}
        self.refused: list[Drawn] = []

    def drawn(self) -> list[Drawn]:
        """The first ones of each room that are not refused."""
        return [one for name in self.orders for one in first_apart(self.orders[name], self.each, self.refused)]

    def numbered(self) -> dict[int, Drawn]:
        """Every mutation by its number."""
        return dict(enumerate(self.drawn(), 1))

    def by_file(self) -> dict[str, dict[int, Place]]:
        """File -> its mutations."""
        found: dict[str, dict[int, Place]] = {}
        for number, one in self.numbered().items():
            found.setdefault(one.file, {})[number] = one.place
        return found

    def check(self) -> None:
        """Draws until every source compiles with its mutations."""
        clean: set[tuple[str, tuple[Place, ...]]] = set()
        while True:
            pending = {
                file: mutations
                for file, mutations in self.by_file().items()
                if (file, tuple(mutations.values())) not in clean
            }
            if not pending:
                return
            say(f"checks {len(pending)} sources")
            with ThreadPoolExecutor(self.jobs) as pool:
                answers = list(pool.map(lambda item: self.tree.errors(*item), pending.items()))
            bad: list[Drawn] = []
            for (file, mutations), errors in zip(pending.items(), answers, strict=True):
                refused = self.bad_ones(file, mutations, errors) if errors else []
                if not refused:
                    clean.add((file, tuple(mutations.values())))
                bad += refused
            self.refused += bad

    def named_by(self, errors: str, file: str, mutations: dict[int, Place]) -> list[int]:
        """The mutations on the lines that the compiler's errors name."""
        text = next(texts[file] for texts in self.texts.values() if file in texts)
        lines = lines_of_errors(errors, str(self.tree.path / file))
        return [number for number, place in mutations.items() if lines & {*spans(text, place)}]

    def bad_ones(self, file: str, mutations: dict[int, Place], errors: str) -> list[Drawn]:
        """The mutations that do not compile: those that the errors name, or else each that fails alone.

        A source that needs the others of its unity build has none: the build itself checks it.
        """
        if self.tree.errors(file, {}):
            say(f"{file} does not compile alone; the build checks its mutations")
            return []
        bad = self.named_by(errors, file, mutations)
        bad = bad or [number for number, place in mutations.items() if self.tree.errors(file, {number: place})]
        if not bad:
            raise Refused(f"{file} does not compile although each of its mutations does: {errors.strip()[:300]}")
        numbered = self.numbered()
        return [numbered[number] for number in bad]


def say(text: str) -> None:
    """One line with the time."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


@dataclass(frozen=True)
class Test:
    """A test as ctest starts it."""

    name: str
    command: tuple[str, ...]
    folder: str
    environment: tuple[tuple[str, str], ...]


def tests_of(listing: dict[str, Any]) -> dict[str, Test]:
    """Name -> test, of `ctest --show-only=json-v1`; such that the first failure ends it."""
    found = {}
    for test in listing["tests"]:
        properties = {item["name"]: item["value"] for item in test.get("properties", [])}
        command = test.get("command")
        if not command:  # ctest knows no program
            if any(test["name"] in room.suites for room in ROOMS):
                raise Refused(f"--tree needs a build of the tests; the program of {test['name']} is missing")
            continue
        stop = "-x" if "pytest" in command else "--gtest_fail_fast" if command[0].endswith("_test") else None
        pairs = tuple((text.partition("=")[0], text.partition("=")[2]) for text in properties.get("ENVIRONMENT", []))
        words = (*command, stop) if stop else tuple(command)
        found[test["name"]] = Test(test["name"], words, properties.get("WORKING_DIRECTORY", "."), pairs)
    return found


def limits_of(memory: float) -> list[str]:
    """The words that limit a program: a mutation may ask for all memory, or write on and on.

    A test has a sparse file of 1 TB, and another sets the limit of files itself.
    """
    return ["prlimit", f"--data={int(memory * (1 << 30))}", f"--fsize={2 << 40}:unlimited", "--core=0"]


def failure_in(output: str, code: int) -> str:
    """The case that failed, of GoogleTest's or pytest's output, or the signal that ended the program."""
    named = re.search(
        r"^\[  FAILED  \] ([\w/.]+)|^(?:FAILED|ERROR) \S*?(test_\w+\.py(?:::[^\s\[]+)?)", output, re.MULTILINE
    )
    if named:
        return named[1] or named[2]
    return f"ended by signal {-code}" if code < 0 else f"exit code {code}"


class Runner:
    """Starts tests with a mutation, each within a limit of time."""

    def __init__(self, tree: Tree, tests: dict[str, Test], memory: float, most: float) -> None:
        """`most`: seconds of a test, whatever it takes without a mutation."""
        self.tree, self.tests, self.memory, self.most = tree, tests, memory, most
        self.seconds: dict[str, float | None] = {}  # without a mutation; None: the test fails then
        self.locks = {name: threading.Lock() for name in tests}
        self.running: set[int] = set()  # groups of processes
        self.stopped = threading.Event()

    def start(self, name: str, number: int, limit: float) -> tuple[str, float]:
        """Why the test failed (empty where it passed), and its seconds."""
        test = self.tests[name]
        began = time.monotonic()
        (self.tree.folder / "tmp").mkdir(exist_ok=True)
        with (
            tempfile.TemporaryDirectory(dir=self.tree.folder / "tmp", ignore_cleanup_errors=True) as place,
            subprocess.Popen(
                [*limits_of(self.memory), *test.command],
                cwd=test.folder,
                env=os.environ | dict(test.environment) | {"TMPDIR": place, VARIABLE: str(number)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            ) as process,
        ):
            self.running.add(process.pid)
            try:
                output, _ = process.communicate(timeout=limit)
                why = failure_in(output, process.returncode) if process.returncode else ""
            except subprocess.TimeoutExpired:
                why = f"hangs for {limit:.0f} s"
            finally:
                self.running.discard(process.pid)
                end_group(process.pid)
        return why, time.monotonic() - began

    def stop(self) -> None:
        """Ends the tests that run; what they would have said is no result."""
        self.stopped.set()
        for group in list(self.running):
            end_group(group)

    def usual(self, name: str) -> float | None:
        """The seconds without a mutation; None where the test fails or takes too long, and so cannot judge."""
        with self.locks[name]:
            if name not in self.seconds:
                why, seconds = self.start(name, 0, self.most)
                self.seconds[name] = None if why else seconds
                say(f"{name}: {seconds:.1f} s without a mutation" + (f"; left out: {why}" if why else ""))
            return self.seconds[name]

    def require_suites(self, rooms: Iterable[Room], jobs: int) -> None:
        """Runs the rooms' C++ tests without a mutation; raises Refused for a room without any that passes."""
        rooms = list(rooms)
        names = dict.fromkeys(name for room in rooms for name in room.suites if name in self.tests)
        with ThreadPoolExecutor(jobs) as pool:
            sound = dict(zip(names, pool.map(self.usual, names), strict=True))
        for room in rooms:
            if not any(sound.get(name) for name in room.suites):
                raise Refused(f"none of the C++ tests of {room.name} passes without a mutation")

    def caught_by(self, room: Room, number: int, python_seconds: float) -> str:
        """The test that sees the mutation and why; empty where none does. Raises Stopped."""
        for name in (name for name in room.suites if name in self.tests):
            usual = self.usual(name)
            why, _ = ("", 0) if usual is None else self.start(name, number, min(self.most, 4 * usual + 20))
            if self.stopped.is_set():
                raise Stopped
            if why:
                return f"{name}: {why}"
        spent = 0.0
        for name in (f"python.{file}" for file in room.python if f"python.{file}" in self.tests):
            if spent >= python_seconds:
                break
            why, seconds = self.start(name, number, self.most)
            spent += seconds
            known = why and self.usual(name) is not None
            if self.stopped.is_set():
                raise Stopped
            if known:
                return f"{name}: {why}"
        return ""


class Record:
    """The JSON file: what was chosen, and what became of it."""

    def __init__(self, file: Path, key: dict[str, Any]) -> None:
        """Goes on with an earlier file of the same key; raises Refused for one of another."""
        self.file, self.lock = file, threading.Lock()
        self.content: dict[str, Any] = {"key": key, "binaries": None, "mutations": []}
        if file.exists():
            self.content = json.loads(file.read_text())
            if self.content.get("key") != key:
                raise Refused(f"{file} is of {self.content.get('key')}, now {key}; choose another --json or remove it")

    @property
    def mutations(self) -> list[dict[str, Any]]:
        """A dictionary for each; `caught` is missing until it is known, and empty for a survivor."""
        return self.content["mutations"]

    def is_complete(self) -> bool:
        """Whether every mutation has its result."""
        return bool(self.mutations) and all("caught" in one for one in self.mutations)

    def take(self, binaries: dict[str, list[int]], mutations: Sequence[dict[str, Any]]) -> None:
        """Takes a new build and its mutations; one that had a result before keeps it."""
        earlier = {json.dumps(one | {"caught": None}): one for one in self.mutations if "caught" in one}
        kept = [earlier.get(json.dumps(one | {"caught": None}), one) for one in mutations]
        self.content |= {"binaries": binaries, "mutations": kept}
        self.save()

    def save(self) -> None:
        """Replaces the file whole."""
        with self.lock:
            temporary = self.file.with_name(self.file.name + ".tmp")
            temporary.write_text(json.dumps(self.content, indent=1) + "\n")
            temporary.rename(self.file)


def stamp(build: Path) -> dict[str, list[int]]:
    """Sizes and times of the programs and libraries, by which the mutated build is known again."""
    files = [*build.glob("bin/*"), *build.glob("lib/*.so*"), *build.glob("python/dimred/*.so")]
    return {
        str(file.relative_to(build)): [file.stat().st_size, file.stat().st_mtime_ns]
        for file in sorted(files)
        if file.is_file()
    }


def targets_of(build: Path, tests: dict[str, Test]) -> list[str]:
    """What has to be built for the rooms' tests, as far as the build knows it."""
    suites = {Path(tests[name].command[0]).name for room in ROOMS for name in room.suites if name in tests}
    rules = (build / "build.ninja").read_text()
    return [name for name in (*sorted(suites), *TOOLS) if re.search(rf"^build (?:\S+/)?{name}: ", rules, re.MULTILINE)]


def build_mutants(tree: Tree, choice: Choice, targets: Sequence[str], jobs: int) -> None:
    """Makes the build with all mutations; those that only the real build refuses are replaced."""
    for _ in range(5):
        choice.check()
        files = choice.by_file()
        say(f"builds {len(choice.numbered())} mutations in {len(files)} sources")
        with tree.mutated({file: tree.with_mutations(file, mutations) for file, mutations in files.items()}):
            code, output = run_ninja(tree.build, ["-j", str(jobs), *targets])
        if code == 0:
            return
        log = tree.folder / "build.log"
        log.write_text(output)
        bad = [number for file, own in files.items() for number in choice.named_by(output, file, own)]
        if not bad:
            raise Refused(f"the build with the mutations failed; {log} says why")
        numbered = choice.numbered()
        choice.refused += [numbered[number] for number in bad]
    raise Refused(f"the build with the mutations failed five times; {tree.folder / 'build.log'} says why")


def entry(number: int, one: Drawn) -> dict[str, Any]:
    """A mutation in the record."""
    return {"number": number, "room": one.room, "file": one.file, **asdict(one.place)}


def table(mutations: Sequence[dict[str, Any]]) -> str:
    """A line for each mutation, and how many of each room were caught."""
    lines = []
    for one in mutations:
        caught = one.get("caught")
        state = "not run" if caught is None else caught or "SURVIVED"
        change = f"{one['near'][:70]} => {one['instead'][:70]}"
        lines.append(f"{one['number']:3} {one['file']}:{one['line']} | {change} | {state}")
    for room in dict.fromkeys(one["room"] for one in mutations):
        known = [one for one in mutations if one["room"] == room and "caught" in one]
        lines.append(f"{room}: {sum(bool(one['caught']) for one in known)} of {len(known)} caught")
    return "\n".join(lines)


def run_tests(runner: Runner, record: Record, jobs: int, python_seconds: float) -> None:
    """Runs the tests of every mutation that has no result yet."""
    chosen = {one["room"] for one in record.mutations if "caught" not in one}
    rooms = {room.name: room for room in ROOMS if room.name in chosen}
    runner.require_suites(rooms.values(), jobs)

    def judge(one: dict[str, Any]) -> None:
        if runner.stopped.is_set():
            return
        with suppress(Stopped):
            one["caught"] = runner.caught_by(rooms[one["room"]], one["number"], python_seconds)
            record.save()
            say(f"{one['number']} {one['file']}:{one['line']}: {one['caught'] or 'SURVIVED'}")

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for _ in pool.map(judge, [one for one in record.mutations if "caught" not in one]):
                pass
        except BaseException:
            runner.stop()
            raise


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, required=True, help="clean git checkout with a build of the tests")
    parser.add_argument("--build", type=Path, help="its build folder (default: TREE/build)")
    parser.add_argument("--folder", type=Path, required=True, help="folder for what the checks write")
    parser.add_argument("--json", type=Path, help="record of the results (default: FOLDER/mutations.json)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the choice (default: 1)")
    parser.add_argument("--each", type=int, default=10, help="mutations in each room (default: 10)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="mutations at a time (default: the cores)"
    )
    parser.add_argument("--memory", type=float, default=8, help="limit of a test's memory in GB (default: 8)")
    parser.add_argument("--seconds", type=float, default=300, help="limit of a test's time (default: 300)")
    parser.add_argument("--python_seconds", type=float, default=60, help="no Python test starts after (default: 60)")
    parser.add_argument("--list", action="store_true", help="only print the mutations that the seed draws, unchecked")
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> None:
    """Chooses, builds, runs and prints."""
    path = options.tree.resolve()
    tree = Tree(path, (options.build or path / "build").resolve(), options.folder.resolve())
    choice = Choice(tree, options.seed, options.each, options.jobs)
    if options.list:
        print(table([entry(number, one) for number, one in choice.numbered().items()]))
        return
    key = {"revision": tree.revision, "seed": options.seed, "each": options.each}
    record = Record(options.json or tree.folder / "mutations.json", key)
    if record.is_complete():
        print(table(record.mutations))
        return
    listing = run(["ctest", "--show-only=json-v1"], tree.build)
    if listing.returncode:
        raise Refused(f"ctest in {tree.build}: {listing.stderr.strip()}")
    tests = tests_of(json.loads(listing.stdout))
    if record.content["binaries"] != stamp(tree.build):
        build_mutants(tree, choice, targets_of(tree.build, tests), options.jobs)
        record.take(stamp(tree.build), [entry(number, one) for number, one in choice.numbered().items()])
    runner = Runner(tree, tests, options.memory, options.seconds)
    run_tests(runner, record, options.jobs, options.python_seconds)
    print(table(record.mutations))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; exit code 2 for what cannot be done."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        measure(parsed(arguments))
    except Refused as error:
        print(f"mutations: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
