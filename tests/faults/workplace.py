"""A small data set, and for each command an undisturbed run of it to compare with."""

from __future__ import annotations

import re
import shutil
import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from cli import cli

from .compare import Content, complete_files, content, differences, leftovers
from .launch import Build, Call, Command, Ended, Fault, execute

NAMES = ("stage1", "pca", "stage2")
BATCH = 64
SAMPLES = {"train": 256, "t10k": 100}
SMALL = (f"--batch_size={BATCH}", "--threads=1", "--prefetch=1")
COMPONENTS = 3
KEEP_SOME = {"stage1": ("--keep_snapshots=5",)}  # so that saves delete older files, too
KEEP_ALL = {"stage1": ("--keep_snapshots=100", "--keep_checkpoints=100"), "stage2": ("--keep_checkpoints=100",)}


@dataclass
class Case:
    """One thing tried, and what was wrong with it: an empty text where nothing was."""

    suite: str
    name: str
    problem: str = ""
    repeated: float = 0.0  # save intervals done twice
    notice: float = 0.0  # seconds until the last rank noticed
    faults: int = 1


@dataclass
class Reference:
    """An undisturbed run."""

    content: Content
    everything: Content  # with the states and snapshots that retention deletes
    calls: list[Call] = field(default_factory=list)
    seconds: float = 0.0
    interval: int = 1  # steps between states


def write_idx(path: Path, array: np.ndarray) -> None:
    head = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(head + array.astype(np.uint8).tobytes())


def write_data(folder: Path) -> None:
    """Ten classes of noisy squares, as MNIST's four files."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(1)
    for part, count in SAMPLES.items():
        labels = np.arange(count) % 10
        images = generator.integers(0, 100, (count, 28, 28))
        for image, label in zip(images, labels, strict=True):
            row, column = 2 + 5 * (label // 2), 4 + 12 * (label % 2)
            image[row : row + 5, column : column + 8] += 120
        write_idx(folder / f"{part}-images-idx3-ubyte", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels)


def shortened(text: str, longest: int = 300) -> str:
    return text if len(text) <= longest else text[:longest] + "..."


class Workplace:
    """Commands, their references, and folders for disturbed runs, all below `root`."""

    def __init__(self, build: Build, root: Path, ranks: int = 1) -> None:
        self.build, self.root, self.ranks = build, root, ranks
        self._count = 0
        self._references: dict[str, Reference] = {}
        write_data(root / "data")

    def command(self, name: str, folder: Path, *, keep_all: bool = False) -> Command:
        """stage1, pca or stage2 into this folder."""
        keep = KEEP_ALL if keep_all else KEEP_SOME
        first = str(self.root / "stage1_all")
        arguments = {
            "stage1": cli(
                "stage1",
                *SMALL,
                "--epochs=3 --learning_rate=0.05 --snapshots_per_epoch=2",
                data=self.root / "data",
                output=folder,
            ),
            "pca": cli(
                "pca --threads=1 --overwrite",
                snapshots=f"{first}/snapshots",
                components=COMPONENTS,
                output=folder / "pca_mat.npy",
            ),
            "stage2": cli("stage2", *SMALL, "--epochs=3", checkpoint=first, n_component=COMPONENTS, output=folder),
        }[name]
        return Command((*arguments, *keep.get(name, ())), folder, self.ranks)

    def fresh(self, name: str) -> Path:
        """A folder that a command may write to."""
        self._count += 1
        folder = self.root / f"{name}_{self._count}"
        if name == "pca":
            folder.mkdir()
        return folder

    def remove(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def reference(self, name: str) -> Reference:
        if name not in self._references:
            if name != "stage1":
                self.reference("stage1")  # which the others start from
            self._references[name] = self._undisturbed(name)
        return self._references[name]

    def _undisturbed(self, name: str) -> Reference:
        everything = self.root / f"{name}_all"
        plain = self.root / f"{name}_plain"
        if name == "pca":
            everything.mkdir()
            plain.mkdir()
        self.expect_success(execute(self.build, self.command(name, everything, keep_all=True)))
        ended = execute(self.build, self.command(name, plain), Fault("count"))
        self.expect_success(ended)
        reference = Reference(content(plain), complete_files(everything), ended.calls, ended.seconds)
        if name != "pca":
            state = next(value for key, value in reference.content.items() if key.startswith("state_"))
            reference.interval = int(state["state.json"]["scalars"]["steps_per_epoch"])
        return reference

    @staticmethod
    def expect_success(ended: Ended) -> None:
        if ended.code != 0:
            raise RuntimeError(f"an undisturbed run failed: {ended.code} {ended.errors}")

    def finish(self, name: str, folder: Path) -> str:
        """Starts the command again, undisturbed; what is wrong with where it ends."""
        ended = execute(self.build, self.command(name, folder))
        return self.judge_finished(name, folder, ended)

    def judge_finished(self, name: str, folder: Path, ended: Ended) -> str:
        if ended.code != 0:
            return shortened(f"the next start ended with {ended.code}: {' | '.join(ended.errors)}")
        other = differences(self.reference(name).content, content(folder))
        if other:
            return f"differs from the undisturbed run: {', '.join(other)}"
        left = leftovers(folder)
        return f"left {', '.join(left)}" if left else ""


CONTINUING = re.compile(r"(?:continuing|finished already,) at epoch (\d+), step (\d+)")


def resumed_step(ended: Ended) -> int | None:
    found = CONTINUING.search(ended.output)
    return int(found[2]) if found else None
