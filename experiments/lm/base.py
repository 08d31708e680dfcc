"""A run at a constant rate that arms and measures share: its snapshots, and its state where arms leave it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch

import dimred
from lm.training import Diverged, Losses, Run, Task, new_run, restore, save, train

WINDOW = 80  # snapshots, evenly over the second half of a run


@dataclass(frozen=True)
class Base:
    """One run in `folder`; kind: the optimizer, where it is not the task's own."""

    task: Task
    seed: int
    rate: float
    folder: Path
    kind: str = ""

    @property
    def end(self) -> int:
        return self.task.end

    @property
    def after(self) -> int:
        """Steps that arms after a run may cost."""
        return self.end // 50

    @property
    def leaves(self) -> set[int]:
        """The steps at which arms leave it."""
        return {self.end - part for part in (self.end // 5, self.end // 10, self.after, 0)}

    def files(self, until: int | None = None) -> list[Path]:
        """Its snapshots up to a step, oldest first: WINDOW of the whole run."""
        found = sorted((self.folder / "snapshots").glob("snapshot_*.h5"))
        return [file for file in found if int(file.stem[9:]) <= (self.end if until is None else until)]

    def state(self, step: int) -> Path:
        return self.folder / f"state_{step}.pt"

    def new(self) -> Run:
        return new_run(self.task, self.seed, self.rate, self.kind)

    def at(self, step: int) -> Run:
        return restore(self.new(), self.state(step))

    def losses(self, model: torch.nn.Module) -> Losses:
        """On validation and on test data. Raises Diverged."""
        found = self.task.losses(model)
        if not all(map(math.isfinite, found)):
            raise Diverged(f"losses of {found[0]} and {found[1]} on validation and test data")
        return found

    def losses_of(self, average: dimred.Average) -> Losses:
        model = self.task.start(self.seed)
        average.load_into(model)
        return self.losses(model)


def make(base: Base, until: int) -> None:
    """Trains up to a leave what is not there yet, from the latest state that is. Raises Diverged."""
    if base.state(until).exists():
        return
    base.folder.mkdir(parents=True, exist_ok=True)
    run, latest = base.new(), base.folder / "latest.pt"
    if latest.exists():
        restore(run, latest)
    every = base.end // 2 // WINDOW
    with dimred.SnapshotRecorder(
        run.model,
        base.folder / "snapshots",
        epochs_of=every,
        per_epoch=1,
        from_epoch=base.end // 2 // every + 1,
        first_step=run.step,
    ) as recorder:
        for _ in train(run, until):
            recorder.step()
            recorder.wait()  # a state never stands without the snapshots before it
            if run.step % (base.end // 20) == 0:
                save(run, latest)
            if run.step in base.leaves:
                save(run, base.state(run.step))
