"""Converts one checkpoint of any readable kind to safetensors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dimred import _core
from dimred._arguments import local_path, one_of, shown, whole_number
from dimred._merge import DTYPES, bytes_of

TAKES = ("raw", "averaged")
Rules = str | os.PathLike[str] | Mapping[str, str] | Sequence[tuple[str, str]]


@dataclass(repr=False)
class Converted:
    """The checkpoint that convert() wrote, and the changes that it made.

    tensors: the names in the output. renamed: the name in the source -> the name in the output.
    folded, cast, excluded, left_out, tied: names in the source. An adapter changed the `folded` tensors. The `cast`
        tensors have another type. The `left_out` tensors are training state.
    """

    output: Path
    tensors: list[str]
    shards: int
    bytes: int
    renamed: dict[str, str]
    folded: list[str] = field(default_factory=list)
    cast: list[str] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    tied: list[list[str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        files = "1 file" if self.shards == 1 else f"{self.shards} files"
        lines = [f"Converted {str(self.output)!r}: {len(self.tensors)} tensors in {files}, {self.bytes:,} bytes"]
        changes = {
            "renamed": self.renamed,
            "changed by the adapter": self.folded,
            "cast to another type": self.cast,
            "left out by include and exclude": self.excluded,
            "left out as training state": self.left_out,
        }
        lines += [f"  {len(names)} {what}" for what, names in changes.items() if names]
        lines += [f"  tied, written under each name: {', '.join(names)}" for names in self.tied]
        return "\n".join(lines + [f"  {remark}" for remark in self.remarks])


def convert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    dtype: str = "same",
    shard_size: str | float | None = None,
    rename: Rules | None = None,
    include: str | None = None,
    exclude: str | None = None,
    adapter: str | os.PathLike[str] | None = None,
    take: str | None = None,
    threads: int = 0,
) -> Converted:
    """Writes one checkpoint as safetensors, like the command `dimred convert`. The checkpoint is read block by block
    and may be larger than memory.

    source: a file, a folder, shards, a distributed checkpoint, a snapshot, a state or a run.
    output: a folder, or one file if the name ends in .safetensors. The output must not exist yet.
    dtype: "same", "float32", "bfloat16" or "float16", for floating-point tensors.
    shard_size: a text such as "20KB" or "5GB" (powers of ten), or a number of GB; None keeps the shards of the source.
    rename: pairs of a regular expression and its replacement, or a file with lines REGEX -> TEXT. The first expression
        that matches a part of a name decides.
    include, exclude: regular expressions. Each one is searched for in the names of the source.
    adapter: a folder of PEFT with a LoRA adapter. The adapter is added to the weights.
    take: "raw" or "averaged", for a file that holds both kinds of weights.
    threads: 0 takes all cores of this process.

    Raises ValueError for a source that cannot be converted, and OSError for a damaged file. Neither leaves anything in
    `output`. Ctrl-C stops the call at the next block; a second call then continues and keeps the complete shards.
    """
    scope = "[dimred.convert]"
    one_of(scope, "dtype", dtype, tuple(DTYPES))
    whole_number(scope, "threads", threads, 0)
    if take is not None:
        one_of(scope, "take", take, TAKES)
    for name, value in {"include": include, "exclude": exclude}.items():
        if value is not None and not (isinstance(value, str) and value):
            raise ValueError(f"{scope} needs {name} as a regular expression, received {shown(value)}")
    answer = _core.convert(
        local_path(scope, "source", source),
        local_path(scope, "output", output),
        DTYPES[dtype],
        "0" if shard_size is None else f"{bytes_of(scope, shard_size)}B",
        rules_of(scope, rename),
        (include or "", exclude or ""),
        "" if adapter is None else local_path(scope, "adapter", adapter),
        take or "",
        threads,
    )
    tensors, shards, size, renamed, *names = answer
    return Converted(Path(output), tensors, shards, size, dict(renamed), *names)


def rules_of(scope: str, rename: Rules | None) -> Path | list[tuple[str, str]]:
    """Returns the rules as the path of a file or as pairs."""
    if rename is None:
        return []
    if isinstance(rename, str | os.PathLike):
        return local_path(scope, "rename", rename)
    pairs = list(rename.items() if isinstance(rename, Mapping) else rename)
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)):
            raise TypeError(f"{scope} needs rename as pairs of two texts, received {shown(pair)}")
    return [(pattern, text) for pattern, text in pairs]
