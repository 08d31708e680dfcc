"""The common part of the callbacks for Lightning and transformers."""

from __future__ import annotations

import os
from typing import Any

from dimred._arguments import local_path, require_switch, whole_number
from dimred._recorder import SnapshotRecorder, close_earlier

SCOPE = "[SnapshotCallback]"


class _Recorder(SnapshotRecorder):
    """A recorder of a callback, whose trainer counts the steps."""

    _to_continue = "resume the training from a checkpoint to continue"


class SnapshotOptions:
    """The options of a callback. At the start of a training they give the recorder."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        every_steps: int | None,
        per_epoch: int | None,
        from_epoch: int,
        trainable_only: bool,
    ) -> None:
        if every_steps is not None and per_epoch is not None:
            raise ValueError(f"{SCOPE} needs every_steps or per_epoch, received both")
        for name, value in (("every_steps", every_steps), ("per_epoch", per_epoch), ("from_epoch", from_epoch)):
            if value is not None:
                whole_number(SCOPE, name, value, 1)
        require_switch(SCOPE, "trainable_only", trainable_only)
        if every_steps is not None and from_epoch > 1:
            raise ValueError(f"{SCOPE} needs per_epoch if from_epoch is given, received every_steps")
        self.folder, self.every_steps, self.per_epoch, self.from_epoch = (
            local_path(SCOPE, "folder", folder),
            every_steps,
            per_epoch or 2,
            from_epoch,
        )
        self.trainable_only = trainable_only

    def recorder(self, model: Any, epoch_steps: int | None, first_step: int, rank: int) -> SnapshotRecorder:
        """Returns a recorder. epoch_steps: the optimizer's steps in an epoch; None if the training set's length is
        unknown.
        """
        if self.every_steps is None and epoch_steps is None:
            raise ValueError(f"{SCOPE} needs every_steps, because the length of the training set is unknown")
        if self.every_steps is None and epoch_steps is not None and self.per_epoch > epoch_steps:
            raise ValueError(
                f"{SCOPE} needs per_epoch of at most {epoch_steps}, the length of an epoch, received {self.per_epoch}; "
                "give a smaller per_epoch, or every_steps"
            )
        close_earlier(self.folder)  # of a training that broke off
        if self.every_steps is not None:
            when: dict[str, Any] = {"every_steps": self.every_steps}
        else:
            when = {"epochs_of": epoch_steps, "per_epoch": self.per_epoch, "from_epoch": self.from_epoch}
        return _Recorder(
            model, self.folder, **when, first_step=first_step, trainable_only=self.trainable_only, rank=rank
        )
