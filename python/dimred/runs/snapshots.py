"""Snapshots: HDF5 after a 512-byte block that holds a digest of the rest of the file (see checkpoints/snapshot.h)."""

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
KNOWN = (b"2\n", b"1\n")
WEIGHTS_PER_DIGEST = 512


def check_snapshot(file: Path, digest: bool = True) -> None:
    """Compares a snapshot with its digests. digest: False checks only the format, which is quicker.

    Raises NotARun, OtherVersion or Damaged.
    """
    if not file.is_file():  # a pipe would be waited for
        raise NotARun(f"[dimred.runs] {file} is not a file")
    with file.open("rb") as stream:
        block = stream.read(USER_BLOCK)
        if not block.startswith(MAGIC):
            raise NotARun(f"[dimred.runs] {file} is not a snapshot")
        if not block[len(MAGIC) :].startswith(KNOWN):
            raise OtherVersion(f"[dimred.runs] {file} has an unknown format: {block.split(bytes([10]))[0]!r}")
        if not digest:
            return
        written = re.match(rb".*\nxxh3-128 ([0-9a-f]{32})\n(weights ([0-9]+) ([0-9]+)\n)?", block)
        if not written:
            raise Damaged(f"[dimred.runs] {file} is damaged: its header has no digest")
        rest = memoryview(stream.read())
        begin, end = (int(place or USER_BLOCK) - USER_BLOCK for place in written.group(3, 4))  # of version 1: nothing
        found = xxhash.xxh3_128(written[2] or b"")
        found.update(rest[:begin])
        found.update(rest[end:])
        if found.hexdigest().encode() != written[1]:
            raise Damaged(f"[dimred.runs] {file} is damaged: its contents do not match the digest in its header")
    if written[2]:
        _check_weights(file, rest[begin:end])


def _check_weights(file: Path, weights: memoryview) -> None:
    """Compares the weights' bytes with their digests. The digest in the header covers these digests."""
    size = 4 * WEIGHTS_PER_DIGEST
    found = [xxhash.xxh3_64_intdigest(weights[begin : begin + size]) for begin in range(0, len(weights), size)]
    with h5py.File(file) as h5:
        if not np.array_equal(h5["weights_xxh3"][:], np.array(found, np.uint64)):
            raise Damaged(f"[dimred.runs] {file} is damaged: its weights do not match their digests")


def snapshot_files(run: Path | str) -> list[Path]:
    """Returns the snapshots of a run folder, or of a folder of snapshots, oldest first."""
    run = Path(run)
    folder = run / "snapshots" if (run / "snapshots").is_dir() else run
    return sorted(folder.glob("snapshot_*.h5"), key=lambda file: int(file.stem.split("_")[-1]))


def read_snapshots(run: Path | str) -> pd.DataFrame:
    """Returns a table with one row for each snapshot: path, epoch, step, train_loss, validation_loss. Weights are not
    read.
    """
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
    """Returns the flat weights [M] of one snapshot, in float32 and in PyTorch's order of parameters."""
    check_snapshot(Path(file), digest)
    with h5py.File(file) as h5:
        # A link, or data kept elsewhere, could lead into another file or to a pipe.
        own = isinstance(h5.get("weights", getlink=True), h5py.HardLink)
        if not own or h5["weights"].is_virtual or h5["weights"].external:
            raise Damaged(f"[dimred.runs] {file} is damaged: its weights lie outside the file")
        return h5["weights"][:]
