"""The basis that a fit gives."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dimred import _core
from dimred._arguments import local_path
from dimred._arrays import as_numbers, require_name

FORMAT = '{\n "format": "dimred-pca 1",'  # how every sidecar of ours begins
MATRIX = ("matrix (.npy)", "NUMPY")  # what an earlier one is, and what it begins with
TILE = 1 << 16  # columns that project and back_project widen at a time

Floats = NDArray[np.float32]
Numbers = NDArray[np.float64]


class Basis:
    """k orthonormal rows over M parameters, as `dimred pca` writes and stage 2 reads them.

    components: [k, M] float32, read-only; mapped into memory where it lies in a file.
    mean: [M] float64 of the snapshots, or the first one (centre="base"); None where the fit did not see it (kind
        "random", a matrix of another program).
    singular_values, explained_variance_ratio, random_walk_ratio: [k] float64; the last is what a random walk of as many
        snapshots would show (Antognini & Sohl-Dickstein, 2018). Empty without a sidecar.
    snapshots: the names of those fitted, in the order taken.
    blocks: the columns that each k rows act on, of a block-diagonal basis (blocks="layers"); empty: all rows on all
        columns.
    names, shapes: of the parameters that the columns are, in order; empty where the snapshots had none.

    len() is k; two are equal where components, mean, blocks and parameters are.
    """

    def __init__(self, components: Floats, sidecar: str | None, mean: Numbers | None) -> None:
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

    def __len__(self) -> int:
        return len(self.components)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Basis):
            return NotImplemented
        if (self.mean is None) != (other.mean is None):
            return False
        return (
            (self.blocks, self.names, self.shapes) == (other.blocks, other.names, other.shapes)
            and np.array_equal(self.components, other.components)
            and (self.mean is None or np.array_equal(self.mean, cast(Numbers, other.mean)))
        )

    def __hash__(self) -> int:
        return hash((self.components.shape, tuple(self.names)))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"components": np.asarray(self.components)}  # without its file

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.components.flags.writeable = False

    def checksum(self) -> str:
        """A text that tells this matrix from others: its sidecar's checksum, or a digest of all values, read once."""
        if self._sidecar is not None:
            return _checksum(self._sidecar)
        if self._digest is None:
            digest = hashlib.sha256(repr(self.components.shape).encode())
            for row in self.components:
                digest.update(np.ascontiguousarray(row).data)
            self._digest = f"sha256:{digest.hexdigest()}"
        return self._digest

    def project(self, weights: Any) -> Numbers:
        """P w in float64, [k]: of a vector [M], of a state dict by name, or [n, k] of n x M rows; no mean is taken."""
        return coordinates_of(self.components, self._rows_of("project", weights))

    def back_project(self, coordinates: Any) -> Floats:
        """P' c, [M] of k coordinates or [n, M] of n x k."""
        return cast(Floats, rows_of(self.components, self._coordinates("back_project", coordinates), None, np.float32))

    def transform(self, weights: Any) -> Numbers:
        """P (w - mean) in float64, of what project() takes: as scikit-learn's PCA has it."""
        return coordinates_of(self.components, self._rows_of("transform", weights), self._known_mean("transform"))

    def inverse_transform(self, coordinates: Any) -> Numbers:
        """P' c + mean in float64, of what back_project() takes."""
        mean = self._known_mean("inverse_transform")
        return cast(
            Numbers, rows_of(self.components, self._coordinates("inverse_transform", coordinates), mean, np.float64)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes pca_mat.npy, its sidecar .json and, where the mean is known, <stem>.mean.npz; each whole or not.

        An earlier matrix is replaced; another file, a part of a run, and a .json that is none of ours are ValueError.
        OSError names the file that cannot be written, and a second writer of it.
        """
        npy = local_path("[Basis.save]", "a path", path)
        if npy.suffix != ".npy":
            raise ValueError(f"[Basis.save] needs a name that ends in .npy, received '{npy}'")
        sidecar, mean = npy.with_suffix(".json"), npy.with_suffix(".mean.npz")
        if sidecar.exists() and not sidecar.read_bytes().startswith(FORMAT.encode()):
            raise ValueError(f"[Basis.save] '{sidecar}' is none of ours; move it away")
        _core.require_result_place(npy, "path", MATRIX, [])
        files: list[tuple[Path, Any]] = [(npy, lambda file: np.save(_Stream(file), self.components))]
        if self._sidecar is not None:
            text = self._sidecar.encode()
            files.append((sidecar, lambda file: file.write(text)))
        if self.mean is not None:
            held = {"mean": self.mean, "checksum": np.array(_checksum(self._sidecar))}
            files.append((mean, lambda file: np.savez(file, **cast(Any, held))))
        written: list[_Written] = []
        try:
            for path, write in files:
                written.append(_Written(path, write))
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
        npy = local_path("[Basis.load]", "a path", path)
        if not npy.exists():
            raise FileNotFoundError(f"[Basis.load] '{npy}' does not exist")
        _core.check_basis(npy, verify)
        return cls._of_files(npy, None)

    @classmethod
    def _of_files(cls, npy: Path, mean: Numbers | None) -> Basis:
        sidecar = npy.with_suffix(".json")
        text = sidecar.read_text(encoding="utf-8") if sidecar.exists() else None
        matrix = np.load(npy, mmap_mode="r")
        components = matrix if matrix.dtype == np.float32 else matrix.astype(np.float32)
        components.flags.writeable = False
        return cls(components, text, _mean_beside(npy, text) if mean is None else mean)

    @classmethod
    def _in_memory(cls, rows: Floats, sidecar: str, mean: Numbers | None) -> Basis:
        """The basis of a fit that wrote as many of the rows as its sidecar says."""
        components = rows[: json.loads(sidecar)["components"]]
        components.flags.writeable = False
        return cls(components, sidecar, mean)

    def _known_mean(self, method: str) -> Numbers:
        if self.mean is None:
            raise ValueError(
                f"[Basis.{method}] needs the mean of the snapshots, which this basis does not know; project() "
                "subtracts nothing"
            )
        return self.mean

    def _rows_of(self, method: str, weights: Any) -> NDArray[Any]:
        if hasattr(weights, "state_dict"):
            raise TypeError(
                f"[Basis.{method}] needs a vector, rows or a state dict, received a {type(weights).__name__}; "
                "give its state_dict()"
            )
        w = self._flat(method, weights) if isinstance(weights, Mapping) else as_numbers(weights)
        columns = self.components.shape[1]
        if w.ndim not in (1, 2) or w.shape[-1] != columns:
            raise ValueError(f"[Basis.{method}] needs {columns} values a row, received shape {w.shape}")
        return w

    def _coordinates(self, method: str, coordinates: Any) -> Numbers:
        c = np.asarray(as_numbers(coordinates), np.float64)
        if c.ndim not in (1, 2) or c.shape[-1] != len(self):
            raise ValueError(f"[Basis.{method}] needs {len(self)} coordinates a row, received shape {c.shape}")
        return c

    def _flat(self, method: str, state: Mapping[str, Any]) -> NDArray[Any]:
        if not self.names:
            raise ValueError(f"[Basis.{method}] this basis knows no names: give a vector")
        for key in state:
            require_name(f"[Basis.{method}]", key)
        spelled = spelled_names(self.names, list(state))
        for name, shape in zip(self.names, self.shapes, strict=True):
            found = tuple(state[spelled[name]].shape) if name in spelled else None
            if found != shape:
                raise ValueError(f"[Basis.{method}] needs {name} {list(shape)}, received {found and list(found)}")
        return np.concatenate([as_numbers(state[spelled[name]]).reshape(-1) for name in self.names])


def coordinates_of(components: Floats, rows: NDArray[Any], mean: Numbers | None = None) -> Numbers:
    """P (w - mean) of a row [M] or of n rows, by tiles in float64."""
    out = np.zeros((*rows.shape[:-1], len(components)))
    for begin in range(0, components.shape[1], TILE):
        part = slice(begin, begin + TILE)
        w = rows[..., part].astype(np.float64)
        out += (w if mean is None else w - mean[part]) @ components[:, part].astype(np.float64).T
    return out


def rows_of(components: Floats, coordinates: Numbers, mean: Numbers | None, dtype: Any) -> NDArray[Any]:
    """P' c + mean, summed by tiles in float64."""
    out = np.empty((*coordinates.shape[:-1], components.shape[1]), dtype)
    for begin in range(0, components.shape[1], TILE):
        part = slice(begin, begin + TILE)
        moved = coordinates @ components[:, part].astype(np.float64)
        out[..., part] = moved if mean is None else moved + mean[part]
    return out


def spelled_names(wanted: list[str], there: list[str]) -> dict[str, str]:
    """For each wanted name the one that `there` has for it: the same, but for what wrappers and adapters add."""
    known = set(there)
    if known.issuperset(wanted) or "torch" not in sys.modules:
        return {name: name for name in wanted if name in known}
    from dimred._modules import plain_names

    found = dict(zip(plain_names(there), there, strict=True))
    pairs = zip(wanted, plain_names(wanted), strict=True)
    return {name: name if name in known else found[plain] for name, plain in pairs if name in known or plain in found}


def _checksum(sidecar: str | None) -> str:
    return "" if sidecar is None else str(json.loads(sidecar)["checksum"])


def _mean_beside(npy: Path, sidecar: str | None) -> Numbers | None:
    """The mean that was saved with this very matrix."""
    path = npy.with_suffix(".mean.npz")
    if not path.exists():
        return None
    with np.load(path) as held:
        return np.asarray(held["mean"], np.float64) if str(held["checksum"]) == _checksum(sidecar) else None


class _Stream:
    """A file whose write() alone is used: NumPy's own way into files does not say why it failed."""

    def __init__(self, file: Any) -> None:
        self.write = file.write


class _Written:
    """A file that appears under its name when it is complete and durable."""

    def __init__(self, path: Path, write: Any) -> None:
        self._file: Any = _core.AtomicFile(path)  # locked, so that a second writer is refused
        try:
            with open(self._file.fileno(), "wb", closefd=False) as stream:
                write(stream)
        except OSError as error:
            self.discard()
            reason = error.strerror or str(error)
            raise OSError(
                error.errno or errno.EIO, f"[Basis.save] cannot write the file, {reason}", str(path)
            ) from None

    def commit(self) -> None:
        self._file.commit()

    def discard(self) -> None:
        self._file = None  # the core removes what was not committed
