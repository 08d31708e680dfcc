"""The basis that a fit gives."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dimred import _core
from dimred._arrays import as_array, state_row

FORMAT = '{\n "format": "dimred-pca 1",'  # how every sidecar of ours begins
TILE = 1 << 16  # columns that project and back_project widen at a time

Floats = NDArray[np.float32]


class Basis:
    """k orthonormal rows over M parameters, as `dimred pca` writes and stage 2 reads them.

    components: [k, M] float32, read-only; mapped into memory where it lies in a file.
    mean: [M] float32 of the snapshots; None where the fit did not see it (kind "random", a matrix of another program).
    singular_values, explained_variance_ratio, random_walk_ratio: [k] float64; the last is what a random walk of as many snapshots
        would show (Antognini & Sohl-Dickstein, 2018). Empty without a sidecar.
    snapshots: the names of those fitted, in the order taken.
    blocks: the columns that each k rows act on, of a block-diagonal basis (blocks="layers"); empty: all rows on all columns.
    names, shapes: of the parameters that the columns are, in order; empty where the snapshots had none.
    """

    def __init__(self, components: Floats, sidecar: str | None, mean: Floats | None) -> None:
        self.components = components
        self.mean = mean
        self._sidecar = sidecar
        self._digest: str | None = None
        about: dict[str, Any] = {} if sidecar is None else json.loads(sidecar)
        self.kind: str | None = about.get("kind")
        self.singular_values = np.array(about.get("singular_values", []))
        self.explained_variance_ratio = np.array(about.get("explained_variance_ratio", []))
        self.random_walk_ratio = np.array(about.get("random_walk_ratio", []))
        self.blocks: list[tuple[int, int]] = [(begin, end) for begin, end in about.get("blocks", [])]
        self.snapshots: list[str] = about.get("snapshot_files", [])
        parameters = (about.get("layout") or {}).get("parameters", [])
        self.names: list[str] = [parameter["name"] for parameter in parameters]
        self.shapes: list[tuple[int, ...]] = [tuple(parameter["shape"]) for parameter in parameters]

    def __repr__(self) -> str:
        k, columns = self.components.shape
        return f"Basis(kind={self.kind!r}, k={k}, M={columns}, explained={self.explained_variance_ratio.sum():.3f})"

    def checksum(self) -> str:
        """A text that tells this matrix from others: its sidecar's checksum, or a digest of all values, which are then read once."""
        if self._sidecar is not None:
            return _checksum(self._sidecar)
        if self._digest is None:
            digest = hashlib.sha256(repr(self.components.shape).encode())
            for row in self.components:
                digest.update(np.ascontiguousarray(row).data)
            self._digest = f"sha256:{digest.hexdigest()}"
        return self._digest

    def project(self, weights: Any) -> NDArray[np.float64]:
        """P w in float64, [k]: of a vector [M], of a state dict by name, or [n, k] of n x M rows. Nothing is subtracted."""
        w = self._flat(weights) if isinstance(weights, Mapping) else as_array(weights)[0]
        k, columns = self.components.shape
        if w.ndim not in (1, 2) or w.shape[-1] != columns:
            raise ValueError(f"[Basis.project] needs {columns} values a row, received shape {w.shape}")
        out = np.zeros((*w.shape[:-1], k))
        for begin in range(0, columns, TILE):
            part = slice(begin, begin + TILE)
            out += w[..., part].astype(np.float64) @ self.components[:, part].astype(np.float64).T
        return out

    def back_project(self, coordinates: Any) -> Floats:
        """P' c, [M] of k coordinates or [n, M] of n x k."""
        c = np.asarray(as_array(coordinates)[0], np.float64)
        k, columns = self.components.shape
        if c.ndim not in (1, 2) or c.shape[-1] != k:
            raise ValueError(f"[Basis.back_project] needs {k} coordinates a row, received shape {c.shape}")
        out = np.empty((*c.shape[:-1], columns), np.float32)
        for begin in range(0, columns, TILE):
            part = slice(begin, begin + TILE)
            out[..., part] = c @ self.components[:, part].astype(np.float64)
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes pca_mat.npy, its sidecar .json and, where the mean is known, <stem>.mean.npz; each whole or not at all.

        What stands there is replaced, but for a .json that is none of ours (ValueError).
        """
        npy = Path(path)
        if npy.suffix != ".npy":
            raise ValueError(f"[Basis.save] needs a name that ends in .npy, received '{npy}'")
        sidecar, mean = npy.with_suffix(".json"), npy.with_suffix(".mean.npz")
        if sidecar.exists() and not sidecar.read_text().startswith(FORMAT):
            raise ValueError(f"[Basis.save] '{sidecar}' is none of ours; move it away")
        written = [_Written(npy, lambda file: np.save(file, self.components))]
        if self._sidecar is not None:
            text = self._sidecar.encode()
            written.append(_Written(sidecar, lambda file: file.write(text)))
        if self.mean is not None:
            held = {"mean": self.mean, "checksum": np.array(_checksum(self._sidecar))}
            written.append(_Written(mean, lambda file: np.savez(file, **cast(Any, held))))
        try:
            for part in written:
                part.write()
            for old in (sidecar, mean):  # neither may stand beside a matrix that it does not describe
                old.unlink(missing_ok=True)
            for part in written:
                part.commit()
        finally:
            for part in written:
                part.discard()

    @classmethod
    def load(cls, path: str | os.PathLike[str], verify: bool = True) -> Basis:
        """A k x M .npy of this or another program (scikit-learn, MindSpore), with the sidecar beside it.

        verify reads all of it once: digests, finite values, orthonormal rows; False checks header and sidecar alone.
        """
        npy = Path(path)
        if not npy.exists():
            raise FileNotFoundError(f"[Basis.load] '{npy}' does not exist")
        _core.check_basis(str(npy), verify)
        return cls._of_files(npy, None)

    @classmethod
    def _of_files(cls, npy: Path, mean: Floats | None) -> Basis:
        sidecar = npy.with_suffix(".json")
        text = sidecar.read_text() if sidecar.exists() else None
        matrix = np.load(npy, mmap_mode="r")
        components = matrix if matrix.dtype == np.float32 else matrix.astype(np.float32)
        return cls(components, text, _mean_beside(npy, text) if mean is None else mean)

    @classmethod
    def _in_memory(cls, rows: Floats, sidecar: str, mean: Floats | None) -> Basis:
        """Of a fit that wrote as many of the rows as its sidecar says."""
        components = rows[: json.loads(sidecar)["components"]]
        components.flags.writeable = False
        return cls(components, sidecar, mean)

    def _flat(self, state: Mapping[str, Any]) -> Floats:
        if not self.names:
            raise ValueError("[Basis.project] this basis knows no names: give a vector")
        tensors = {name: (shape, values) for name, shape, _, values in state_row("", state)[1]}
        for name, shape in zip(self.names, self.shapes, strict=True):
            found = tuple(tensors[name][0]) if name in tensors else None
            if found != shape:
                raise ValueError(f"[Basis.project] needs {name} {list(shape)}, received {found and list(found)}")
        return np.concatenate([np.asarray(tensors[name][1], np.float32) for name in self.names])


def _checksum(sidecar: str | None) -> str:
    return "" if sidecar is None else str(json.loads(sidecar)["checksum"])


def _mean_beside(npy: Path, sidecar: str | None) -> Floats | None:
    """The mean that was saved with this very matrix."""
    path = npy.with_suffix(".mean.npz")
    if not path.exists():
        return None
    with np.load(path) as held:
        return cast(Floats, held["mean"]) if str(held["checksum"]) == _checksum(sidecar) else None


class _Written:
    """A file that appears under its name when it is complete and durable."""

    def __init__(self, path: Path, write: Any) -> None:
        self._path, self._write = path, write
        self._temporary = path.with_name(path.name + ".tmp")

    def write(self) -> None:
        with open(self._temporary, "wb") as file:
            self._write(file)
            file.flush()
            os.fsync(file.fileno())

    def commit(self) -> None:
        os.replace(self._temporary, self._path)

    def discard(self) -> None:
        self._temporary.unlink(missing_ok=True)
