"""Fits a basis to snapshots."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from dimred import _core
from dimred._arguments import local_path, one_of, shown, whole_number
from dimred._basis import Basis, require_matrix_place, require_own_mean
from dimred._sources import given_order, open_source, row_values

SCOPE = "[dimred.fit]"
Kind = Literal["pca", "span", "random", "shuffled"]
KINDS: tuple[str, ...] = get_args(Kind)


class _AtMost(int):
    """The default number of components, which few snapshots may lower."""


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
    """Returns the exact principal components of n weight snapshots with M values each, as a Basis. The snapshots are
    read twice and may be larger than memory.

    source: the snapshots. One of:
        - an n x M array of NumPy, torch, JAX or anything else with DLPack, a buffer or __array__, in float32, float64,
          float16 or bfloat16; the array is not copied
        - an .npy file
        - a folder, a pattern or a list of files .h5, .safetensors (sharded files by their index) or .pt, .pth, .bin and
          .ckpt of PyTorch or MindSpore; code inside a file is never run
        - a folder, a pattern or a list of Hugging Face checkpoints or PEFT adapters
        - a list of state dicts or of vectors
        Files, also those of a list, are sorted by the steps in their names. A list whose names give no order keeps its
        own. BatchNorm's statistics, integers and training state (an optimizer's moments, learning_rate, n_averaged) are
        left out. Tied weights count once. float64 is centred before it is rounded.
    components: k, the number of rows of the basis. A given k needs k <= n - 1 (kind "span": k <= n). The default is 32,
        or as many as fewer snapshots have, with a warning (kind "random": always 32). None takes n - 1, at most M
        ("span": n). A float in (0, 1) takes the fewest components that explain more than this part of the variance
        (kinds "pca" and "shuffled").
    kind: "pca"; "span" is a basis of the snapshots themselves, not centred; "random" has random rows; "shuffled"
        permutes the columns of the principal components within each layer.
    centre: "base" takes the differences from the first snapshot and does not centre them (kind "pca" only). The Basis
        then has the first snapshot as its mean, "span" as its kind, and ratios of the squared norm instead of the
        variance. If the names give no order, the first snapshot of the given order is taken, and a warning says so.
    exclude: patterns (as in fnmatch) for names of parameters to leave out, such as "*.bias".
    output: the .npy file to write, with its .json and, if there is a mean, its .mean.npz beside it. An earlier matrix
        of dimred, which has its .json, is replaced; any other file there is refused. Without output, the basis stays in
        memory until you save it; if it would take more than half of the free memory, it lies in a temporary file.
    blocks: "layers" fits each parameter on its own.
    seed: the seed of the kinds "random" and "shuffled".
    threads: 0 takes all cores of this process.
    progress: True shows a line on standard error; None does so on a terminal only. A function receives the fraction
        done.

    The GIL is released during the fit. Ctrl-C stops the fit and leaves no files behind. Raises ValueError if snapshots
    differ in names or shapes (the message has the first difference), if the snapshots are too few, or if a value is not
    finite (the message has the file and the parameter). Raises FileNotFoundError for a missing file, and OSError for a
    damaged file or a full disk.
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
        if order := given_order(rows, source):
            warnings.warn(f"{SCOPE} {order}; the first one is the base", stacklevel=2)
    most = min(rows.rows if kind == "span" else rows.rows - 1, rows.columns)
    if isinstance(components, _AtMost) and kind != "random" and 1 <= most < components:
        warnings.warn(
            f"[dimred.fit] takes {most} components instead of {components}, because {rows.rows} snapshots of "
            f"{rows.columns} values have no more components",
            stacklevel=2,
        )
        components = most
    k, variance = (most, 0.0) if components is None else _counted(components, most)
    with _Progress(progress) as report:
        arguments = (k, variance, kind, base, blocks, seed, threads, None if base else mean, report)
        if output is not None:
            path = local_path(SCOPE, "output", output)
            require_matrix_place(path, "output", _paths_of(source))
            require_own_mean(path)
            _core.fit(rows, path, *arguments)
            basis = Basis._of_files(path, mean)
            basis._save_mean(path)
            return basis
        room = max(1, k or most)  # the core refuses what k cannot be; 0 is all of a span
        if 4 * room * rows.columns < _available_memory() / 2:
            matrix = np.empty((room, rows.columns), np.float32)
            return Basis._in_memory(matrix, _core.fit(rows, matrix, *arguments), mean)
        with tempfile.TemporaryDirectory(prefix="dimred-") as folder:  # mapped, then deleted
            path = Path(folder) / "pca_mat.npy"
            _core.fit(rows, path, *arguments)
            return Basis._of_files(path, mean)


def _paths_of(source: Any) -> list[Path]:
    """Returns the files and folders that the source names."""
    if isinstance(source, (str, os.PathLike)):
        return [Path(os.fspath(source))]
    if not isinstance(source, (list, tuple)):
        return []
    return [Path(os.fspath(item)) for item in source if isinstance(item, (str, os.PathLike))]


def _counted(components: float, most: int) -> tuple[int, float]:
    """Returns k and the wanted part of the variance. The part is 0 if k is given; else k is the highest possible
    number.
    """
    if isinstance(components, (int, np.integer)) and not isinstance(components, bool):
        return int(components), 0.0
    if not isinstance(components, (float, np.floating)) or not 0 < components < 1:
        raise ValueError(
            "[dimred.fit] needs components as a whole number, as a part of the variance in (0, 1) or as None, "
            f"received {shown(components)}"
        )
    return most, float(components)


def _available_memory() -> float:
    """Returns the bytes that can be allocated without swapping and within a container's limit; infinity if unknown.

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
    """Returns the first number of each line that begins with `name`."""
    return [float(words[1]) for words in map(str.split, _text(file).splitlines()) if words[:1] == [name]]


class _Progress:
    """The function that receives the fraction done during a fit, or None. The class ends the line that it has shown."""

    def __init__(self, wanted: bool | Callable[[float], None] | None) -> None:
        if wanted is not None and not isinstance(wanted, bool) and not callable(wanted):
            raise TypeError(f"{SCOPE} needs progress as True, False or a function, received {shown(wanted)}")
        self._show = _shows_lines() if wanted is None else wanted is True
        self._call = wanted if callable(wanted) else None
        self._shown = False

    def __enter__(self) -> Callable[[float], None] | None:
        return self._line if self._show else self._call

    def __exit__(self, *_: object) -> None:
        if self._shown:
            _show("\n")

    def _line(self, fraction: float) -> None:
        self._shown = True
        _show(f"\rdimred.fit {fraction:4.0%}")


def _shows_lines() -> bool:
    """Returns whether standard error is a terminal. A daemon's is closed: None, or a closed file."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except (OSError, ValueError):
        return False


def _show(text: str) -> None:
    """Prints the text on standard error, if that is open: a fit does not fail because nobody reads its progress."""
    if _is_open(sys.stderr):  # for None, print() would take standard output
        with suppress(OSError, ValueError):
            print(text, end="", file=sys.stderr, flush=True)


def _is_open(stream: Any) -> bool:
    """Returns whether a text can be written. Python keeps a text that it could not write, to write it at the exit."""
    try:
        os.fstat(stream.fileno())
    except (AttributeError, io.UnsupportedOperation):  # a notebook's has no number
        return stream is not None
    except (OSError, ValueError):
        return False
    return True
