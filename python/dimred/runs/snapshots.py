"""Snapshots: HDF5 behind a 512-byte block that holds the digest of what follows."""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import xxhash

from .files import Damaged, NotARun, OtherVersion

USER_BLOCK = 512
MAGIC = b"dimred-snapshot "
KNOWN = b"1\n"


def check_snapshot(file: Path, digest: bool = True) -> None:
    """Compares a snapshot with the digest in its head, or (quicker) only looks at the format's number.
    Raises NotARun, OtherVersion or Damaged."""
    if not file.is_file():  # a pipe would be waited for
        raise NotARun(f"[dimred.runs] {file} is no file")
    with file.open("rb") as stream:
        block = stream.read(USER_BLOCK)
        if not block.startswith(MAGIC):
            raise NotARun(f"[dimred.runs] {file} is not a snapshot")
        if not block.startswith(MAGIC + KNOWN):
            raise OtherVersion(f"[dimred.runs] {file} has another format: {block.split(bytes([10]))[0]!r}")
        if digest:
            written = re.match(rb".*\nxxh3-128 ([0-9a-f]{32})\n", block)
            if not written or xxhash.xxh3_128_hexdigest(stream.read()).encode() != written[1]:
                raise Damaged(f"[dimred.runs] {file} is damaged: it does not have the digest in its head")


def snapshot_files(run: Path | str) -> list[Path]:
    """The snapshots of a run folder, or of a folder of snapshots, oldest first."""
    run = Path(run)
    folder = run / "snapshots" if (run / "snapshots").is_dir() else run
    return sorted(folder.glob("snapshot_*.h5"), key=lambda file: int(file.stem.split("_")[-1]))


def read_snapshots(run: Path | str) -> pd.DataFrame:
    """One line per snapshot: path, epoch, step, train_loss, validation_loss. Weights are not read."""
    rows = []
    for file in snapshot_files(run):
        check_snapshot(file, digest=False)
        with h5py.File(file) as h5:
            rows.append(
                {"path": file}
                | {
                    key: h5.attrs[key].item()
                    for key in ("epoch", "step", "train_loss", "validation_loss")
                    if key in h5.attrs
                }
            )
    return pd.DataFrame(rows, columns=["path", "epoch", "step", "train_loss", "validation_loss"])


def read_weights(file: Path | str, digest: bool = True) -> np.ndarray:
    """The flat weights [M] of one snapshot, float32, in PyTorch's order."""
    check_snapshot(Path(file), digest)
    with h5py.File(file) as h5:
        # A link, or data kept elsewhere, could lead into another file or to a pipe.
        own = isinstance(h5.get("weights", getlink=True), h5py.HardLink)
        if not own or h5["weights"].is_virtual or h5["weights"].external:
            raise Damaged(f"[dimred.runs] {file} is damaged: its weights lie in another place")
        return h5["weights"][:]
