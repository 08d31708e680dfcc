"""Merges checkpoints of any size into one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from dimred import _core
from dimred._arguments import local_path, one_of, rates_of, require_switch, shown, whole_number

SCOPE = "[dimred.merge]"
DTYPES = {"same": "", "float32": "F32", "bfloat16": "BF16", "float16": "F16"}
RECIPE = ("kind", "last", "stride", "first_step", "last_step", "decay", "alpha", "gamma", "coefficients")


@dataclass(repr=False)
class Merged:
    """A checkpoint that merge() wrote.

    coefficients, inputs, steps: one entry for each merged checkpoint, oldest first. Coefficients by regular expression
        are a dict from each expression to such a list.
    copied: tensors that were copied, not summed: integers and BatchNorm's statistics. left_out: training state.
    remarks: notes on the choice and the order of checkpoints, on their weights, and on checkpoints of equal values.
    """

    output: Path
    coefficients: list[float] | dict[str, list[float]]
    inputs: list[Path]
    steps: list[int]
    copied: list[str]
    left_out: list[str]
    kind: str = ""
    remarks: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        """Merged('out': mean of 2 checkpoints, 0.5 of step-1, 0.5 of step-2)."""
        checkpoints = f"{len(self.inputs)} checkpoint" + ("" if len(self.inputs) == 1 else "s")
        if isinstance(self.coefficients, dict):
            shares = [f"{pattern!r}: {_numbers(values)}" for pattern, values in self.coefficients.items()]
        else:
            shares = [f"{share:.6g} of {path.name}" for share, path in zip(self.coefficients, self.inputs, strict=True)]
        if len(shares) > 8:
            shares = [*shares[:3], "...", *shares[-3:]]
        return f"Merged('{self.output}': {self.kind} of {checkpoints}, {', '.join(shares)})"


def merge(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    kind: str = "mean",
    *,
    last: int | None = None,
    stride: int = 1,
    first_step: int = 0,
    last_step: int | None = None,
    decay: float | None = None,
    alpha: float | None = None,
    gamma: float | None = None,
    coefficients: Sequence[float] | Mapping[str, Sequence[float]] | None = None,
    sweep: Sequence[Mapping[str, Any]] | None = None,
    base: str | os.PathLike[str] | None = None,
    take: str | None = None,
    dtype: str = "same",
    shard_size: str | float = 0,
    copy_from: str | os.PathLike[str] | None = None,
    allow_different_config: bool = False,
    threads: int = 0,
) -> Any:
    """Merges several checkpoints into one, like the command `dimred merge`. Each checkpoint is read once, block by
    block, and may be larger than memory.

    sources: checkpoints, folders that hold checkpoints, or patterns. Checkpoints are sorted by the steps in their
        names; if the names have no steps, the given order counts, and a remark says so. The mean of LoRA adapters is
        one adapter whose rank is the sum of their ranks.
    kind: "mean", "linear", "cosine" or "minus-sqrt" (these three weight checkpoints by their steps), "wma", "ema" (see
        decay), "pma-ema" (see alpha) or "power" (step^gamma).
    last, stride, first_step, last_step: choose checkpoints by step.
    decay, alpha, gamma: 0.9 for "ema", 0.2 for "pma-ema" and 1 for "power" by default.
    coefficients: instead of a kind, one number for each checkpoint, oldest first. Or a dict {regular expression: such a
        list}; for each tensor, the first expression that matches its name decides.
    sweep: writes several outputs into numbered folders and reads the sources once. A list of dicts with the arguments
        from kind to coefficients.
    base: a checkpoint to which the mean of adapters is added.
    take: "raw" or "averaged", for files that hold both kinds of weights.
    dtype: "same", "float32", "bfloat16" or "float16".
    shard_size: a text such as "20KB" or "5GB", or a number of GB; 0 keeps the shards of the checkpoint that is copied
        from.
    copy_from: the path or the name of the checkpoint that provides the tensors which are not summed, or "latest" (the
        default) or "oldest". With copy_from, integers may differ.
    allow_different_config: True merges checkpoints whose config.json differ.
    threads: 0 takes all cores of this process.

    Returns a Merged; with sweep, a list of Merged.

    Raises ValueError for checkpoints that cannot be merged, and OSError for a damaged file. Neither leaves anything in
    `output`. Ctrl-C stops the call at the next block; a second call then continues and keeps the complete shards.
    """
    one_of(SCOPE, "dtype", dtype, tuple(DTYPES))
    require_switch(SCOPE, "allow_different_config", allow_different_config)
    whole_number(SCOPE, "threads", threads, 0)
    if take is not None:
        one_of(SCOPE, "take", take, ("raw", "averaged"))
    own = dict(zip(RECIPE, (kind, last, stride, first_step, last_step, decay, alpha, gamma, coefficients), strict=True))
    paths = list(sources) if isinstance(sources, Sequence) and not isinstance(sources, str | bytes) else [sources]
    parts, copied, left_out, remarks = _core.merge(
        [local_path(SCOPE, "sources", path) for path in paths],
        local_path(SCOPE, "output", output),
        [_recipe(own)] if sweep is None else _swept(own, sweep),
        sweep is not None,
        DTYPES[dtype],
        None if copy_from is None else str(local_path(SCOPE, "copy_from", copy_from)),
        allow_different_config,
        None if base is None else local_path(SCOPE, "base", base).absolute(),
        take or "",
        bytes_of(SCOPE, shard_size),
        threads,
    )
    merged = [
        Merged(
            Path(output) / folder.name if sweep is not None else Path(output),
            dict(rules) or shares,
            inputs,
            steps,
            copied,
            left_out,
            kind_text,
            remarks,
        )
        for folder, kind_text, shares, rules, inputs, steps in parts
    ]
    return merged[0] if sweep is None else merged


def _swept(own: dict[str, Any], sweep: Any) -> list[Any]:
    """Returns the recipes of a sweep. Raises ValueError for an argument of a recipe beside the sweep."""
    if not isinstance(sweep, Sequence) or not sweep or not all(isinstance(line, Mapping) for line in sweep):
        raise TypeError(f"{SCOPE} needs sweep as a list of dicts, received {shown(sweep)}")
    usual = {"kind": "mean", "stride": 1, "first_step": 0}
    for name, value in own.items():
        if (value is not None) if name not in usual else value != usual[name]:  # arrays compare by element
            raise ValueError(f"{SCOPE} {name} belongs in the dicts of sweep, received {shown(value)} beside sweep")
    return [_recipe({**usual, **line}) for line in sweep]


def _recipe(values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns the arguments of _core for one output."""
    for name in values:
        if name not in RECIPE:
            raise ValueError(f"{SCOPE} needs {', '.join(RECIPE)} in a dict of sweep, received {shown(name)}")
    kind, coefficients = values["kind"], values.get("coefficients")
    one_of(SCOPE, "kind", kind, _core.merge_kinds)
    if coefficients is not None and kind != "mean":
        raise ValueError(f"{SCOPE} needs kind or coefficients, received both")
    whole_number(SCOPE, "first_step", values["first_step"], 0)
    for name in ("last", "last_step", "stride"):
        if values.get(name) is not None or name == "stride":
            whole_number(SCOPE, name, values.get(name), 1)
    rates = rates_of(SCOPE, kind, values.get("decay"), values.get("alpha"), values.get("gamma"))
    window = (values["first_step"], values.get("last_step") or 0, values["stride"], values.get("last") or 0)
    return kind, rates, window, None if coefficients is None else _given(coefficients)


def _given(coefficients: Any) -> list[Any]:
    """Returns the coefficients in the form of _core."""
    if isinstance(coefficients, Mapping):
        for pattern in coefficients:
            if not isinstance(pattern, str):
                raise TypeError(f"{SCOPE} needs coefficients by regular expressions, received {shown(pattern)}")
        if not coefficients:
            raise ValueError(f"{SCOPE} needs coefficients, received an empty dict")
        return [(pattern, _floats(values)) for pattern, values in coefficients.items()]
    return _floats(coefficients)


def _floats(values: Any) -> list[float]:
    numbers = [] if isinstance(values, str | bytes) or not hasattr(values, "__iter__") else list(values)
    if not numbers or not all(isinstance(value, Real) and not isinstance(value, bool) for value in numbers):
        raise TypeError(f"{SCOPE} needs coefficients as a list of numbers, received {shown(values)}")
    return [float(value) for value in numbers]


def _numbers(values: list[float]) -> str:
    return " ".join(f"{value:.6g}" for value in values)


def bytes_of(scope: str, size: Any) -> int:
    """Returns the bytes of a size: a text with a unit, or a number of GB."""
    if not isinstance(size, str | Real) or isinstance(size, bool):
        raise TypeError(f"{scope} needs shard_size as a text such as '5GB' or a number of GB, received {shown(size)}")
    try:
        return _core.byte_size(str(size))
    except ValueError as error:
        raise ValueError(f"{scope} shard_size {error}, received {shown(size)}") from error
