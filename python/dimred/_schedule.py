"""The steps of a training at which a snapshot is due."""

from __future__ import annotations

from dataclasses import dataclass

from dimred._arguments import whole_number

SCOPE = "[SnapshotRecorder]"


@dataclass(frozen=True)
class Schedule:
    """Each `every_steps` steps; or `per_epoch` of the `epochs_of` steps of an epoch, at even distances and including
    the last step, from epoch `from_epoch` on.
    """

    every_steps: int | None
    epochs_of: int | None
    per_epoch: int
    from_epoch: int

    def __post_init__(self) -> None:
        if (self.every_steps is None) == (self.epochs_of is None):
            received = "neither" if self.every_steps is None else "both"
            raise ValueError(f"{SCOPE} needs either every_steps or epochs_of, received {received}")
        for name, value in vars(self).items():
            if value is not None:
                whole_number(SCOPE, name, value, 1)
        if self.epochs_of is not None and self.per_epoch > self.epochs_of:
            raise ValueError(
                f"{SCOPE} needs per_epoch <= epochs_of, received {self.per_epoch} and {self.epochs_of} steps"
            )
        if self.from_epoch > 1 and self.epochs_of is None:
            raise ValueError(
                f"{SCOPE} needs epochs_of if from_epoch is given, received from_epoch={self.from_epoch} alone"
            )

    def epoch(self, step: int) -> int:
        """Returns the epoch of a step, counted from 1; 0 if the length of an epoch is unknown."""
        return 0 if self.epochs_of is None else (step - 1) // self.epochs_of + 1

    def is_due(self, step: int) -> bool:
        """Returns whether a snapshot is due after this step, counted from 1."""
        if self.epochs_of is None:
            return step % (self.every_steps or 1) == 0
        return self.epoch(step) >= self.from_epoch and share_ends(
            (step - 1) % self.epochs_of, self.epochs_of, self.per_epoch
        )


def share_ends(index: int, count: int, shares: int) -> bool:
    """Returns whether item `index` of `count` is the last item of one of `shares` even shares."""
    return (index + 1) * shares // count > index * shares // count
