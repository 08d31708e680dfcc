"""Snapshots of a training by Lightning; SubspaceOptimizer runs there by manual optimization (docs/how-to/use_from_python.md)."""

from __future__ import annotations

import math
import os
from typing import Any

from lightning.pytorch import Callback

from dimred._recorder import SnapshotRecorder


class SnapshotCallback(Callback):  # type: ignore[misc]
    """A SnapshotRecorder of the module that a Lightning Trainer fits.

        Trainer(callbacks=[SnapshotCallback("snapshots", per_epoch=2)], ...)

    every_steps, per_epoch, from_epoch: as SnapshotRecorder's; steps are Trainer.global_step, and epochs the Trainer's: per_epoch (2
    where neither is given) needs a training set of known length. A fit from a checkpoint goes on with the recording.
    """

    def __init__(self, folder: str | os.PathLike[str], *, every_steps: int | None = None, per_epoch: int | None = None, from_epoch: int = 1) -> None:
        super().__init__()
        if every_steps is not None and per_epoch is not None:
            raise ValueError("[SnapshotCallback] needs every_steps or per_epoch, received both")
        self._folder, self._every, self._per_epoch, self._from = folder, every_steps, per_epoch or 2, from_epoch
        self.recorder: SnapshotRecorder | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Where a fit begins."""
        common = {"first_step": trainer.global_step, "rank": trainer.global_rank}
        if self._every is not None:
            self.recorder = SnapshotRecorder(pl_module, self._folder, every_steps=self._every, **common)
            return
        batches = trainer.num_training_batches
        if not math.isfinite(batches):
            raise ValueError("[SnapshotCallback] needs every_steps: the training set does not say its length")
        self.recorder = SnapshotRecorder(pl_module, self._folder, epochs_of=math.ceil(batches / trainer.accumulate_grad_batches),
                                         per_epoch=self._per_epoch, from_epoch=self._from, **common)  # fmt: skip

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """A batch makes none, one or, of several optimizers, more steps."""
        while self.recorder is not None and self.recorder.steps < trainer.global_step:
            self.recorder.step()

    def on_train_end(self, *_: Any) -> None:
        """The last snapshot is durable when fit() returns."""
        if self.recorder is not None:
            self.recorder.close()

    def on_exception(self, *_: Any) -> None:
        """So it is when fit() raises; its own error is the one to see."""
        if self.recorder is not None:
            self.recorder.__exit__(RuntimeError, RuntimeError(), None)
