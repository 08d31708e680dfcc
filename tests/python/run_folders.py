"""Run folders as dimred leaves them, made in a moment: their every figure is known."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import xxhash

COLUMNS = (
    "stage,method,weights,epoch,step,images,seconds,data_wait_seconds,forward_passes,"
    "backward_passes,learning_rate,train_loss,validation_loss,validation_accuracy,test_loss,"
    "test_accuracy,basis_bytes_read,wire_bytes"
).split(",")


def row(epoch: float, accuracy: float, **other: object) -> dict[str, object]:
    """One curve row: 10 steps, 100 images, 2 seconds and 10 forward passes an epoch."""
    plain = {"stage": "stage1", "method": "sgd", "weights": "raw", "train_loss": 1 / (epoch + 1)}
    cost = {"images": 100 * epoch, "seconds": 2.0 * epoch, "forward_passes": 10 * epoch}
    return plain | cost | {"epoch": epoch, "test_accuracy": accuracy, "test_loss": 0.5} | other


def write_run(folder: Path, rows: list[dict[str, object]], config: str = "epochs = 3\n", **manifest: object) -> Path:
    """A run folder; its config.toml has the digest of what follows, as dimred writes it."""
    folder.mkdir(parents=True)
    pd.DataFrame(rows, columns=COLUMNS).to_csv(folder / "curve.csv", index=False)
    digest = xxhash.xxh3_128_hexdigest(config.encode())
    (folder / "config.toml").write_text(f"# Written by dimred; XXH3-128 of what follows: {digest}\n{config}")
    report = {"outcome": "finished", "seed": 1, "versions": {"dimred": "0.1.0"}} | manifest
    (folder / "manifest.json").write_text(json.dumps(report))
    return folder
