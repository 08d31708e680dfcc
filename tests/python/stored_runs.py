"""Short runs for the tests of stores, and what they came to."""

from __future__ import annotations

from pathlib import Path

import h5py
from cli import cli, rows_in
from fashion import few

ANY_DATA = cli("--train_samples=1600 --test_samples=300 --batch_size=64 --threads=1 --snapshots_per_epoch=4", "--quiet")
STAGE1 = [*ANY_DATA, f"--data={few()}"]
QUICK = ["--store_attempts=2", "--store_first_wait=0.05", "--store_timeout=2"]


def weights(run: Path) -> dict[str, bytes]:
    """The weights of every snapshot."""
    found = {}
    for file in sorted((run / "snapshots").glob("*.h5")):
        with h5py.File(file) as h5:
            found[file.name] = h5["weights"][:].tobytes()
    return found


def curve(run: Path) -> list[tuple[str, str]]:
    """Epochs and losses."""
    return [(row["epoch"], row["test_loss"]) for row in rows_in(run / "curve.csv")]
