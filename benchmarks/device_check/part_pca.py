"""The PCA of 60 snapshots of ResNet-50's size, from the page cache to pca_mat.npy, against scikit-learn's."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import statistics
import sys
from pathlib import Path

from .check import Check, Skipped, available_memory, require_disk
from .figures import Figure, at_least
from .processes import Failed, Stopped, call

HERE = Path(__file__).resolve().parent
COPIES = 5  # of W in the peers' memory


def run_ours(check: Check, source: Path, device: str | None) -> dict[str, float]:
    """Seconds from exec to exit, less the fsync that the report tells apart (peers do not fsync)."""
    output = check.scratch / "pca_ours.npy"
    words = ["--snapshots", source, "--output", output, "--components", check.sizes.components, "--overwrite"]
    done = check.run("dimred", "pca", *words, *([f"--device={device}"] if device else []))
    found = re.search(r"fsync apart: ([0-9.]+) s", done.output)
    if not found:
        raise Failed(f"dimred pca tells no fsync: {done.output[-200:]}")
    return {"seconds": done.seconds - float(found.group(1)), "fsync": float(found.group(1))}


def peer() -> tuple[str, list[object]]:
    """Its name, and how it is started: scikit-learn where it is installed."""
    if all(importlib.util.find_spec(name) for name in ("numpy", "scipy", "sklearn")):
        return "scikit-learn full", [sys.executable, HERE.parent / "pca_peer_solvers.py", "sklearn_full"]
    return "torch.linalg.svd on the processor", [sys.executable, HERE / "torch_svd.py"]


def run_peer(check: Check, source: Path) -> tuple[str, float, bool]:
    """Name, seconds, and whether it was done: what is not after the part's time has at least taken it."""
    name, command = peer()
    output = check.scratch / "pca_peer.npy"
    limit = check.left() - 2
    try:
        told = call([*command, source, check.sizes.components, output], os.environ, limit).output
        return name, float(json.loads(told.splitlines()[-1])["seconds"]), True
    except Stopped:
        return name, limit, False
    finally:
        output.unlink(missing_ok=True)


def pca(check: Check) -> None:
    """Ours repeated, then the peer once: its time is a multiple."""
    sizes = check.sizes
    size = 4.0 * sizes.rows * sizes.columns
    require_disk(check.scratch, 2 * size)
    source = check.scratch / "pca_snapshots.npy"
    device = check.device if "device" in check.pca_options else None
    try:
        check.peers.ask("snapshots", check.left(), path=str(source), rows=sizes.rows, columns=sizes.columns)
        run_ours(check, source, device)  # loads the program and the file once
        rounds = check.rounds(lambda _: run_ours(check, source, device))
        compare(check, source, rounds, "" if device else "this build's PCA has no option `device`: on the processor")
        copied(check, size, statistics.median(r["seconds"] for r in rounds))
    finally:
        source.unlink(missing_ok=True)


def compare(check: Check, source: Path, rounds: list[dict[str, float]], note: str) -> None:
    """Peer / ours."""
    sizes = check.sizes
    title = f"PCA {sizes.rows} x {sizes.columns:,}"
    seconds = [r["seconds"] for r in rounds]
    check.add(Figure(f"{title}: ours", seconds, "s", rounds=rounds, note=note))
    needed = COPIES * 4 * sizes.rows * sizes.columns
    if available_memory() < needed:
        raise Skipped(f"the peer needs about {needed / 1e9:.0f} GB of memory, {available_memory() / 1e9:.0f} GB are free")
    name, taken, done = run_peer(check, source)
    told = note if done else f"{name} was not done after {taken:.0f} s: the ratio is at least this. {note}".strip()
    bar = at_least(40) if sizes.columns > 20_000_000 else None
    check.add(Figure(f"{title}: {name} / ours", [taken / s for s in seconds], "x", bar, rounds, told))


def copied(check: Check, size: float, seconds: float) -> None:
    """W's bytes over our time, against a copy from page-locked memory to the device."""
    if not check.on_device:
        return
    told = check.peers.ask("copy", check.left(), size=1 << 30, repeats=5)
    rates = [(1 << 30) / s / 1e9 for s in told["host"]]
    check.add(Figure("copy from page-locked memory to the device", rates, "GB/s"))
    check.add(Figure("W's bytes / our PCA's time, part of that", [size / seconds / 1e9 / r for r in rates]))
