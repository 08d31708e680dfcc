"""Projection matrices with their sidecars, Gram matrices, and the angles between two bases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from .files import Damaged, NotARun, OtherVersion, read_json, read_text
from .run import Run
from .snapshots import check_snapshot, read_weights

FORMAT = "dimred-pca 1"
TILE = 1 << 18  # columns at a time


@dataclass
class Basis:
    """P [k x M] as a memory map, and the contents of pca_mat.json (empty for a matrix of another program)."""

    path: Path
    rows: np.ndarray
    sidecar: dict[str, Any]

    @property
    def kind(self) -> str:
        """pca | span | random | shuffled."""
        return str(self.sidecar.get("kind", "pca"))


def read_sidecar(file: Path) -> dict[str, Any]:
    """Returns pca_mat.json. Raises Damaged if the checksum differs, and OtherVersion for another format."""
    text, sidecar = read_text(file), read_json(file)
    if sidecar.get("format", FORMAT) != FORMAT:
        raise OtherVersion(
            f"[dimred.runs] {file} has the format {sidecar['format']!r}, but this version reads {FORMAT!r}"
        )
    checksum = sidecar.get("checksum")
    counted = text[: text.rfind('"checksum"')].encode()
    if checksum and xxhash.xxh3_128_hexdigest(counted) != checksum:
        raise Damaged(f"[dimred.runs] {file} is damaged or edited: its checksum does not match")
    return sidecar


def block_digests(rows: np.ndarray, columns: int) -> list[str]:
    """Returns the digest of each block of columns: XXH3-128 of the hex digests of its rows."""
    digest = xxhash.xxh3_128_hexdigest
    starts = range(0, rows.shape[1], columns)
    parts = (np.ascontiguousarray(rows[:, start : start + columns]) for start in starts)
    return [digest("".join(digest(row.tobytes()) for row in part).encode()) for part in parts]


def read_basis(file: Path | str, digest: bool = False) -> Basis:
    """Opens a matrix as a memory map. digest: True compares every byte with the sidecar's digests."""
    file = Path(file)
    if not file.is_file():
        raise NotARun(f"[dimred.runs] {file} does not exist")
    try:
        rows = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        raise Damaged(f"[dimred.runs] {file} is damaged: {error}") from error
    beside = file.with_suffix(".json")
    sidecar = read_sidecar(beside) if beside.is_file() else {}
    shape = (sidecar.get("components", rows.shape[0]), sidecar.get("parameters", rows.shape[-1]))
    if rows.shape != shape:
        raise Damaged(f"[dimred.runs] {file} has the shape {rows.shape}, but its sidecar records {shape}")
    written = sidecar.get("digests")
    if digest and written and block_digests(rows, written["columns"]) != written["blocks"]:
        raise Damaged(f"[dimred.runs] {file} is damaged: its columns do not match the digests in its sidecar")
    return Basis(file, rows, sidecar)


def find_sidecar(runs: Iterable[Run]) -> Path | None:
    """Returns the pca_mat.json of the first stage-2 run that has one. A PCA of all columns is preferred to any other
    matrix. The matrix itself may be missing.
    """
    found = []
    for run in runs:
        named = run.config.get("pca_mat")
        places = [Path(named).with_suffix(".json")] if named else []
        places += [run.folder / "pca_mat.json", run.folder.parent / "pca_mat.json"]
        found += [place for place in places if run.stage == "stage2" and place.is_file()][:1]
    return next((place for place in found if is_plain(read_json(place))), found[0] if found else None)


def is_plain(sidecar: dict[str, Any]) -> bool:
    """Returns whether the sidecar describes a PCA of all columns at once."""
    return sidecar.get("kind", "pca") == "pca" and not sidecar.get("blocks")


def principal_angles(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns the angles [min(k, l)] in radians, ascending, between the row spaces of P [k x M] and Q [l x M]. Both
    need orthonormal rows.

    The angles are arc cosines of the singular values of P Q'. Small angles, whose cosines have no digits left, are arc
    sines of the singular values of the smaller basis outside the larger one (Bjorck and Golub 1973).
    """
    large, small = (first, second) if first.shape[0] >= second.shape[0] else (second, first)
    tiles = [slice(start, start + TILE) for start in range(0, small.shape[1], TILE)]
    inner = sum(large[:, t].astype(float) @ small[:, t].astype(float).T for t in tiles)
    outside = np.zeros((small.shape[0],) * 2)
    for tile in tiles:
        rest = small[:, tile].astype(float) - inner.T @ large[:, tile].astype(float)
        outside += rest @ rest.T
    cosine = np.clip(np.linalg.svd(inner, compute_uv=False), 0, 1)
    sine = np.sqrt(np.clip(np.linalg.eigvalsh(outside), 0, 1))
    return np.where(cosine > np.sqrt(0.5), np.arcsin(sine), np.arccos(cosine))


def gram_matrix(snapshots: Sequence[Path] | np.ndarray) -> np.ndarray:
    """Returns the centred Gram matrix G = Wc Wc' [n x n] in float64. It is the matrix that `dimred pca --gram` writes.

    snapshots: an array W [n x M], or snapshot files. All files are held in memory.
    """
    if isinstance(snapshots, np.ndarray):
        weights = snapshots
    else:
        for file in snapshots:
            check_snapshot(file)
        weights = np.stack([read_weights(file, digest=False) for file in snapshots])
    gram = np.zeros((len(weights),) * 2)
    for start in range(0, weights.shape[1], TILE):
        tile = weights[:, start : start + TILE].astype(float)
        tile -= tile.mean(axis=0)
        gram += tile @ tile.T
    return gram


def gram_beside(sidecar: Path, limit: float = 1e9) -> np.ndarray | None:
    """Returns the Gram matrix of the snapshots behind a pca_mat.json, or None.

    The function reads gram.npy or pca_mat_gram.npy beside the sidecar. Otherwise it computes the matrix from the
    snapshots, if these still exist and have at most `limit` bytes.
    """
    for name in ("gram.npy", f"{sidecar.stem}_gram.npy"):
        if (sidecar.parent / name).is_file():
            return read_gram(sidecar.parent / name)
    report = read_sidecar(sidecar)
    files = [Path(file) for file in report.get("snapshot_files", [])]
    small = 4.0 * report.get("parameters", 0) * len(files) <= limit
    usable = small and files and all(file.suffix == ".h5" and file.is_file() for file in files)
    return gram_matrix(files) if usable else None


def read_gram(file: Path | str) -> np.ndarray:
    """Returns an n x n Gram matrix that `dimred pca --gram` wrote. Raises NotARun for a missing file, Damaged for any
    other content.
    """
    try:
        gram = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise NotARun(f"[dimred.runs] {file} does not exist") from None
    except (ValueError, OSError) as error:
        raise Damaged(f"[dimred.runs] {file} is damaged: {error}") from error
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not np.allclose(gram, gram.T):
        raise Damaged(f"[dimred.runs] {file} is not a Gram matrix: its shape is {gram.shape}")
    return gram
