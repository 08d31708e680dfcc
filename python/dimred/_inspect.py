"""What a checkpoint holds, and what is wrong with it."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from pathlib import Path

from dimred import _core
from dimred._arguments import local_path, require_switch


@dataclass(frozen=True)
class InspectedTensor:
    """A tensor: its type as safetensors names it, the files that it lies in, and what it is for the network.

    role: weight, adapter, buffer, statistic or quantised.
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
    """What a checkpoint holds. It prints as a summary, and as a table in a notebook.

    files, side_files: names relative to the checkpoint's folder. left_out: training state, by name. parameters:
    elements of weights, tied ones once. faults: empty where all that was asked for is whole.
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
        """Bytes of the tensors of each type."""
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
    """Says what one checkpoint holds, of any kind that dimred reads, as `dimred inspect` does: from headers alone.

    check: reads all values, block by block; NaN, infinities, and an index that does not fit its shards are faults,
        constant tensors and masks of -inf are remarks.
    write_manifest: writes SHA-256 of files and tensors there, a text that `sha256sum -c` reads; it replaces an
        earlier manifest and no other file.
    manifest: compares files and tensors with such a manifest; differences are faults.

    Raises ValueError for what is no checkpoint or several, and for a manifest that is missing or malformed; OSError
    for a damaged file, unless check or manifest makes it a fault.
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
