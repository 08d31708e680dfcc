"""At which steps of a training a snapshot is due."""

from __future__ import annotations

from dataclasses import dataclass

from dimred._arguments import whole_number

SCOPE = "[SnapshotRecorder]"


@dataclass(frozen=True)
class Schedule:
    """Each `every_steps` steps; or `per_epoch` of the `epochs_of` steps of an epoch, evenly, the last step among them,
    from `from_epoch` on."""

    every_steps: int | None
    epochs_of: int | None
    per_epoch: int
    from_epoch: int

    def __post_init__(self) -> None:
        if (self.every_steps is None) == (self.epochs_of is None):
            raise ValueError(f"{SCOPE} needs every_steps or epochs_of, one of them")
        for name, value in vars(self).items():
            if value is not None:
                whole_number(SCOPE, name, value, 1)
        if self.epochs_of is not None and self.per_epoch > self.epochs_of:
            raise ValueError(
                f"{SCOPE} needs per_epoch <= epochs_of, received {self.per_epoch} of {self.epochs_of} steps"
            )
        if self.from_epoch > 1 and self.epochs_of is None:
            raise ValueError(f"{SCOPE} needs epochs_of where from_epoch is given, to know the epochs")

    def epoch(self, step: int) -> int:
        """The epoch of a step, counted from 1; 0 where the length of an epoch is not known."""
        return 0 if self.epochs_of is None else (step - 1) // self.epochs_of + 1

    def is_due(self, step: int) -> bool:
        """After this step, counted from 1."""
        if self.epochs_of is None:
            return step % (self.every_steps or 1) == 0
        return self.epoch(step) >= self.from_epoch and share_ends(
            (step - 1) % self.epochs_of, self.epochs_of, self.per_epoch
        )


def share_ends(index: int, count: int, shares: int) -> bool:
    """Whether item `index` of `count` is the last of one of `shares` even shares."""
    return (index + 1) * shares // count > index * shares // count
