"""A league of fault survival: one small training, written with dimred and with each peer as its own documentation says, meets each fault.

    .venv/bin/python experiments/benchmarks/league.py [--trials 3] [--contestants dimred dcp ...] [--faults kill save ...] [--mindspore PYTHON]

Everybody trains the ConvNet on 256 images for 15 epochs of 4 steps and saves after each epoch. A trial starts it, lets the fault happen, and
starts the same command again, once and without a hand's help. Its judgement is made of what was printed and of bits. Prints the table and
writes it to --output. The full disk needs the right to mount a tmpfs.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import hashlib
import importlib
import importlib.metadata
import json
import multiprocessing
import os
import platform
import random
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))
from faults import compare
from faults.damage import Damage
from faults.launch import Fault
from faults.workplace import write_data
from machine import processor, processor_seconds

EPOCHS, INTERVAL = 15, 4  # steps between saves: an epoch
STEPS = EPOCHS * INTERVAL
LIMIT = 180.0  # seconds for any process
TMPFS = 24 << 20
COLD = 2  # restarts of a peer that are processes of their own from the start
# A line with one of these words, which the undisturbed run does not print, is a message about the fault.
MESSAGE = re.compile(r"damag|corrupt|invalid|mismatch|checksum|crc|error|fail|cannot|can't|unexpected|missing|truncat|incomplete|"
                     r"no space|not enough|not whole|refus|another process|lock|SIGTERM|interrupt|terminat|signal", re.IGNORECASE)  # fmt: skip
SAID = re.compile(r"(step|saved|resumed|digest|final) (\S+)(?: (\S+))?")
DIMRED_STEP = re.compile(r"step (\d+)  loss")
DIMRED_RESUMED = re.compile(r"continuing at epoch \d+, step (\d+)")


@dataclass(frozen=True)
class Contestant:
    """How it is started, and where its saves are. `newest` gives the files that its own resume would take up."""

    name: str
    title: str
    command: Callable[[Path, Path, bool], list[str]]  # folder, data, mutate
    newest: Callable[[Path], list[Path]]
    saves: Callable[[Path], Path]
    version: str = ""
    forked: bool = False  # command[2:] are words for league_peers.main()


@dataclass
class Told:
    """What a process has printed so far."""

    steps: list[tuple[float, int]] = field(default_factory=list)  # when, which
    processor: float = 0.0  # seconds that the process had used at its first step
    saved: int = 0
    resumed: int | None = None
    loaded: str = ""
    digests: dict[int, str] = field(default_factory=dict)
    final: str = ""
    lines: list[str] = field(default_factory=list)

    def read(self, line: str, now: float) -> None:
        self.lines.append(line)
        if found := DIMRED_STEP.match(line):
            self.steps.append((now, int(found[1])))
        elif found := DIMRED_RESUMED.search(line):
            self.resumed = int(found[1])
        elif found := SAID.fullmatch(line):
            word, value, text = found[1], found[2], found[3] or ""
            if word == "step":
                self.steps.append((now, int(value)))
            elif word == "saved":
                self.saved = int(value)
            elif word == "resumed":
                self.resumed, self.loaded = int(value), text
            elif word == "digest":
                self.digests[int(value)] = text
            else:
                self.final = value

    @property
    def last(self) -> int:
        return self.steps[-1][1] if self.steps else 0


def run_peer(words: list[str], output: int) -> None:
    """In a forked process."""
    import league_peers

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for stream in (1, 2):
        os.dup2(output, stream)
    sys.exit(league_peers.main(words))


class Forked:
    """A peer's process, forked behind its imports, with what is used of subprocess.Popen."""

    def __init__(self, words: list[str]) -> None:
        reading, writing = os.pipe()
        self.stdout = os.fdopen(reading, errors="replace")
        self._process = multiprocessing.get_context("fork").Process(target=run_peer, args=(words, writing))
        self._process.start()
        os.close(writing)
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode

    returncode = property(poll)

    def kill(self) -> None:
        self._process.kill()

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Running:
    """A started contestant: `command`, or the words of a peer that is forked."""

    def __init__(self, command: list[str], environment: dict[str, str], fork: bool = False) -> None:
        self.started, self.told = time.monotonic(), Told()
        self.process: Forked | subprocess.Popen[str] = Forked(command) if fork else subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment, cwd=REPOSITORY
        )  # fmt: skip
        assert self.process.stdout
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self.told.read(line.rstrip("\n"), time.monotonic())
            if len(self.told.steps) == 1 and not self.told.processor:
                self.told.processor = processor_seconds(self.process.pid)

    def goes_on(self) -> bool:
        if time.monotonic() - self.started > LIMIT:
            self.process.kill()
        return self.process.poll() is None

    def wait_until(self, ready: Callable[[], bool], pause: float = 0.002) -> bool:
        """False: it ended before."""
        while not ready():
            if not self.goes_on():
                return False
            time.sleep(pause)
        return True

    def end(self) -> tuple[int, Told]:
        """Its exit code and all it printed."""
        self.wait_until(lambda: False, 0.02)
        self._reader.join(10)
        return self.process.returncode, self.told


@dataclass
class Reference:
    """An uninterrupted run."""

    final: str
    digests: dict[int, str]  # step of a save -> bits
    lines: set[str]
    seconds: float  # from the first step to the last
    changes: int = 1  # of the folder of saves that were seen


@dataclass
class Trial:
    """What happened, in facts; verdict() judges it."""

    told: int  # last step before the fault
    saved: int  # newest save that was complete, and that the fault has left whole
    code: int
    resumed: int | None
    loaded: str
    final: str
    last: int  # step
    expected: str  # bits at the end
    loaded_expected: str
    message: bool
    seconds: float | None  # from the restart to its first step
    processor: float = 0.0  # of them


@dataclass
class Verdict:
    survived: bool
    repeated: int
    lost: int
    silent: bool
    equal: bool
    seconds: float | None
    processor: float = 0.0


def verdict(trial: Trial) -> Verdict:
    """Survived: the restart came to the end by itself. Lost: steps of whole saves that were not taken up. Silent: other bits were loaded, or
    came out, than without the fault, and no line said so."""
    survived = trial.code == 0 and trial.last >= STEPS
    resumed = trial.resumed or 0
    wrong_start = bool(trial.loaded and trial.loaded_expected) and trial.loaded != trial.loaded_expected
    equal = survived and trial.final == trial.expected
    silent = survived and not trial.message and (wrong_start or not equal)
    return Verdict(survived, max(0, trial.told - resumed), max(0, trial.saved - resumed), silent, equal, trial.seconds, trial.processor)


def plain(line: str) -> str:
    """Without what differs from run to run."""
    return re.sub(r"(/\S+|\d+)", "#", line)


def has_message(lines: Sequence[str], reference: set[str]) -> bool:
    """Of the fault."""
    return any(MESSAGE.search(line) and plain(line) not in reference for line in lines)


# The contestants.


def digest_of(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def weights_and_momentum(state: Path) -> str:
    """What the peers' digests are of, too."""
    return digest_of([(state / name).read_bytes() for name in ("weights.f32", "momentum.f32") if (state / name).exists()])


def dimred_contestant(build: Path) -> Contestant:
    def command(folder: Path, data: Path, _: bool) -> list[str]:
        return [str(build / "bin" / "dimred"), "stage1", f"--data={data}", "--batch_size=64", "--threads=1", "--prefetch=1", "--schedule=constant",
                f"--epochs={EPOCHS}", "--learning_rate=0.02", "--weight_decay=0", "--snapshots_per_epoch=0", "--log_loss_every_n_iters=1",
                f"--output={folder}"]  # fmt: skip

    def newest(folder: Path) -> list[Path]:
        found = compare.states(folder)
        return sorted(found[-1].iterdir()) if found else []

    return Contestant("dimred", "dimred", command, newest, lambda folder: folder / "checkpoints", version_of_dimred(build))


def version_of_dimred(build: Path) -> str:
    done = subprocess.run([build / "bin" / "dimred", "--version"], capture_output=True, text=True, check=False)
    return done.stdout.split()[1] if done.returncode == 0 and len(done.stdout.split()) > 1 else ""


def files_of(folders: Sequence[Path]) -> list[Path]:
    """Of the one with the greatest number in its name."""
    if not folders:
        return []
    last = max(folders, key=lambda folder: int(re.findall(r"\d+", folder.name)[-1]))
    return sorted(path for path in last.rglob("*") if path.is_file())


NEWEST: dict[str, Callable[[Path], list[Path]]] = {
    "dcp": lambda folder: files_of([path.parent for path in folder.glob("step_*/.metadata")]),
    "lightning": lambda folder: sorted(folder.glob("last*.ckpt"), key=lambda path: path.stat().st_mtime_ns)[-1:],
    "trainer": lambda folder: files_of(list(folder.glob("checkpoint-*"))),
    "accelerate": lambda folder: files_of(list((folder / "checkpoints").glob("checkpoint_*"))),
    "mindspore": lambda folder: sorted(folder.glob("*.ckpt"), key=lambda path: path.stat().st_ctime_ns)[-1:],
}
PACKAGES = {"dcp": ("PyTorch DCP async_save", "torch"), "lightning": ("Lightning", "lightning"),
            "trainer": ("Hugging Face Trainer", "transformers"), "accelerate": ("Accelerate", "accelerate")}  # fmt: skip


def peer_contestant(name: str, title: str, python: str, script: str, version: str) -> Contestant:
    def command(folder: Path, data: Path, mutate: bool) -> list[str]:
        words = [python, str(REPOSITORY / "experiments" / "benchmarks" / script), *([] if name == "mindspore" else [name]), str(folder), f"--data={data}"]
        return [*words, f"--epochs={EPOCHS}", *(["--mutate"] if mutate else [])]

    return Contestant(name, title, command, NEWEST[name], lambda folder: folder, version, name in PACKAGES)


def all_contestants(build: Path, mindspore: Path) -> dict[str, Contestant]:
    """MindSpore only where its environment is."""
    found = {"dimred": dimred_contestant(build)}
    for name, (title, package) in PACKAGES.items():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = peer_contestant(name, title, sys.executable, "league_peers.py", importlib.metadata.version(package))
    code = "from importlib.metadata import version; print(version('mindspore'))"
    if mindspore.exists():
        done = subprocess.run([mindspore, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found["mindspore"] = peer_contestant("mindspore", "MindSpore", str(mindspore), "league_mindspore.py", done.stdout.strip())
    return found


TITLES = {"dimred": "dimred", **{name: title for name, (title, _) in PACKAGES.items()}, "mindspore": "MindSpore"}


# The workplace of one contestant.


@dataclass(frozen=True)
class Base:
    """A killed run whose copies are damaged."""

    folder: Path
    told: int  # its last step
    saved: int  # its newest save
    final: str  # bits that its undamaged restart ends with


def preload(peer: str, environment: dict[str, str]) -> None:
    """Its imports, in this process; torch must not have threads yet when it is forked. Bytecode stays for the processes that are not."""
    os.environ.update(environment)
    sys.pycache_prefix, sys.dont_write_bytecode = environment["PYTHONPYCACHEPREFIX"], False
    sys.path.insert(0, str(REPOSITORY / "experiments" / "benchmarks"))
    import league_peers

    for module in league_peers.IMPORTS[peer]:
        importlib.import_module(module)


class Workplace:
    """Folders, the reference and the base of the damage trials of one contestant."""

    def __init__(self, contestant: Contestant, root: Path, build: Path, rng: random.Random) -> None:
        self.contestant, self.root, self.build, self.rng = contestant, root, build, rng
        self.data, self.count = root / "data", 0
        self.base: Base | None = None
        if not self.data.exists():
            write_data(self.data)
        self.environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | {
            "PYTHONPYCACHEPREFIX": str(root / "bytecode"), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1",
            "GLOG_v": "3"}  # fmt: skip
        self.cold = COLD if contestant.forked else sys.maxsize
        if contestant.forked:
            preload(contestant.name, self.environment)
        self.reference = self._reference()

    def fresh(self) -> Path:
        self.count += 1
        return self.root / f"{self.contestant.name}_{self.count}"

    def start(self, folder: Path, mutate: bool = False, words: Sequence[str] = (), environment: dict[str, str] | None = None,
              cold: bool = False) -> Running:  # fmt: skip
        """Not cold: behind the imports, where they were done."""
        command, fork = [*self.contestant.command(folder, self.data, mutate), *words], self.contestant.forked and not cold
        return Running(command[2:] if fork else command, self.environment | (environment or {}), fork)

    @property
    def ours(self) -> bool:
        return self.contestant.name == "dimred"

    def bits_of(self, folder: Path, told: Told) -> str:
        """At the end: a peer tells them, ours are the files of a finished run."""
        return digest_of(compare.content(folder)) if self.ours else told.final

    def loaded(self, folder: Path) -> str:
        """Of the state that dimred's next start will take up; peers tell it."""
        found = compare.states(folder) if self.ours and folder.exists() else []
        return weights_and_momentum(found[-1]) if found else ""

    def saved(self, folder: Path, told: Told) -> int:
        if not self.ours:
            return told.saved
        return (compare.newest_step(folder) or 0) if folder.exists() else 0

    def _reference(self) -> Reference:
        """Of ours there are two runs, the first of which keeps every state; a peer tells its digests."""
        told = Told()
        digests: dict[int, str] = {}
        if self.ours:
            everything = self.fresh()
            _, told = ended_well(self.contestant, self.start(everything, words=["--keep_checkpoints=1000"]))
            digests = {compare.step_of(state): weights_and_momentum(state) for state in compare.states(everything)}
        folder = self.fresh()
        running = self.start(folder, words=[] if self.ours else ["--digests"])
        changes = count_changes(running, self.contestant.saves(folder))
        _, again = ended_well(self.contestant, running)
        seconds = again.steps[-1][0] - again.steps[0][0]
        lines = {plain(line) for line in (*told.lines, *again.lines)}
        return Reference(self.bits_of(folder, again), digests or again.digests, lines, seconds, changes)

    def restart(self, folder: Path, told: int, saved: int, expected: str = "") -> Trial:
        """The same command again, and all that verdict() needs."""
        self.cold -= 1
        lying, timed = self.loaded(folder), self.cold >= 0
        running = self.start(folder, cold=timed)
        code, again = running.end()
        done = code == 0 and not again.steps  # it had come to its end before
        resumed = STEPS if done else again.resumed
        loaded = again.loaded if not self.ours else lying if resumed == saved else ""
        return Trial(told, saved, code, resumed, loaded, self.bits_of(folder, again) if code == 0 else "", STEPS if done else again.last,
                     expected or self.reference.final, self.reference.digests.get(resumed or 0, ""),
                     has_message(again.lines, self.reference.lines),
                     again.steps[0][0] - running.started if again.steps and timed else None,
                     again.processor if timed else 0.0)  # fmt: skip


def ended_well(contestant: Contestant, running: Running) -> tuple[int, Told]:
    code, told = running.end()
    if code != 0:
        raise RuntimeError(f"{contestant.title}: an undisturbed run ended with {code}: {' | '.join(told.lines[-3:])}")
    return code, told


def signature(folder: Path) -> dict[str, tuple[int, int]]:
    """Of all that lies in it."""
    found: dict[str, tuple[int, int]] = {}
    waiting = [str(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    found[entry.path] = (status.st_size, status.st_mtime_ns)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
    return found


def count_changes(running: Running, folder: Path, stop_at: int = 0) -> int:
    """Looks at the folder all the time until it has changed so often, or the process has ended; returns the number."""
    seen, before = 0, signature(folder)
    while running.process.poll() is None and (not stop_at or seen < stop_at) and running.goes_on():
        now = signature(folder)
        seen += now != before
        before = now
        time.sleep(0.0002)
    return seen


# The faults. Each gives one trial of a contestant, or None where it did not happen.


def wait_at_random(place: Workplace, running: Running, part: float) -> None:
    """Until a moment drawn evenly from this part of the steps' time."""
    running.wait_until(lambda: bool(running.told.steps))
    until = time.monotonic() + place.rng.uniform(0, part * place.reference.seconds)
    running.wait_until(lambda: time.monotonic() > until, 0.001)


def kill(place: Workplace, folder: Path, running: Running) -> Trial | None:
    """None where it had ended before."""
    running.process.kill()
    code, told = running.end()
    return place.restart(folder, told.last, place.saved(folder, told)) if code == -signal.SIGKILL else None


def kill_at_random(place: Workplace) -> Trial | None:
    folder = place.fresh()
    running = place.start(folder)
    wait_at_random(place, running, 0.9)
    return kill(place, folder, running)


def kill_in_save(place: Workplace) -> Trial | None:
    """At one of the changes that a run makes to its folder of saves, drawn evenly."""
    folder = place.fresh()
    running = place.start(folder)
    count_changes(running, place.contestant.saves(folder), place.rng.randint(1, place.reference.changes))
    return kill(place, folder, running)


def terminate(place: Workplace) -> Trial | None:
    folder = place.fresh()
    running = place.start(folder)
    wait_at_random(place, running, 0.8)
    in_time = running.goes_on() and running.told.last < STEPS
    running.process.send_signal(signal.SIGTERM)
    _, told = running.end()
    if not in_time:
        return None
    return place.restart(folder, told.last, place.saved(folder, told))


def base(place: Workplace) -> Base:
    """Made once: a run that was killed between two saves, and how it ends when nothing is damaged."""
    while not place.base:
        folder = place.fresh()
        running = place.start(folder)
        running.wait_until(functools.partial(between_saves, place, folder, running.told), 0.0005)
        running.process.kill()
        code, told = running.end()
        saved = place.saved(folder, told)
        if code == -signal.SIGKILL and saved and told.last % INTERVAL:
            undamaged = place.fresh()
            shutil.copytree(folder, undamaged)
            keep_order(folder, undamaged)
            place.base = Base(folder, told.last, saved, place.restart(undamaged, told.last, saved).final)
    return place.base


def between_saves(place: Workplace, folder: Path, told: Told) -> bool:
    """In the second half, a step behind a complete save."""
    return told.last > STEPS // 2 and told.last % INTERVAL == 1 and place.saved(folder, told) == told.last - 1


def keep_order(source: Path, copy: Path) -> None:
    """Of the times at which files were made: MindSpore's documentation goes by st_ctime, which nothing can set."""
    for file in sorted((path for path in source.rglob("*") if path.is_file()), key=lambda path: path.stat().st_ctime_ns):
        (copy / file.relative_to(source)).chmod(file.stat().st_mode & 0o777)
        time.sleep(0.01)


def damaged(place: Workplace, cut: bool) -> Trial | None:
    """A byte of the newest save, drawn evenly over its files: one bit is flipped, or its file ends there."""
    source, folder = base(place), place.fresh()
    shutil.copytree(source.folder, folder)  # with the times, which Lightning goes by
    files = [folder / path.relative_to(source.folder) for path in place.contestant.newest(source.folder)]
    file = place.rng.choices(files, [path.stat().st_size for path in files])[0]
    position, before = place.rng.randrange(file.stat().st_size), file.stat()
    file.write_bytes(Damage(position, None if cut else place.rng.randrange(8)).apply(file.read_bytes()))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    keep_order(source.folder, folder)
    trial = place.restart(folder, source.told, source.saved - INTERVAL, source.final)
    print(f"  {file.relative_to(folder)} at {position} of {before.st_size}:", file=sys.stderr)
    return trial


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TMPFS}", "league", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(stream: IO[bytes]) -> bool:
    """All that is free at this moment; never ready."""
    for size in (1 << 20, 4096):
        with contextlib.suppress(OSError):
            while stream.write(bytes(size)) == size:
                pass
    return False


def full_disk(place: Workplace) -> Trial | None:
    """From some step on nothing more fits, nor where a save deletes an older one first; when the process has ended, there is room again."""
    with small_disk(place.fresh()) as disk:
        folder, ballast = disk / "run", disk / "ballast"
        running = place.start(folder)
        at = place.rng.randint(STEPS // 4, STEPS // 2)
        running.wait_until(lambda: running.told.last >= at, 0.0005)
        with ballast.open("wb", buffering=0) as stream:
            running.wait_until(lambda: fill(stream), 0.001)
        code, told = running.end()
        saved = place.saved(folder, told)
        if code == 0 and saved == STEPS:
            return None  # it had come to its end before
        ballast.unlink()
        trial = place.restart(folder, told.last, saved)
        unsaid = code == 0 and saved < STEPS and not has_message(told.lines, place.reference.lines)
        trial.message = (trial.message or code != 0 or has_message(told.lines, place.reference.lines)) and not unsaid
        return trial


def mutate_after_save(place: Workplace) -> Trial | None:
    """Weights are spoilt in place directly after a save has returned; ours by the training itself, while a slow disk delays the save."""
    folder = place.fresh()
    if place.ours:
        shim = Fault("delay:40", 1, 1, "sync").environment(folder, place.build / "lib" / "libfault_shim.so", place.root / "calls")
        running = place.start(folder, environment=shim)
        at = place.rng.randint(STEPS // 2, STEPS - INTERVAL)
        running.wait_until(lambda: running.told.last >= at, 0.001)
        return kill(place, folder, running)
    running = place.start(folder, mutate=True)
    code, told = running.end()  # it kills itself
    trial = place.restart(folder, told.last, place.saved(folder, told)) if code == -signal.SIGKILL else None
    if trial:
        trial.told = trial.saved = told.last if trial.resumed == told.last else told.saved
    return trial


def two_processes(place: Workplace) -> Trial | None:
    """The same command is started twice at once, and a third time when both have ended."""
    folder = place.fresh()
    first, second = place.start(folder), place.start(folder)
    first_code, first_told = first.end()
    second_code, second_told = second.end()
    trial = place.restart(folder, 0, STEPS)
    both = [*first_told.lines, *second_told.lines]
    trial.message = trial.message or has_message(both, place.reference.lines) or first_code != 0 or second_code != 0
    trial.told = (
        len(first_told.steps) + len(second_told.steps) - STEPS + (trial.resumed or 0)
    )  # so that repeated counts what was done twice
    return trial


@dataclass(frozen=True)
class League:
    """A fault, and the share of --trials that it gets."""

    title: str
    trial: Callable[[Workplace], Trial | None]
    share: float


FAULTS = {
    "kill": League("kill -9 at a random moment", kill_at_random, 1),
    "save": League("kill -9 inside a save", kill_in_save, 1),
    "sigterm": League("SIGTERM", terminate, 0.5),
    "flip": League("a flipped bit in the newest save", lambda place: damaged(place, False), 1),
    "truncate": League("the newest save truncated", lambda place: damaged(place, True), 1),
    "disk": League("full disk", full_disk, 0.5),
    "mutate": League("weights changed after a save", mutate_after_save, 0.5),
    "two": League("two processes in one folder", two_processes, 0.5),
}


def trials_of(place: Workplace, fault: League, count: int) -> list[Trial]:
    """A trial in which the fault did not happen is drawn anew, five times at most."""
    found: list[Trial] = []
    for _ in range(count):
        for _ in range(6):
            trial = fault.trial(place)
            if trial:
                found.append(trial)
                print(f"  {place.contestant.name}, {fault.title}: {trial} {verdict(trial)}", file=sys.stderr, flush=True)
                break
    return found


# The table.


def row(verdicts: Sequence[Verdict]) -> list[str]:
    """Cells behind fault and contestant."""
    n, alive = len(verdicts), [v for v in verdicts if v.survived]
    seconds = [v.seconds for v in alive if v.seconds is not None]
    used = [v.processor for v in alive if v.processor]
    shown = [f"{statistics.median(some):.1f} ({max(some):.1f})" if some else "-" for some in (seconds, used)]
    numbers = [f"{statistics.mean(v.repeated for v in alive):.1f}", str(max(v.lost for v in alive))] if alive else ["-", "-"]
    return [f"{len(alive)}/{n}", *numbers, str(sum(v.silent for v in verdicts)), f"{sum(v.equal for v in verdicts)}/{n}", *shown]


Results = dict[str, dict[str, list[Trial]]]  # contestant -> fault -> trials
COLUMNS = ("fault", "contestant", "survived", "repeated", "lost", "silent", "equal", "first step, s", "processor, s")
WIDTHS = (34, 24, 10, 10, 6, 8, 8, 16, 16)


def line_of(cells: Sequence[str]) -> str:
    parts = [f"{cell:<{width}}" if i < 2 else f"{cell:>{width}}" for i, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))]
    return "".join(parts).rstrip()


def table(results: Results, missing: Sequence[str]) -> str:
    lines = [line_of(COLUMNS)]
    for fault, league in FAULTS.items():
        measured = [(name, found[fault]) for name, found in results.items() if fault in found]
        lines += [line_of([league.title, TITLES[name], *row([verdict(trial) for trial in trials])]) for name, trials in measured]
        lines += [line_of([league.title, TITLES[name], "not installed", *[""] * 6]) for name in missing if measured]
        lines += [""] if measured else []
    return "\n".join(lines)


def header(given: argparse.Namespace, results: Results, used: dict[str, dict[str, Any]]) -> str:
    """used: contestant -> version, seconds, processor, load, of the runs that measured it."""
    sums = [sum(of[name] for of in used.values()) for name in ("seconds", "processor")]
    loads = [of["load"] for of in used.values()]
    return f"""scripts/league.sh, {datetime.datetime.now(datetime.UTC):%Y-%m-%d}: {processor()}, {os.cpu_count()} cores, load {min(loads):.0f} to {max(loads):.0f}, Python {platform.python_version()}
{", ".join(f"{TITLES[name]} {used[name]['version']}" for name in results)}
seed {given.seed}, {sums[0]:.0f} s, {sums[1]:.0f} s of processor time
{STEPS} steps, a save every {INTERVAL}. survived: the restart came to the end by itself, of so many trials. repeated: steps done twice, mean.
lost: steps of whole saves that were not taken up, worst. silent: wrong bits were loaded or came out, and no line said so. equal: bits at
the end, to an uninterrupted run. first step: seconds from the restart to it, median (worst); processor: of the process, until then.
"""


def share_of(given: argparse.Namespace, fault: str) -> int:
    return max(1, int(given.trials * FAULTS[fault].share))


def read_trials(file: Path | None) -> tuple[Results, dict[str, dict[str, Any]]]:
    """Of earlier calls, and what they took."""
    if not file or not file.exists():
        return {}, {}
    found = json.loads(file.read_text())
    trials = {name: {fault: [Trial(**t) for t in some] for fault, some in of.items()} for name, of in found["trials"].items()}
    return trials, found["used"]


def measure(given: argparse.Namespace, contestant: Contestant, root: Path, results: Results, used: dict[str, dict[str, Any]]) -> None:
    """All the faults that are asked for."""
    began, before = time.monotonic(), seconds_used()
    place = Workplace(contestant, root, given.build.resolve(), random.Random(f"{given.seed} {contestant.name}"))
    for fault in given.faults:
        results.setdefault(contestant.name, {})[fault] = trials_of(place, FAULTS[fault], share_of(given, fault))
    taken = used.setdefault(contestant.name, {"seconds": 0.0, "processor": 0.0})
    taken["seconds"] += time.monotonic() - began
    taken["processor"] += seconds_used() - before
    taken.update(version=contestant.version, load=os.getloadavg()[2])


def seconds_used() -> float:
    """Of processor time, of this process, too, which imports and watches."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def end_in_order(*_: object) -> None:
    sys.exit(143)


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, end_in_order)  # so that no disk stays mounted
    parser = argparse.ArgumentParser(prog="scripts/league.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build", help="folder with bin/ and lib/")
    parser.add_argument(
        "--mindspore", type=Path, default=REPOSITORY / ".venv-mindspore" / "bin" / "python", help="Python of scripts/mindspore.sh"
    )
    parser.add_argument("--contestants", nargs="+", choices=TITLES, default=list(TITLES))
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--trials", type=int, default=3, help="of a fault; SIGTERM, full disk, changed weights and two processes get half")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where to work, default: a temporary folder")
    parser.add_argument("--output", type=Path, help="file for the table, written anew after each contestant")
    parser.add_argument("--json", type=Path, help="every trial; what is in it and is not measured now stays, and is in the table, too")
    given = parser.parse_args(arguments)
    if not (given.build / "bin" / "dimred").exists():
        print(f"league: {given.build} has no bin/dimred; build it first, or name a build by --build", file=sys.stderr)
        return 2
    there = all_contestants(given.build.resolve(), given.mindspore)
    results, used = read_trials(given.json)
    missing = [name for name in given.contestants if name not in there and name not in results]
    text = ""
    with tempfile.TemporaryDirectory(prefix="dimred_league_", dir=given.folder) as root:
        for name in given.contestants:
            if name in there:
                measure(given, there[name], Path(root), results, used)
                text = header(given, results, used) + "\n" + table(results, missing).rstrip() + "\n"
                if given.output:
                    given.output.write_text(text)
                if given.json:
                    found = {of: {fault: [asdict(t) for t in trials] for fault, trials in results[of].items()} for of in results}
                    given.json.write_text(json.dumps({"used": used, "trials": found}, indent=1) + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
