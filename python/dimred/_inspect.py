"""Shows what a checkpoint holds and which faults it has."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from pathlib import Path

from dimred import _core
from dimred._arguments import local_path, require_switch


@dataclass(frozen=True)
class InspectedTensor:
    """One tensor of a checkpoint.

    dtype: the type in the notation of safetensors. file: the files that hold the tensor. role: the tensor's use in the
    network: "weight", "adapter", "buffer", "statistic" or "quantised".
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    bytes: int
    file: str
    role: str


@dataclass(frozen=True, repr=False)
class Inspection:
    """The contents of a checkpoint. An Inspection prints as a summary, and as a table in a notebook.

    files, side_files: names relative to the checkpoint's folder.
    left_out: names of training state.
    parameters: the number of weights; tied weights count once.
    faults: empty if everything that was checked is intact.
    """

    path: Path
    format: str
    files: list[str]
    side_files: list[str]
    tensors: list[InspectedTensor]
    left_out: list[str]
    parameters: int
    remarks: list[str]
    faults: list[str]

    @property
    def bytes_by_dtype(self) -> dict[str, int]:
        """The number of bytes in the tensors of each type."""
        sums: dict[str, int] = {}
        for tensor in self.tensors:
            sums[tensor.dtype] = sums.get(tensor.dtype, 0) + tensor.bytes
        return sums

    def _rows(self) -> list[tuple[str, str]]:
        types = ", ".join(f"{dtype} {size:,} bytes" for dtype, size in sorted(self.bytes_by_dtype.items()))
        rows = [
            ("checkpoint", str(self.path)),
            ("format", f"{self.format}, {len(self.files)} files"),
            ("tensors", f"{len(self.tensors):,}"),
            ("parameters", f"{self.parameters:,}"),
            ("types", types),
        ]
        if self.left_out:
            rows.append(("left out", f"{len(self.left_out):,} tensors of training state"))
        rows += [("note", text) for text in self.remarks]
        return rows + [("FAULT", text) for text in self.faults]

    def __repr__(self) -> str:
        return "\n".join(f"{name:<12}{text}" for name, text in self._rows())

    def _repr_html_(self) -> str:
        shown = 50  # tensors; a notebook keeps its output
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in self._rows()
        )
        cells = "".join(
            "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in _cells(tensor)) + "</tr>"
            for tensor in self.tensors[:shown]
        )
        head = "<tr>" + "".join(f"<th>{name}</th>" for name in COLUMNS) + "</tr>"
        rest = f"<p>and {len(self.tensors) - shown:,} more</p>" if len(self.tensors) > shown else ""
        return f"<table>{rows}</table><table>{head}{cells}</table>{rest}"


COLUMNS = ("tensor", "dtype", "shape", "elements", "bytes", "role", "file")


def _cells(tensor: InspectedTensor) -> tuple[str, ...]:
    shape = " x ".join(map(str, tensor.shape)) or "scalar"
    return (tensor.name, tensor.dtype, shape, f"{tensor.elements:,}", f"{tensor.bytes:,}", tensor.role, tensor.file)


def inspect(
    path: str | os.PathLike[str],
    *,
    check: bool = False,
    manifest: str | os.PathLike[str] | None = None,
    write_manifest: str | os.PathLike[str] | None = None,
) -> Inspection:
    """Shows the contents of one checkpoint, like the command `dimred inspect`. By default only headers are read (of
    PyTorch's files all bytes). The checkpoint may be of any kind that dimred reads.

    check: reads all values, block by block. NaN, infinities, and an index that does not match its shards are faults.
        Constant tensors and masks of -inf are remarks.
    write_manifest: writes the SHA-256 digests of files and tensors to this file, in the format of `sha256sum -c`. An
        earlier manifest is replaced; no other file is.
    manifest: compares files and tensors with this manifest. Differences are faults.

    Raises ValueError if the path holds no checkpoint or several, and if a manifest is missing or malformed. Raises
    OSError for a damaged file; with check or manifest, damage is a fault in the result instead.
    """
    scope = "[dimred.inspect]"
    require_switch(scope, "check", check)

    all_threads = 0
    answer = _core.inspect(
        local_path(scope, "path", path),
        check,
        "" if manifest is None else local_path(scope, "manifest", manifest),
        "" if write_manifest is None else local_path(scope, "write_manifest", write_manifest),
        all_threads,
    )
    found, kind, files, side_files, tensors, *rest = answer
    return Inspection(Path(found), kind, files, side_files, [InspectedTensor(*fields) for fields in tensors], *rest)
