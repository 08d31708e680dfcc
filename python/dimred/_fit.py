"""dimred.fit."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from dimred import _core
from dimred._arguments import local_path, one_of, shown, whole_number
from dimred._basis import MATRIX, Basis
from dimred._sources import open_source, row_values

SCOPE = "[dimred.fit]"
Kind = Literal["pca", "span", "random", "shuffled"]
KINDS: tuple[str, ...] = get_args(Kind)


class _AtMost(int):
    """A number of components that nobody gave: fewer where there are fewer."""


DEFAULT = _AtMost(32)


def fit(
    source: Any,
    components: float | None = DEFAULT,
    kind: Kind = "pca",
    *,
    centre: Literal["mean", "base"] = "mean",
    exclude: str | Iterable[str] = (),
    output: str | os.PathLike[str] | None = None,
    blocks: Literal["whole", "layers"] = "whole",
    seed: int = 0,
    threads: int = 0,
    progress: bool | Callable[[float], None] | None = None,
) -> Basis:
    """The exact principal components of n weight snapshots of M values each, in two passes; W may exceed memory.

    source: an n x M array (NumPy, torch, JAX: anything with DLPack, a buffer or __array__; float32, float64, float16 or
        bfloat16, read where it lies); a folder, a pattern or a list of .h5, .safetensors (also sharded, by their index)
        or .pt/.pth/.bin/.ckpt files (PyTorch's, MindSpore's; nothing in them is run), folders of Hugging Face's
        checkpoints or PEFT's adapters; an .npy; a list of state dicts or of vectors. Files are taken in natural number
        order. BatchNorm's statistics, integers and training state (an optimizer's moments, learning_rate, n_averaged)
        are left out, and tied weights taken once. float64 is centred before it is rounded.
    components: k, rows of the basis; needs n - 1 >= k (span: n >= k), where it is given; of fewer than 33 snapshots,
        n - 1 with a warning. None: n - 1, at most M (span: n). A float in (0, 1): the fewest components that explain
        more than this part of the variance (kinds pca and shuffled), by the same two passes.
    kind: "pca"; "span" of the snapshots, not centred; "random" rows; "shuffled": the components with each layer's
        columns moved.
    centre: "base" takes the components of the differences from the first snapshot (kind "pca"), which are not centred:
        the Basis has the first snapshot as its mean, "span" as its kind, and shares of the squared norm.
    exclude: patterns (fnmatch's) of names of parameters that stay out, such as "*.bias".
    output: write pca_mat.npy and its .json here; else the basis lives in memory until it is saved, or in a temporary
        file where it would take more than half of the memory that is free.
    blocks: "layers" fits each parameter by itself.
    seed: of the kinds "random" and "shuffled".
    threads: 0 takes all cores of this process.
    progress: True shows a line on standard error, by default where that is a terminal; or a function of the fraction
        done.

    Returns a Basis. The GIL is free meanwhile; Ctrl-C stops and leaves nothing behind.
    Raises ValueError for snapshots that differ in name or shape (the first difference), are too few or hold a value
    that is not finite (file and parameter), FileNotFoundError, and OSError for damage or a full disk.
    """
    one_of(SCOPE, "kind", kind, KINDS)
    one_of(SCOPE, "blocks", blocks, ("whole", "layers"))
    one_of(SCOPE, "centre", centre, ("mean", "base"))
    base = centre == "base"
    if base and (kind != "pca" or isinstance(components, (float, np.floating))):
        raise ValueError(
            f"{SCOPE} centre='base' needs kind 'pca' and a number of components, received {kind!r} and "
            f"{shown(components)}"
        )
    for name, value in (("seed", seed), ("threads", threads)):
        whole_number(SCOPE, name, value, 0)
    if seed != 0 and kind not in ("random", "shuffled"):
        raise ValueError(f"{SCOPE} seed has no effect: it needs kind 'random' or 'shuffled', received {kind!r}")
    rows = open_source(source, exclude)
    mean = None if kind == "random" else np.empty(rows.columns, np.float64)
    if base:
        mean = row_values(rows, 0).astype(np.float64)
    most = min(rows.rows if kind == "span" else rows.rows - 1, rows.columns)
    if isinstance(components, _AtMost) and kind != "random" and 1 <= most < components:
        warnings.warn(
            f"[dimred.fit] takes {most} components, not {components}: {rows.rows} snapshots of {rows.columns} values "
            "have no more",
            stacklevel=2,
        )
        components = most
    k, variance = (most, 0.0) if components is None else _counted(components, most)
    with _Progress(progress) as report:
        arguments = (k, variance, kind, base, blocks, seed, threads, None if base else mean, report)
        if output is not None:
            path = local_path(SCOPE, "output", output)
            _core.require_result_place(path, "output", MATRIX, [])
            _core.fit(rows, path, *arguments)
            return Basis._of_files(path, mean)
        room = max(1, k or most)  # the core refuses what k cannot be; 0 is all of a span
        if 4 * room * rows.columns < _available_memory() / 2:
            matrix = np.empty((room, rows.columns), np.float32)
            return Basis._in_memory(matrix, _core.fit(rows, matrix, *arguments), mean)
        with tempfile.TemporaryDirectory(prefix="dimred-") as folder:  # mapped, then deleted
            path = Path(folder) / "pca_mat.npy"
            _core.fit(rows, path, *arguments)
            return Basis._of_files(path, mean)


def _counted(components: float, most: int) -> tuple[int, float]:
    """k, and the part of the variance, which is 0 unless it decides; k is then the most that there can be."""
    if isinstance(components, (int, np.integer)) and not isinstance(components, bool):
        return int(components), 0.0
    if not isinstance(components, (float, np.floating)) or not 0 < components < 1:
        raise ValueError(
            "[dimred.fit] needs components as a whole number, as a part of the variance in (0, 1) or as None, "
            f"received {shown(components)}"
        )
    return most, float(components)


def _available_memory() -> float:
    """Bytes that can be had without swapping, nor beyond a container's limit; no limit where the system does not tell.

    Source: Linux's proc_meminfo(5), and Control Group v2: each group around the process has a limit of its own.
    """
    found = [1024.0 * value for value in _numbers(Path("/proc/meminfo"), "MemAvailable:")]
    root, lines = Path("/sys/fs/cgroup"), _text(Path("/proc/self/cgroup")).splitlines()
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")
    parts = [part for part in own.split("/") if part not in ("", "..")]  # a container's name may be the host's
    for group in (root.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)):
        limit, used = _text(group / "memory.max").strip(), _text(group / "memory.current").strip()
        if limit.isdigit() and used.isdigit():  # else "max", or no such group
            dropped = sum(_numbers(group / "memory.stat", "inactive_file"))  # pages that it can do without
            found.append(max(0.0, float(limit) - float(used) + dropped))
    return min(found, default=float("inf"))


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _numbers(file: Path, name: str) -> list[float]:
    """The first number of each line that begins with a name."""
    return [float(words[1]) for words in map(str.split, _text(file).splitlines()) if words[:1] == [name]]


class _Progress:
    """The function that a fit calls with the fraction done, or None; ends the line that it has shown."""

    def __init__(self, wanted: bool | Callable[[float], None] | None) -> None:
        if wanted is not None and not isinstance(wanted, bool) and not callable(wanted):
            raise TypeError(f"{SCOPE} needs progress as True, False or a function, received {shown(wanted)}")
        self._show = sys.stderr.isatty() if wanted is None else wanted is True
        self._call = wanted if callable(wanted) else None
        self._shown = False

    def __enter__(self) -> Callable[[float], None] | None:
        return self._line if self._show else self._call

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print(file=sys.stderr)

    def _line(self, fraction: float) -> None:
        self._shown = True
        print(f"\rdimred.fit {fraction:4.0%}", end="", file=sys.stderr, flush=True)
