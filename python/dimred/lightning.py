"""Records snapshots of a training by Lightning.

SubspaceOptimizer works with Lightning's manual optimization (docs/how-to/use_with_lightning_and_transformers.md).
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
from typing import Any

from lightning.pytorch import Callback

from dimred._callbacks import SnapshotOptions
from dimred._recorder import SnapshotRecorder
from dimred._schedule import share_ends


class SnapshotCallback(Callback):  # type: ignore[misc]
    """Records snapshots of the module that a Lightning Trainer fits, with a SnapshotRecorder.

        Trainer(callbacks=[SnapshotCallback("snapshots", per_epoch=2)], ...)

    every_steps: the number of steps from one snapshot to the next. Steps are counted by Trainer.global_step, which adds
        up the steps of all optimizers.
    per_epoch: the number of snapshots in each epoch of the Trainer, at even distances over the batches; 2 if neither is
        given. It needs a training set of known length. If no step was taken since the last snapshot, a due snapshot
        waits for the next step.
    from_epoch, trainable_only: as in SnapshotRecorder.

    A fit from a checkpoint continues the recording. The additional epoch in which StochasticWeightAveraging updates
    BatchNorm's statistics has no snapshots.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        every_steps: int | None = None,
        per_epoch: int | None = None,
        from_epoch: int = 1,
        trainable_only: bool = True,
    ) -> None:
        super().__init__()
        self._options = SnapshotOptions(folder, every_steps, per_epoch, from_epoch, trainable_only)
        self.recorder: SnapshotRecorder | None = None
        self._due, self._old_step = False, 0  # the last step whose weights are recorded, or another epoch's

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Makes the recorder at the start of a fit."""
        batches = trainer.num_training_batches
        length = int(batches) if math.isfinite(batches) else None
        self.recorder = self._options.recorder(pl_module, length, trainer.global_step, trainer.global_rank)
        self._due = False

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Notes the step: the weights at the start of an epoch belong to the epoch before."""
        self._old_step = trainer.global_step

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Takes a snapshot if one is due. A batch may take no step, one step, or several with several optimizers."""
        # StochasticWeightAveraging's additional epoch: its weights are an average, and its step changes nothing.
        if self.recorder is None or getattr(trainer.fit_loop, "_skip_backward", False):
            return
        before, self.recorder.steps = self.recorder.steps, trainer.global_step
        epoch = trainer.current_epoch + 1
        self._due |= self._ends_share(before, epoch, batch_idx, trainer)
        if self._due and trainer.global_step > self._old_step:
            self.recorder.snapshot(epoch)
            self._due, self._old_step = False, trainer.global_step

    def on_train_end(self, *_: Any) -> None:
        """Waits for the last snapshot, so that it is on disk when fit() returns."""
        if self.recorder is not None:
            self.recorder.close()

    def on_exception(self, *_: Any) -> None:
        """Waits for the last snapshot, too; only the error of fit() is raised."""
        with suppress(Exception):
            self.on_train_end()

    def __getstate__(self) -> dict[str, Any]:
        """Copies for other processes make their own recorders."""
        return self.__dict__ | {"recorder": None}

    def _ends_share(self, before: int, epoch: int, batch: int, trainer: Any) -> bool:
        options = self._options
        if options.every_steps is not None:
            return bool(trainer.global_step // options.every_steps > before // options.every_steps)
        return epoch >= options.from_epoch and share_ends(batch, int(trainer.num_training_batches), options.per_epoch)
