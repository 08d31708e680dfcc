"""scripts/compare.sh --engine slurm on a real Slurm, of which a node dies meanwhile: the table is that of local
runs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from cli import rows_in
from fashion import few

from .hosts import Hosts, wait_until
from .jobs import REPOSITORY
from .table import Table

CONFIG = """
title = "engine"
selection_seeds = [1, 2, 3, 4]
[stage1]
data = "{data}"
train_samples = 2000
test_samples = 200
validation_fraction = 0.1
batch_size = 50
snapshots_per_epoch = 4
learning_rate = 0.02
epochs = 3
[matrices.pca]
components = 5
[methods.robust]
matrix = "pca"
epochs = 2
[methods.continued]
role = "baseline"
command = "stage1"
epochs = "+2"
"""


def results(output: Path) -> list[dict[str, str]]:
    """Rows of the table without what is of time."""
    return [
        {name: value for name, value in row.items() if "seconds" not in name} for row in rows_in(output / "results.csv")
    ]


def on_slurm(place: Hosts, words: list[object], output: Path, log: Path) -> str:
    """What is wrong with a comparison on Slurm that loses a node."""
    process = place.start("head", [*words, "--output", output, "--engine=slurm", "--jobs=4"], log)
    lost = ""
    try:
        wait_until(lambda: process.poll() is not None or len(list(output.glob("*/*/curve.csv"))) >= 4, "the first runs")
        if process.poll() is None:
            lost = place.ask("squeue", "--noheader", "--states=RUNNING", "--format=%N").split()[-1]
            place.kill(lost)
        wait_until(lambda: process.poll() is not None, "the comparison")
    finally:
        process.terminate()
        process.wait()
        if lost:
            place.start_node(lost)
    said = log.read_text()
    well = process.returncode == 0 and "its worker was lost; the job is started again" in said
    return "" if well else f"ended with {process.returncode}: {said.strip().splitlines()[-1:]}"


def difference(words: list[object], output: Path, local: Path) -> str:
    """The first row that local runs have otherwise."""
    done = subprocess.run(
        [*map(str, words), "--output", str(local), "--jobs=2"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return done.stderr.strip()[-200:]
    pairs = zip(results(output), results(local), strict=True)
    return next((f"{ours}, locally {theirs}" for ours, theirs in pairs if ours != theirs), "")


def engine(place: Hosts, build: Path, root: Path, only: str, table: Table) -> None:
    """Two rows: it ends well although a node dies, and its table is the local one."""
    if only not in "engine slurm":
        return
    (root / "engine.toml").write_text(CONFIG.format(data=few()))
    (root / "slurm.toml").write_text('interface = "eth0"\n')
    output, log = root / "on_slurm", root / "engine.txt"
    words = [
        sys.executable,
        REPOSITORY / "experiments" / "compare.py",
        root / "engine.toml",
        "--dimred",
        build / "bin" / "dimred",
    ]
    since = time.monotonic()
    try:
        why = on_slurm(place, [*words, "--cluster", root / "slurm.toml"], output, log)
    except (RuntimeError, IndexError) as error:
        why = str(error)
    table.add("engine", 4, "slurm, a node dies", "FAILED" if why else "passed", time.monotonic() - since, why)
    if why:
        return
    since = time.monotonic()
    why = difference(words, output, root / "local")
    table.add("engine", 4, "the table of local runs", "FAILED" if why else "passed", time.monotonic() - since, why)
