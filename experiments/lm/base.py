"""The run that every arm shares: END steps at a constant rate, its snapshots, and its state where arms leave it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

import dimred
from lm.text import Text
from lm.training import RATE, Run, mean_loss, new_run, restore, save, train

END, FIRST, EVERY = 8_000, 4_000, 50
AFTER = 160  # steps that the arms after a run may cost
LEAVES = tuple(sorted({END - share * END // 100 for share in (5, 10, 20)} | {END - AFTER, END}))


@dataclass(frozen=True)
class Base:
    """One seed's run in `folder`, and the text it reads."""

    seed: int
    folder: Path
    text: Text
    rate: float = RATE

    def files(self, until: int = END) -> list[Path]:
        """Its snapshots up to a step, oldest first: 80 of the whole run."""
        found = sorted((self.folder / "snapshots").glob("snapshot_*.h5"))
        return [file for file in found if int(file.stem[9:]) <= until]

    def at(self, step: int) -> Run:
        return restore(new_run(self.seed, self.rate), self.folder / f"state_{step}.pt")

    def losses(self, model: torch.nn.Module) -> tuple[float, float]:
        """On validation and on test text, in nats a character."""
        return mean_loss(model, self.text.validation), mean_loss(model, self.text.test)

    def losses_of(self, average: dimred.Average) -> tuple[float, float]:
        model = new_run(self.seed).model
        average.load_into(model)
        return self.losses(model)


def make(base: Base) -> None:
    """Trains what is not there yet, from the latest state that is."""
    base.folder.mkdir(parents=True, exist_ok=True)
    found = [step for step in LEAVES if (base.folder / f"state_{step}.pt").exists()]
    if END in found:
        return
    run = base.at(max(found)) if found else new_run(base.seed, base.rate)
    with dimred.SnapshotRecorder(
        run.model,
        base.folder / "snapshots",
        epochs_of=EVERY,
        per_epoch=1,
        from_epoch=FIRST // EVERY + 1,
        first_step=run.step,
    ) as recorder:
        for _ in train(run, base.text, END):
            recorder.step()
            if run.step in LEAVES:
                save(run, base.folder / f"state_{run.step}.pt")
