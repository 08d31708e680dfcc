"""The basis that dimred.fit returns."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
import zipfile
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
SIDECAR = ("sidecar of a matrix (.json)", FORMAT)
TILE = 1 << 16  # columns that project and back_project widen at a time

Floats = NDArray[np.float32]
Numbers = NDArray[np.float64]


class Basis:
    """k orthonormal rows over M parameters. `dimred pca` writes such a basis, and stage 2 reads it.

    components: [k, M] float32, read-only. A basis from a file is mapped into memory, not loaded.
    mean: [M] float64, the mean of the snapshots; with centre="base", the first snapshot. None where the mean is
        unknown: for kind "random", and for a matrix of `dimred pca` or of another program.
    singular_values, explained_variance_ratio: [k] float64. Both are empty without a sidecar.
    random_walk_ratio: [k] float64, the explained variance ratio that a random walk with the same number of snapshots
        would show (Antognini & Sohl-Dickstein, 2018). Zeros for kinds without such a ratio; empty without a sidecar.
    snapshots: the names of the fitted snapshots, in the order of the fit.
    blocks: for a block-diagonal basis (blocks="layers"), the range of columns (begin, end) on which each group of k
        rows acts. Empty if all rows act on all columns.
    names, shapes: the names and shapes of the parameters, in the order of the columns. Empty where the snapshots had no
        names.

    len(basis) is k. Two bases are equal if components, mean, blocks, names and shapes are equal.
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
        """Returns a text that identifies this matrix: the sidecar's checksum, or else a digest of all values, computed
        once.
        """
        if self._sidecar is not None:
            return _checksum(self._sidecar)
        if self._digest is None:
            digest = hashlib.sha256(repr(self.components.shape).encode())
            for row in self.components:
                digest.update(np.ascontiguousarray(row).data)
            self._digest = f"sha256:{digest.hexdigest()}"
        return self._digest

    def project(self, weights: Any) -> Numbers:
        """Returns the coordinates P w in float64. The mean is not subtracted.

        weights: a vector [M] or a state dict gives [k]; rows [n, M] give [n, k].
        """
        return coordinates_of(self.components, self._rows_of("project", weights))

    def back_project(self, coordinates: Any) -> Floats:
        """Returns P' c in float32. The mean is not added.

        coordinates: [k] gives [M]; [n, k] gives [n, M].
        """
        return cast(Floats, rows_of(self.components, self._coordinates("back_project", coordinates), None, np.float32))

    def transform(self, weights: Any) -> Numbers:
        """Returns P (w - mean) in float64, like scikit-learn's PCA. weights: as project() takes them."""
        return coordinates_of(self.components, self._rows_of("transform", weights), self._known_mean("transform"))

    def inverse_transform(self, coordinates: Any) -> Numbers:
        """Returns P' c + mean in float64. coordinates: as back_project() takes them."""
        mean = self._known_mean("inverse_transform")
        return cast(
            Numbers, rows_of(self.components, self._coordinates("inverse_transform", coordinates), mean, np.float64)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the matrix as .npy, its sidecar as .json and, if the mean is known, <stem>.mean.npz. Each file is
        written completely or not at all.

        An earlier matrix of dimred at this path, which has its .json, is replaced. Raises ValueError if one of these
        paths holds any other file or is a part of a run. Raises OSError, with the file's name, if a file cannot be
        written or if another process is writing the file.
        """
        npy = local_path("[Basis.save]", "path", path)
        if npy.suffix != ".npy":
            raise ValueError(f"[Basis.save] needs a name that ends in .npy, received '{npy}'")
        sidecar, mean = npy.with_suffix(".json"), mean_path(npy)
        require_matrix_place(npy, "path", [])
        require_own_mean(npy)
        files: list[tuple[Path, Any]] = [(npy, lambda file: np.save(_Stream(file), self.components))]
        if self._sidecar is not None:
            text = self._sidecar.encode()
            files.append((sidecar, lambda file: file.write(text)))
        if self.mean is not None:
            files.append((mean, self._write_mean))
        written: list[_Written] = []
        earlier = _core.EarlierFiles([npy, sidecar, mean])  # the others may not stand beside another matrix
        try:
            for path, write in files:
                written.append(_Written(path, write))
            earlier.keep()
            for part in written:
                part.commit()
            earlier.forget()
        except BaseException:
            earlier.restore()
            raise
        finally:
            for part in written:
                part.discard()

    def _write_mean(self, file: Any) -> None:
        held = {"mean": self.mean, "checksum": np.array(_checksum(self._sidecar))}
        np.savez(file, **cast(Any, held))

    def _save_mean(self, npy: Path) -> None:
        """Writes the mean, if it is known, beside a matrix and a sidecar that are there."""
        if self.mean is None:
            return
        part = _Written(mean_path(npy), self._write_mean, "[dimred.fit]")
        try:
            part.commit()
        finally:
            part.discard()

    @classmethod
    def load(cls, path: str | os.PathLike[str], verify: bool = True) -> Basis:
        """Reads a k x M matrix from an .npy file, with the sidecar beside the file. Other programs, such as
        scikit-learn and MindSpore, may have written the matrix.

        verify: True reads the whole matrix once and checks its digests, that all values are finite, and that the rows
            are orthonormal. False checks only the header and the sidecar.
        """
        npy = local_path("[Basis.load]", "path", path)
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
                f"[Basis.{method}] needs the mean of the snapshots, but this basis has no mean; project() and "
                "back_project() need none"
            )
        return self.mean

    def _rows_of(self, method: str, weights: Any) -> NDArray[Any]:
        if hasattr(weights, "state_dict"):
            raise TypeError(
                f"[Basis.{method}] needs a vector, rows or a state dict, received a {type(weights).__name__}; "
                "give its state_dict()"
            )
        w = self._flat(method, weights) if isinstance(weights, Mapping) else as_numbers(weights)
        _require_real(method, w)
        columns = self.components.shape[1]
        if w.ndim not in (1, 2) or w.shape[-1] != columns:
            raise ValueError(f"[Basis.{method}] needs {columns} values in each row, received shape {w.shape}")
        return w

    def _coordinates(self, method: str, coordinates: Any) -> Numbers:
        given = as_numbers(coordinates)
        _require_real(method, given)
        c = np.asarray(given, np.float64)
        if c.ndim not in (1, 2) or c.shape[-1] != len(self):
            raise ValueError(f"[Basis.{method}] needs {len(self)} coordinates in each row, received shape {c.shape}")
        return c

    def _flat(self, method: str, state: Mapping[str, Any]) -> NDArray[Any]:
        if not self.names:
            raise ValueError(f"[Basis.{method}] this basis has no names of parameters; give a vector, not a state dict")
        for key in state:
            require_name(f"[Basis.{method}]", key)
        spelled = spelled_names(self.names, list(state))
        for name, shape in zip(self.names, self.shapes, strict=True):
            found = tuple(state[spelled[name]].shape) if name in spelled else None
            if found != shape:
                received = "none" if found is None else str(list(found))
                raise ValueError(f"[Basis.{method}] needs {name} of shape {list(shape)}, received {received}")
        return np.concatenate([as_numbers(state[spelled[name]]).reshape(-1) for name in self.names])


def _require_real(method: str, values: NDArray[Any]) -> None:
    if np.iscomplexobj(values):
        raise ValueError(f"[Basis.{method}] needs real values, received {values.dtype}")


def require_matrix_place(npy: Path, option: str, inputs: list[Path]) -> None:
    """Raises ValueError if a matrix of dimred cannot or must not be written there: over an input, over a part of a run,
    or over a file that is no earlier matrix with its sidecar. option: the argument that names the path.
    """
    _core.require_result_place(npy, option, MATRIX, inputs)
    sidecar = npy.with_suffix(".json")
    _core.require_result_place(sidecar, option, SIDECAR, inputs)
    if npy.is_file() and npy.stat().st_size > 0 and not _is_own(npy, sidecar):
        there = sidecar.is_file() and sidecar.stat().st_size > 0
        names = [npy, sidecar, mean_path(npy)]
        raise ValueError(
            f"[file] '{npy}' exists already and cannot be recognised as an earlier {MATRIX[0]} of dimred, because "
            f"{sidecar.name} {'describes another matrix' if there else 'is missing'}"
            f"{_core.EarlierFiles(names).remark()}; choose another {option} or "
            "remove the file"
        )


def _is_own(npy: Path, sidecar: Path) -> bool:
    """Returns whether the sidecar describes a matrix of the file's shape. No values are read."""
    if not sidecar.is_file() or sidecar.stat().st_size == 0:
        return False
    try:
        _core.check_basis(npy, False)
    except (OSError, ValueError):
        return False
    return True


def _first_bytes(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        return file.read(count)


def mean_path(npy: Path) -> Path:
    return npy.with_suffix(".mean.npz")


def require_own_mean(npy: Path) -> None:
    """Raises ValueError for a file that is no mean of an earlier matrix, also under the name of the temporary file."""
    path = mean_path(npy)
    _core.EarlierFiles([path, path])  # a link or a folder
    begun = Path(f"{path}.tmp")
    if begun.is_file() and _first_bytes(begun, 2) not in (b"", b"PK"):
        raise ValueError(
            f"[file] '{path}' has the temporary name '{begun}', but another file has this temporary name; move that "
            "file, or choose another path"
        )
    if not path.exists():
        return
    try:
        with zipfile.ZipFile(path) as held:
            own = set(held.namelist()) == {"mean.npy", "checksum.npy"}
    except (OSError, zipfile.BadZipFile):
        own = False
    if not own:
        raise ValueError(
            f"[file] '{path}' exists already and is not the mean of an earlier matrix; choose another path or remove "
            "the file"
        )


def coordinates_of(components: Floats, rows: NDArray[Any], mean: Numbers | None = None) -> Numbers:
    """Returns P (w - mean) of a row [M] or of n rows, computed in tiles in float64."""
    out = np.zeros((*rows.shape[:-1], len(components)))
    for begin in range(0, components.shape[1], TILE):
        part = slice(begin, begin + TILE)
        w = rows[..., part].astype(np.float64)
        out += (w if mean is None else w - mean[part]) @ components[:, part].astype(np.float64).T
    return out


def rows_of(components: Floats, coordinates: Numbers, mean: Numbers | None, dtype: Any) -> NDArray[Any]:
    """Returns P' c + mean, summed in tiles in float64."""
    out = np.empty((*coordinates.shape[:-1], components.shape[1]), dtype)
    for begin in range(0, components.shape[1], TILE):
        part = slice(begin, begin + TILE)
        moved = coordinates @ components[:, part].astype(np.float64)
        out[..., part] = moved if mean is None else moved + mean[part]
    return out


def spelled_names(wanted: list[str], there: list[str]) -> dict[str, str]:
    """Returns, for each wanted name, the matching name in `there`; prefixes of wrappers and adapters are ignored."""
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
    """Returns the mean that was saved with exactly this matrix."""
    path = mean_path(npy)
    if not path.exists():
        return None
    with np.load(path) as held:
        return np.asarray(held["mean"], np.float64) if str(held["checksum"]) == _checksum(sidecar) else None


class _Stream:
    """A file whose write() alone is used: NumPy's own way into files does not say why it failed."""

    def __init__(self, file: Any) -> None:
        self.write = file.write


class _Written:
    """A file that appears under its name when it is complete and durable. A full disk shows before that."""

    def __init__(self, path: Path, write: Any, scope: str = "[Basis.save]") -> None:
        self._file: Any = _core.AtomicFile(path)  # locked, so that a second writer is refused
        try:
            with open(self._file.fileno(), "wb", closefd=False) as stream:
                write(stream)
            os.fsync(self._file.fileno())
        except OSError as error:
            self.discard()
            reason = error.strerror or str(error)
            raise OSError(error.errno or errno.EIO, f"{scope} cannot write the file, {reason}", str(path)) from None

    def commit(self) -> None:
        self._file.commit()

    def discard(self) -> None:
        self._file = None  # the core removes what was not committed
