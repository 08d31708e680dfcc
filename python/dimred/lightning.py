"""Snapshots of a training by Lightning; SubspaceOptimizer runs there by manual optimization (docs/how-to/use_from_python.md)."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from typing import Any

from lightning.pytorch import Callback

from dimred._recorder import CallbackOptions, SnapshotRecorder


class SnapshotCallback(Callback):  # type: ignore[misc]
    """A SnapshotRecorder of the module that a Lightning Trainer fits.

        Trainer(callbacks=[SnapshotCallback("snapshots", per_epoch=2)], ...)

    every_steps, per_epoch, from_epoch: as SnapshotRecorder's; steps are Trainer.global_step, and epochs the Trainer's: per_epoch (2
    where neither is given) needs a training set of known length. A fit from a checkpoint goes on with the recording.
    """

    def __init__(self, folder: str | os.PathLike[str], *, every_steps: int | None = None, per_epoch: int | None = None, from_epoch: int = 1) -> None:
        super().__init__()
        self._options = CallbackOptions(folder, every_steps, per_epoch, from_epoch)
        self.recorder: SnapshotRecorder | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Where a fit begins."""
        batches = trainer.num_training_batches
        steps = math.ceil(batches / trainer.accumulate_grad_batches) if math.isfinite(batches) else None
        self.recorder = self._options.recorder(pl_module, steps, trainer.global_step, trainer.global_rank)

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
        with suppress(Exception):
            self.on_train_end()
