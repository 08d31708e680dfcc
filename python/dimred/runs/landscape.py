"""The loss surface in the plane of two components, as `dimred inspect --landscape` writes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from .files import Damaged, read_csv

COLUMNS = ("a", "b", "loss", "accuracy")


@dataclass
class Landscape:
    """Values on a grid, [b x a], and the snapshots' path (columns a, b) if its file exists."""

    a: np.ndarray
    b: np.ndarray
    loss: np.ndarray
    accuracy: np.ndarray
    path: pd.DataFrame | None


def read_landscape(file: Path | str) -> Landscape:
    """Reads FILE.csv and, if it exists, FILE_path.csv. Raises Damaged unless the grid is complete."""
    file = Path(file)
    table = read_csv(file, COLUMNS, whole=True)
    grids = {name: table.pivot_table(index="b", columns="a", values=name, dropna=False) for name in COLUMNS[2:]}
    loss = grids["loss"]
    if loss.size != len(table):
        raise Damaged(f"[dimred.runs] {file} is not a grid: it has {len(table)} points for the shape {loss.shape}")
    beside = file.with_name(f"{file.stem}_path.csv")
    path = read_csv(beside, ("a", "b"), whole=True) if beside.is_file() else None
    return Landscape(
        loss.columns.to_numpy(), loss.index.to_numpy(), loss.to_numpy(), grids["accuracy"].to_numpy(), path
    )
