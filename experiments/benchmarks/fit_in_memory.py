"""Measures dimred.fit of snapshots in memory against scikit-learn's PCA and the Gram trick as users write it.

All run in turns in one process.

    .venv/bin/python experiments/benchmarks/fit_in_memory.py [--files] [--rounds 7] [--scratch /tmp] [--json
    build/fit_in_memory.json]

With --files the 60 snapshots are safetensors files in the page cache, and the Gram tricks load them first.

W [60 x 2,560,000] is that of pca_peers.py. Prints seconds and ratios to the fit of the same round, median (range), each
contestant's sine of the largest angle to the exact row space, and what a fit takes beyond W and P at its peak, in a
process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from machine import processor
from pca_peers import errors, exact_combinations, make_snapshots, span
from safetensors.numpy import load_file, save_file
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build" / "python"))

import dimred  # noqa: E402

ROWS, COLUMNS, COMPONENTS = 60, 2_560_000, 32


def leading(gram: np.ndarray) -> np.ndarray:
    """C [n x k] of P = C' W, of the Gram matrix of centred rows."""
    values, vectors = np.linalg.eigh(gram)
    return vectors[:, : -COMPONENTS - 1 : -1] / np.sqrt(values[: -COMPONENTS - 1 : -1])


def gram_float32(snapshots: np.ndarray) -> np.ndarray:
    """Centred, then W @ W.T, eigh, U.T @ W."""
    centred = snapshots - snapshots.mean(axis=0)
    return leading(centred @ centred.T).T @ centred


def gram_float32_uncentred(snapshots: np.ndarray) -> np.ndarray:
    """The same, where the Gram matrix alone is centred: no copy of W, but the means cancel in float32."""
    gram = snapshots @ snapshots.T
    gram = gram - gram.mean(axis=0) - gram.mean(axis=1, keepdims=True) + gram.mean()
    return leading(gram).T @ snapshots


def gram_float64(snapshots: np.ndarray) -> np.ndarray:
    """Accumulated in float64, by parts that fit the cache."""
    gram = np.zeros((len(snapshots), len(snapshots)))
    for begin in range(0, snapshots.shape[1], 1 << 14):
        part = snapshots[:, begin : begin + (1 << 14)].astype(np.float64)
        part -= part.mean(axis=0)
        gram += part @ part.T
    combinations = leading(gram)
    combinations -= combinations.mean(axis=0)
    rows = np.empty((COMPONENTS, snapshots.shape[1]), np.float32)
    for begin in range(0, snapshots.shape[1], 1 << 14):
        rows[:, begin : begin + (1 << 14)] = combinations.T @ snapshots[:, begin : begin + (1 << 14)]
    return rows


CONTESTANTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "dimred.fit": lambda snapshots: dimred.fit(snapshots, COMPONENTS).components,
    "Gram, float32, uncentred": gram_float32_uncentred,
    "Gram, float32": gram_float32,
    "Gram, float64": gram_float64,
    "scikit-learn, default": lambda snapshots: PCA(COMPONENTS, random_state=0).fit(snapshots).components_,
    "scikit-learn, full": lambda snapshots: PCA(COMPONENTS, svd_solver="full").fit(snapshots).components_,
}


def loaded(folder: Path) -> np.ndarray:
    """W of a folder's files, read one by one into their rows."""
    snapshots = np.empty((ROWS, COLUMNS), np.float32)
    for row, file in zip(snapshots, sorted(folder.iterdir()), strict=True):
        row[:] = load_file(file)["weights"]
    return snapshots


FROM_FILES: dict[str, Callable[[Path], np.ndarray]] = {
    "dimred.fit": lambda folder: dimred.fit(folder, COMPONENTS).components,
    "load, Gram, float32": lambda folder: gram_float32(loaded(folder)),
    "load, Gram, float64": lambda folder: gram_float64(loaded(folder)),
}

BEYOND = """
import sys
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
import dimred
snapshots = np.load(sys.argv[2])
dimred.fit(snapshots[:, :4096], 2)  # libraries and threads
def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])
before = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
basis = dimred.fit(snapshots, int(sys.argv[3]))
print(status("VmHWM") - before - basis.components.nbytes - basis.mean.nbytes)
"""


def beyond(source: Path) -> int:
    """Bytes at the peak of a fit beyond W, P and the mean."""
    words = [sys.executable, "-c", BEYOND, ROOT / "build" / "python", source, COMPONENTS]
    return int(subprocess.run([*map(str, words)], check=True, capture_output=True, text=True).stdout)


def measure(scratch: Path, rounds: int, files: bool) -> dict[str, Any]:
    """All rounds in turns, then each contestant's error from its last rows."""
    contestants: dict[str, Callable[[Any], np.ndarray]] = {**(FROM_FILES if files else CONTESTANTS)}
    source, output = scratch / "snapshots.npy", scratch / "rows.npy"
    make_snapshots(source, ROWS, COLUMNS)
    with threadpool_limits(1):
        exact = exact_combinations(source, COMPONENTS)
    snapshots: Any = np.load(source)
    if files:
        folder = scratch / "snapshots"
        folder.mkdir()
        for number, row in enumerate(snapshots):
            save_file({"weights": row}, folder / f"{number:02}.safetensors")
        snapshots = folder
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    angles = {}
    for number in range(rounds + 1):  # the first warms up
        for name, solve in contestants.items():
            begin = time.perf_counter()
            rows = solve(snapshots)
            if number > 0:
                seconds[name].append(time.perf_counter() - begin)
            if number == rounds:
                np.save(output, rows)
                with threadpool_limits(1):
                    angles[name] = errors(source, exact, output)["subspace"]
            del rows
    found = {"seconds": seconds, "angles": angles, "processor": processor()}
    return found if files else found | {"beyond": beyond(source)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scratch", type=Path, help="folder for W and P, 2 GB")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--files", action="store_true", help="fit 60 files instead of an array in memory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        result = measure(Path(folder), options.rounds, options.files)
    ours = result["seconds"]["dimred.fit"]
    for name, seconds in result["seconds"].items():
        ratios = span([theirs / own for theirs, own in zip(seconds, ours, strict=True)], "")
        print(f"{name:26} {span(seconds, ' s'):34} {ratios:28} sine {result['angles'][name]:.1e}")
    if not options.files:
        print(f"dimred.fit beyond W, P and the mean at its peak: {result['beyond'] / 1e6:.0f} MB")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
