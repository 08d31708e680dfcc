"""A run of `dimred stage2` whose newest state an optimizer has loaded, and the state that follows."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimred import _core


@dataclass
class Cost:
    """The cost of the steps since a state was loaded."""

    seconds: float = 0
    forward_passes: int = 0
    backward_passes: int = 0
    basis_bytes_read: int = 0


@dataclass
class TakenRun:
    """scope: the scope of its messages. state: the folder of the state. text: the state's scalars, as the core read
    them.
    """

    scope: str
    state: str
    text: str

    def __post_init__(self) -> None:
        self.scalars: dict[str, Any] = json.loads(self.text)

    def require_way_back(self, preset: str, method: _core.Method, total_steps: int | None, ranks: int) -> Path:
        """Returns the run's folder. Raises ValueError if `dimred stage2` would not have taken the same steps."""
        run, text = _core.run_of_state(self.state)
        if not run:
            raise ValueError(
                f"{self.scope} save_run needs a state inside a run folder, received '{self.state}', "
                "which is in no run folder"
            )
        options = {name: value for part in _tables(tomllib.loads(text)) for name, value in part.items()}
        wanted = {"preset": preset, "trial_batchnorm": "restored", "average": "none", **method.options}
        for name, value in wanted.items():
            if options.get(name) != value:
                raise ValueError(
                    f"{self.scope} save_run needs {name} = {options.get(name)}, as in the run, received {value}"
                )
        if "loss_scale" in self.scalars:
            raise ValueError(
                f"{self.scope} save_run does not support a run with a loss scale, because step() cannot update it"
            )
        length = None if options.get("budget") else self.scalars["length"] * self.scalars["steps_per_epoch"]
        if method.depends_on_length and total_steps != length:
            ends = "by a budget of passes" if length is None else f"after {length:.0f} steps"
            raise ValueError(
                f"{self.scope} save_run needs rates that fall over the whole run; the run ends {ends}, "
                f"received total_steps = {total_steps}"
            )
        if ranks > 1:
            raise ValueError(f"{self.scope} save_run needs one process, received {ranks} ranks")
        return Path(run)

    def following(
        self, steps: int, cost: Cost, method: _core.Method, coordinates: NDArray[np.float64]
    ) -> dict[str, Any]:
        """Returns the scalars after `steps` more steps: the epoch's last step is done, and its row of the curve is due.

        Raises ValueError unless the steps are whole epochs, and beyond the end of a run whose rates fall.
        """
        per_epoch, position = self.scalars["steps_per_epoch"], self.scalars["position"]
        before, within = divmod(position["epoch"] * per_epoch + position["step_in_epoch"], per_epoch)
        epochs, more = divmod(steps, per_epoch)
        if within or more or not epochs:
            raise ValueError(
                f"{self.scope} save_run needs whole epochs of {per_epoch} steps since load_run, received {steps} steps"
                + (f" after {within} steps of an epoch" if within else "")
            )
        # Neither a run of this length nor a longer one could continue there.
        if method.depends_on_length and before + epochs > self.scalars["length"]:
            raise ValueError(
                f"{self.scope} save_run needs steps within the {self.scalars['length']:g} epochs over which the run's "
                f"rates fall, received steps up to epoch {before + epochs}"
            )
        spent = position["totals"]
        totals = spent | {"images": spent["images"] + spent["images"] // before * epochs if before else 0}
        totals |= {name: spent[name] + value for name, value in vars(cost).items()}
        done = self.scalars["step"] + steps
        sums = {"loss_sum": 0.0, "correct_count": 0.0, "sample_count": 0.0}
        at = (
            position
            | sums
            | {
                "epoch": before + epochs - 1,
                "step_in_epoch": per_epoch,
                "step": done,
                "row_due": True,
                "totals": totals,
            }
        )
        return self.scalars | {
            "step": done,
            "position": at,
            "method": method.state_dict(),
            "coordinates": coordinates.tolist(),
            "not_finite": 0,
        }


def _tables(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the table and all tables inside it."""
    return [table, *(part for value in table.values() if isinstance(value, dict) for part in _tables(value))]
