"""Single flipped bits and cut-off ends of every file: found on load, never used unnoticed."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .compare import content, differences, newest_step, states
from .draws import generator
from .launch import Command, execute
from .workplace import Case, Workplace, resumed_step, shortened

HDF5_HEAD = 3072  # our user block, HDF5's superblock and the object headers behind it


@dataclass(frozen=True)
class Damage:
    """Bit `bit` of byte `position` flipped; bit = None: the file ends at `position`."""

    position: int
    bit: int | None

    def apply(self, data: bytes) -> bytes:
        if self.bit is None:
            return data[: self.position]
        changed = bytearray(data)
        changed[self.position] ^= 1 << self.bit
        return bytes(changed)

    def __str__(self) -> str:
        return f"cut at {self.position}" if self.bit is None else f"bit {self.bit} of byte {self.position}"


@contextmanager
def damaged(file: Path, damage: Damage) -> Iterator[None]:
    data = file.read_bytes()
    file.write_bytes(damage.apply(data))
    try:
        yield
    finally:
        file.write_bytes(data)


def flips(file: Path, head: int, count: int, rng: random.Random) -> list[Damage]:
    """A random bit of every byte of the head (of `count` of them, 0: all), and `count` bits anywhere."""
    size = file.stat().st_size
    heads = range(min(head, size))
    positions = list(heads) if count == 0 or count >= len(heads) else rng.sample(heads, count)
    positions += [rng.randrange(size) for _ in range(count or 100)] if size else []
    return [Damage(position, rng.randrange(8)) for position in positions]


def cuts(file: Path, rng: random.Random) -> list[Damage]:
    size = file.stat().st_size
    lengths = {0, 1, size // 2, size - 1, rng.randrange(max(size, 1))}
    return [Damage(length, None) for length in sorted(lengths) if 0 <= length < size]


def looked_at(place: Workplace, target: Path) -> bool:
    """True when `dimred inspect` finds the target whole."""
    command = [str(place.build.front), "inspect", str(target)]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def inspected(place: Workplace, file: Path, target: Path, head: int, count: int, rng: random.Random) -> Case:
    """Every damage to the file must be seen by `dimred inspect` of the target, in one case."""
    tries = flips(file, head, count, rng) + cuts(file, rng)
    case = Case("damage", f"inspect {target.name}: {file.name}", faults=len(tries))
    if not looked_at(place, target):
        case.problem = "not whole before"
        return case
    unseen = []
    for damage in tries:
        with damaged(file, damage):
            if looked_at(place, target):
                unseen.append(str(damage))
    if unseen:
        case.problem = shortened(f"{len(unseen)} unnoticed: {', '.join(unseen)}")
    return case


def copied(place: Workplace, name: str) -> Path:
    folder = place.fresh(f"copy_of_{name}")
    shutil.copytree(place.root / f"{name}_plain", folder)
    return folder


def refused(place: Workplace, command: Command) -> str:
    """The command must end with an error line."""
    ended = execute(place.build, command)
    if ended.code <= 0:
        return f"ended with {ended.code}, the damage unnoticed"
    return "" if len(ended.errors) == 1 else shortened(f"error lines: {' | '.join(ended.errors)}")


def falls_back(place: Workplace, file_name: str, damage_of: Callable[[Path], Damage], name: str) -> Case:
    """The same command with its newest state damaged goes on from the one before."""
    folder = copied(place, name)
    newest = states(folder)[-1]
    file = newest / file_name
    damage = damage_of(file)
    file.write_bytes(damage.apply(file.read_bytes()))
    before = newest_step(folder) or 0
    ended = execute(place.build, place.command(name, folder))
    case = Case("damage", f"{name} goes on without {newest.name}/{file_name}, {damage}")
    expected = before - place.reference(name).interval
    if resumed_step(ended) != expected:
        case.problem = f"resumed at {resumed_step(ended)} instead of {expected}: {' | '.join(ended.errors)}"
    elif not any("damaged" in line for line in ended.errors):
        case.problem = "no warning"
    case.problem = case.problem or place.judge_finished(name, folder, ended)
    if not case.problem:
        place.remove(folder)
    return case


def consumed(place: Workplace, file_name: str, damage: Damage, name: str, command: Callable[[Path], Command]) -> Case:
    """The command that reads the file refuses it."""
    folder = copied(place, name)
    (folder / file_name).write_bytes(damage.apply((folder / file_name).read_bytes()))
    case = Case("damage", f"{name}'s {file_name}, {damage}")
    case.problem = refused(place, command(folder))
    place.remove(folder)
    return case


def taken_up(place: Workplace, name: str, file_name: str, damage: Damage) -> Case:
    """A run taken up with a damaged text file refuses, or ends as if the file had been whole."""
    folder = copied(place, name)
    place.remove(states(folder)[-1])  # so that there is something left to do
    file = folder / file_name
    file.write_bytes(damage.apply(file.read_bytes()))
    ended = execute(place.build, place.command(name, folder))
    case = Case("damage", f"{name} taken up with {file_name}, {damage}")
    if ended.code == 0:
        other = differences(place.reference(name).content, content(folder))
        case.problem = f"went unnoticed into {', '.join(other)}" if other else ""
    elif len(ended.errors) != 1:
        case.problem = shortened(f"error lines: {' | '.join(ended.errors)}")
    place.remove(folder)
    return case


def adopted(place: Workplace, damage: Damage) -> Case:
    """Stage 2 takes data, model and loss from the config.toml of its checkpoint's run."""
    first, second = copied(place, "stage1"), place.fresh("stage2")
    file = first / "config.toml"
    line = file.read_bytes()[: damage.position].count(b"\n")
    damaged_text = damage.apply(file.read_bytes())
    file.write_bytes(damaged_text)
    given = place.command("stage2", second)
    options = tuple(f"--checkpoint={first}" if o.startswith("--checkpoint=") else o for o in given.arguments)
    snapshots = f"--snapshots={place.root / 'stage1_all' / 'snapshots'}"
    ended = execute(place.build, Command((*options, snapshots), second, given.ranks))
    shown = damaged_text.split(b"\n")[line].decode(errors="replace") if line < damaged_text.count(b"\n") else "?"
    case = Case("damage", f"stage2 adopts config.toml, {damage}: {shown}")
    if ended.code == 0:
        other = differences(place.reference("stage2").content, content(second))
        other = [part for part in other if part != "config.toml"]  # which names other folders
        case.problem = f"went unnoticed into {', '.join(other)}" if other else ""
    for folder in (first, second):
        place.remove(folder)
    return case


def adopted_bytes(config: Path) -> list[int]:
    """Positions of the values that stage 2 takes over."""
    text, position, wanted = config.read_text(), 0, False
    found: list[int] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            wanted = any(group in line for group in ("Data", "Model", "Loss"))
        elif wanted and " = " in line:
            found += range(position + line.index(" = ") + 3, position + len(line) - 1)
        position += len(line)
    return found


def inspections(place: Workplace, count: int, rng: random.Random) -> Iterator[Case]:
    first, second = copied(place, "stage1"), copied(place, "stage2")
    state = states(first)[-1]
    for file in sorted(state.iterdir()):
        if file.stat().st_size:
            yield inspected(place, file, state, 1 << 20 if file.suffix == ".json" else 0, count, rng)
    snapshot = next((first / "snapshots").glob("*.h5"))
    yield inspected(place, snapshot, snapshot, HDF5_HEAD, count, rng)
    yield inspected(place, second / "final.h5", second / "final.h5", HDF5_HEAD, count, rng)
    matrix = second / "pca_mat.npy"
    yield inspected(place, matrix, matrix, 128, count, rng)
    yield inspected(place, second / "pca_mat.json", matrix, 1 << 20, count, rng)
    for folder in (first, second):
        place.remove(folder)


def any_damage(rng: random.Random) -> Callable[[Path], Damage]:
    def draw(file: Path) -> Damage:
        size = file.stat().st_size
        return Damage(rng.randrange(size), rng.choice([*range(8), None]))

    return draw


def loads(place: Workplace, count: int, rng: random.Random) -> Iterator[Case]:
    """What the trainers do with the files."""
    draw = any_damage(rng)
    files = {
        "stage1": ["state.json", "weights.f32", "momentum.f32"],
        "stage2": ["state.json", "weights.f32", "residual_momentum.f32"],
    }
    for _ in range(count):
        for name in ("stage1", "stage2"):
            yield falls_back(place, rng.choice(files[name]), draw, name)
        second = place.root / "stage2_plain"
        for file in ("pca_mat.npy", "pca_mat.json"):
            yield consumed(place, file, draw(second / file), "stage2", lambda f: place.command("stage2", f))
        yield consumed(
            place,
            "final.h5",
            draw(second / "final.h5"),
            "stage2",
            lambda f: Command(("evaluate", str(f / "final.h5")), f),
        )
        snapshot = f"snapshots/{rng.choice(sorted((place.root / 'stage1_plain' / 'snapshots').iterdir())).name}"
        yield consumed(
            place,
            snapshot,
            draw(place.root / "stage1_plain" / snapshot),
            "stage1",
            lambda f: Command(("pca", f"--snapshots={f}/snapshots", "--components=2", f"--output={f}/p.npy"), f),
        )


def texts(place: Workplace, count: int, rng: random.Random) -> Iterator[Case]:
    """Files for people, which carry no digest of their own."""
    config = place.root / "stage1_plain" / "config.toml"
    changing = config.read_bytes().index(b"train_samples = 0") + len(b"train_samples = ")
    yield adopted(place, Damage(changing, 0))  # 1 is valid, too
    for _ in range(count):
        for name, file in (("stage1", "config.toml"), ("stage1", "curve.csv"), ("stage2", "steps.csv")):
            size = (place.root / f"{name}_plain" / file).stat().st_size
            # In a table only the rows that the state before the last one counts are read.
            end = size if file == "config.toml" else size // 2
            yield taken_up(place, name, file, Damage(rng.randrange(end), rng.randrange(8)))
            yield taken_up(place, name, file, Damage(rng.randrange(end), None))
        yield adopted(place, Damage(rng.choice(adopted_bytes(config)), rng.randrange(8)))


def cases(place: Workplace, count: int, loaded: int, seed: int) -> Iterator[Case]:
    """`count` flips a file by inspection (0: every byte of the heads), `loaded` rounds through the trainers."""
    for name in ("stage1", "stage2"):
        place.reference(name)
    rng = generator(seed, "damage")
    yield from inspections(place, count, rng)
    yield from loads(place, loaded, rng)
    yield from texts(place, loaded, rng)
