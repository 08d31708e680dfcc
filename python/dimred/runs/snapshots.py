"""Snapshots: HDF5 behind a 512-byte block that holds a digest of what follows (see checkpoints/snapshot.h)."""

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
    """Compares a snapshot with its digests, or (quicker) only looks at the format's number.
    Raises NotARun, OtherVersion or Damaged."""
    if not file.is_file():  # a pipe would be waited for
        raise NotARun(f"[dimred.runs] {file} is no file")
    with file.open("rb") as stream:
        block = stream.read(USER_BLOCK)
        if not block.startswith(MAGIC):
            raise NotARun(f"[dimred.runs] {file} is not a snapshot")
        if not block[len(MAGIC) :].startswith(KNOWN):
            raise OtherVersion(f"[dimred.runs] {file} has another format: {block.split(bytes([10]))[0]!r}")
        if not digest:
            return
        written = re.match(rb".*\nxxh3-128 ([0-9a-f]{32})\n(weights ([0-9]+) ([0-9]+)\n)?", block)
        if not written:
            raise Damaged(f"[dimred.runs] {file} is damaged: it has no digest in its head")
        rest = memoryview(stream.read())
        begin, end = (int(place or USER_BLOCK) - USER_BLOCK for place in written.group(3, 4))  # of version 1: nothing
        found = xxhash.xxh3_128(written[2] or b"")
        found.update(rest[:begin])
        found.update(rest[end:])
        if found.hexdigest().encode() != written[1]:
            raise Damaged(f"[dimred.runs] {file} is damaged: it does not have the digest in its head")
    if written[2]:
        _check_weights(file, rest[begin:end])


def _check_weights(file: Path, weights: memoryview) -> None:
    """Compares the weights' bytes with their digests, which the digest in the head covers."""
    size = 4 * WEIGHTS_PER_DIGEST
    found = [xxhash.xxh3_64_intdigest(weights[begin : begin + size]) for begin in range(0, len(weights), size)]
    with h5py.File(file) as h5:
        if not np.array_equal(h5["weights_xxh3"][:], np.array(found, np.uint64)):
            raise Damaged(f"[dimred.runs] {file} is damaged: its weights do not have their digests")


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
