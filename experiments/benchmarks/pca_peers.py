"""`dimred pca` against scikit-learn and SciPy, on the same file, in turns.

    python experiments/benchmarks/pca_peers.py --scratch /tmp --repeat 3 --json build/pca_peers.json

W [n x M] is made from a seed with singular values 0.85^j; every contestant is a process of its own
and writes its components. Ours is timed from exec to exit less the fsync it reports (peers do not
fsync), peers from loading the file to saving, imports left out. Each peer's run follows one of
ours; the ratio is within that pair. Errors are sines of the largest angle to the exact row space,
found by a float64 QR of W' (no Gram matrix).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from machine import processor
from threadpoolctl import threadpool_limits

REPOSITORY = Path(__file__).resolve().parents[2]
PEERS = ("sklearn_full", "sklearn_default", "scipy_svd")
CHUNK = 16384
Run = dict[str, float]


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimred", type=Path, default=REPOSITORY / "build" / "bin" / "dimred")
    parser.add_argument("--scratch", type=Path, default=Path("/tmp"), help="folder for W and P")
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--columns", type=int, default=2_560_000)
    parser.add_argument("--large", action="store_true", help="measure 25,600,000 columns")
    parser.add_argument("--components", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--json", type=Path, help="JSON file for every measurement, with versions")
    options = parser.parse_args()
    options.columns = 25_600_000 if options.large else options.columns
    return options


def chunks(columns: int) -> Iterator[slice]:
    """Column ranges that together cover M."""
    for begin in range(0, columns, CHUNK):
        yield slice(begin, min(begin + CHUNK, columns))


def make_snapshots(path: Path, rows: int, columns: int) -> None:
    """W = V diag(0.85^j) G + a mean, V orthonormal, G of normal numbers."""
    generator = np.random.default_rng(0)
    factor = np.linalg.qr(generator.standard_normal((rows, rows)))[0] * 0.85 ** np.arange(rows)
    snapshots = np.empty((rows, columns), np.float32)
    for part in chunks(columns):
        noise = generator.standard_normal((rows, part.stop - part.start), np.float32)
        mean = 0.05 * generator.standard_normal(noise.shape[1], np.float32)
        snapshots[:, part] = 0.01 * (factor.astype(np.float32) @ noise) + mean
    np.save(path, snapshots)


def centred_chunks(path: Path) -> Iterator[tuple[slice, np.ndarray]]:
    """W in float64, its column means taken away."""
    snapshots = np.load(path, mmap_mode="r")
    for part in chunks(snapshots.shape[1]):
        wide = snapshots[:, part].astype(np.float64)
        yield part, wide - wide.mean(axis=0)


def exact_combinations(path: Path, components: int) -> np.ndarray:
    """C [k x n] with P = C Wc, by QR of Wc' chunk after chunk and the SVD of its R."""
    triangle = np.empty((0, 0))
    for _, wide in centred_chunks(path):
        stacked = np.vstack([triangle, wide.T]) if triangle.size else wide.T
        triangle = np.asarray(np.linalg.qr(stacked, mode="r"))
    _, values, vectors = np.linalg.svd(triangle)
    return vectors[:components] / values[:components, None]


def errors(path: Path, exact: np.ndarray, basis_path: Path) -> Run:
    """Sine of the largest angle between the rows of P and the exact ones; max |P P' - I|."""
    basis = np.load(basis_path, mmap_mode="r")
    gram, cross = np.zeros((2, len(basis), len(basis)))
    for part, wide in centred_chunks(path):
        rows = basis[:, part].astype(np.float64)
        gram += rows @ rows.T
        cross += rows @ (exact @ wide).T
    residual = np.zeros_like(gram)
    for part, wide in centred_chunks(path):
        difference = basis[:, part] - cross @ (exact @ wide)
        residual += difference @ difference.T
    sine = float(np.sqrt(max(0.0, np.linalg.eigvalsh(residual)[-1])))
    return {"subspace": sine, "orthonormality": float(np.abs(gram - np.eye(len(gram))).max())}


def warm(path: Path) -> None:
    """Reads the file once, so that all find it in the page cache."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def seconds_of(text: str) -> float:
    """The fsync that our report tells apart."""
    found = re.search(r"fsync apart: ([0-9.]+) s", text)
    if not found:
        raise RuntimeError(f"no fsync time in the report:\n{text}")
    return float(found.group(1))


def memory_of(text: str) -> float:
    """Peak memory of our report, in bytes."""
    found = re.search(r"peak memory ([0-9.]+) (kB|MB|GB)", text)
    if not found:
        raise RuntimeError(f"no peak memory in the report:\n{text}")
    return float(found.group(1)) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[found.group(2)]


def run_ours(options: argparse.Namespace, source: Path, output: Path) -> Run:
    """Exec to exit, less fsync."""
    for path in (output, output.with_suffix(".json")):
        path.unlink(missing_ok=True)
    command = [options.dimred, "pca", "--snapshots", source, "--output", output]
    command += ["--components", str(options.components)]
    start = time.perf_counter()
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    total = time.perf_counter() - start
    fsync = seconds_of(text)
    return {"seconds": total - fsync, "fsync": fsync, "memory": memory_of(text)}


def run_peer(options: argparse.Namespace, name: str, source: Path, output: Path) -> Run:
    """Load to save."""
    output.unlink(missing_ok=True)
    script = REPOSITORY / "experiments" / "benchmarks" / "pca_peer_solvers.py"
    command = [sys.executable, str(script), name, str(source), str(options.components), str(output)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def that_fit(options: argparse.Namespace) -> list[str]:
    """Peers for which the memory suffices; they hold W about 5 times."""
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    match = re.search(r"MemAvailable: +(\d+)", Path("/proc/meminfo").read_text())
    available = int(match.group(1)) * 1024 if match else available
    needed = 5 * 4 * options.rows * options.columns
    if needed <= available:
        return options.peers
    print(f"the peers are skipped: they need about {needed / 1e9:.0f} GB, and {available / 1e9:.0f} GB are free")
    return []


def summary(values: list[float]) -> dict[str, float]:
    """Median and spread."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def span(values: list[float], unit: str) -> str:
    """3 digits: median (lowest to highest)."""
    s = summary(values)
    return f"{s['median']:.3g}{unit} ({s['low']:.3g} to {s['high']:.3g})"


def measure(options: argparse.Namespace, source: Path) -> dict[str, Any]:
    """All rounds, then every contestant's errors from its last output."""
    ours_path, peer_path = options.scratch / "pca_ours.npy", options.scratch / "pca_peer.npy"
    with threadpool_limits(1):
        exact = exact_combinations(source, options.components)
    runs: dict[str, list[Run]] = {"dimred": []}
    ratios: dict[str, list[float]] = {}
    found: dict[str, Run] = {}
    warm(source)
    run_ours(options, source, ours_path)  # loads the program and its libraries once
    for name in that_fit(options):
        for _ in range(options.repeat):
            ours = run_ours(options, source, ours_path)
            peer = run_peer(options, name, source, peer_path)
            runs["dimred"].append(ours)
            runs.setdefault(name, []).append(peer)
            ratios.setdefault(name, []).append(peer["seconds"] / ours["seconds"])
        with threadpool_limits(1):
            found[name] = errors(source, exact, peer_path)
    for _ in range(0 if ratios else options.repeat):
        runs["dimred"].append(run_ours(options, source, ours_path))
    with threadpool_limits(1):
        found["dimred"] = errors(source, exact, ours_path)
    for path in (ours_path, ours_path.with_suffix(".json"), peer_path):
        path.unlink(missing_ok=True)
    return {"runs": runs, "ratios": ratios, "errors": found}


def show(options: argparse.Namespace, result: dict[str, Any]) -> None:
    """The table."""
    basis = 4 * options.components * options.columns
    print(f"W {options.rows} x {options.columns:,} -> P {options.components} x {options.columns:,}")
    for name, runs in result["runs"].items():
        errors_of = result["errors"][name]
        line = f"{name:16} {span([run['seconds'] for run in runs], ' s')}"
        if name in result["ratios"]:
            line += f"; dimred is {span(result['ratios'][name], ' x')} faster"
        peak = max(run["memory"] for run in runs)
        print(
            f"{line}; angle {errors_of['subspace']:.1e}, |PP'-I| {errors_of['orthonormality']:.1e}"
            f", peak memory {peak / 1e6:,.0f} MB ({peak / basis:.2f} x P)"
        )
    print(f"dimred's fsync, apart: {span([run['fsync'] for run in result['runs']['dimred']], ' s')}")


def main() -> None:
    """Makes W, measures, prints, saves."""
    options = parse()
    source = options.scratch / f"pca_snapshots_{options.rows}x{options.columns}.npy"
    make_snapshots(source, options.rows, options.columns)
    try:
        result = measure(options, source)
    finally:
        source.unlink()
    show(options, result)
    result["rows"], result["columns"] = options.rows, options.columns
    result["components"] = options.components
    result["summary"] = {name: summary(values) for name, values in result["ratios"].items()}
    result["machine"] = {"processor": processor(), "cores": len(os.sched_getaffinity(0))}
    version = [options.dimred, "--version"]
    result["versions"] = {
        "dimred": subprocess.run(version, check=True, capture_output=True, text=True).stdout.strip(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
