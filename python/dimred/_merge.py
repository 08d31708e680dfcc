"""Checkpoints of any size into one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dimred import _core
from dimred._arguments import local_path, one_of, rates_of, require_switch, whole_number

DTYPES = {"same": "", "float32": "F32", "bfloat16": "BF16", "float16": "F16"}


@dataclass
class Merged:
    """A folder that was written. coefficients, inputs, steps: of each checkpoint, oldest first.

    copied: tensors that are not summed, integers and BatchNorm's statistics. left_out: training state.
    """

    output: Path
    coefficients: list[float]
    inputs: list[Path]
    steps: list[int]
    copied: list[str]
    left_out: list[str]


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
    dtype: str = "same",
    copy_from: str | None = None,
    allow_different_config: bool = False,
    threads: int = 0,
) -> Merged:
    """Writes one checkpoint out of several, as `dimred merge` does: each is read once, block by block, of any size.

    sources: checkpoints, folders of such, or patterns.
    kind: mean, linear, cosine, minus-sqrt (these three by the steps), wma, ema (by decay, 0.9) or pma-ema (by alpha,
        0.2).
    last, stride, first_step, last_step choose by step.
    copy_from: the checkpoint that gives what is not summed; where it is given, integers may differ.

    Raises ValueError for checkpoints that cannot be merged, OSError for damaged files; nothing then stays in `output`.
    Ctrl-C ends it at the next block; called once more, it goes on by shard.
    """
    scope = "[dimred.merge]"
    one_of(scope, "kind", kind, _core.merge_kinds)
    one_of(scope, "dtype", dtype, tuple(DTYPES))
    require_switch(scope, "allow_different_config", allow_different_config)
    whole_number(scope, "first_step", first_step, 0)
    for name, value in {"last": last, "last_step": last_step, "stride": stride}.items():
        if value is not None or name == "stride":
            whole_number(scope, name, value, 1)
    whole_number(scope, "threads", threads, 0)
    rates = rates_of(scope, kind, decay, alpha)
    paths = list(sources) if isinstance(sources, Sequence) and not isinstance(sources, str | bytes) else [sources]
    window = (first_step, last_step or 0, stride, last or 0)
    answer = _core.merge(
        [local_path(scope, "sources", path) for path in paths],
        local_path(scope, "output", output),
        kind,
        rates,
        window,
        DTYPES[dtype],
        copy_from,
        allow_different_config,
        threads,
    )
    return Merged(Path(output), *answer)
