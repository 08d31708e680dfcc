"""Checks bytes and memory of 16, 32 and 64 ranks on this machine against a model; measures seconds to the first step.

    python experiments/benchmarks/many_ranks.py build/bin --output docs/results/ranks.txt

A layout is NODES x RANKS OF EACH, as a launcher's environment gives it; on one node the exchange is direct. The ConvNet
is started as a user starts it. Then both stages train a narrow and a wide network: the difference of a rank's memory is
that of their vectors, without the program. Ends with 1 where a byte is off, or memory by more than a twentieth.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
import rank_model as model
from hosts import placed
from machine import processor, processor_seconds
from ranks import free_port

INPUTS, CLASSES, DEPTH, COMPONENTS, STEPS = 64, 10, 40, 16, 12
WIDTHS = {"narrow": 24, "wide": 200}
CONVNET = [[32, 1, 3, 3], [32], [64, 32, 3, 3], [64], [64, 64, 3, 3], [64], [64, 576], [64], [10, 64], [10]]
RANDOM = ["--preset=robust", "--basis=random", f"--n_component={COMPONENTS}"]
PATIENCE = 500  # seconds for a command
# The program keeps what it frees; here it is given back, so that a peak is that of the steps and not of the start.
PRELOADED = "int mallopt(int name, int value) { (void)name; (void)value; return 1; }\n"
RETURNED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
COLUMNS = {
    "layout": 6,
    "network": 7,
    "stage": 6,
    "trials": 6,
    "sent": 9,
    "model": 9,
    "between": 9,
    "model ": 9,
    "first step, s": 13,
    "processor, s": 12,
    "memory, MB": 10,
    "model  ": 7,
    "least": 6,
    "most": 6,
}


@dataclass(frozen=True)
class Run:
    """A command on all ranks."""

    start: float  # seconds from the launch to the end of the first step
    processor: float  # of all ranks together, up to there
    peaks: list[int]  # bytes of each rank's memory, while steps were made
    wire: int  # bytes that rank 0 sent in the epoch
    between: int  # of its reduce-scatters, to other nodes
    trials: int


def layout_of(width: int) -> model.Layout:
    """The layout of the network of linear layers."""
    return model.Layout(
        [[width, INPUTS], [width], *[[width, width], [width]] * (DEPTH - 1), [CLASSES, width], [CLASSES]]
    )


def save_network(width: int, path: Path) -> None:
    """Many layers of one size, so that a gradient on its way into the vector is a small part of it."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(INPUTS, width)]
    for _ in range(DEPTH - 1):
        layers += [nn.Tanh(), nn.Linear(width, width)]
    torch.jit.script(nn.Sequential(*layers, nn.Tanh(), nn.Linear(width, CLASSES))).save(str(path))


def peak(process: int) -> int:
    """Bytes, since the last reset."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    assert found
    return 1024 * int(found.group(1))


def wait_until(reached: Callable[[], bool], processes: list[subprocess.Popen[str]]) -> None:
    """SystemExit where a rank fails meanwhile, or it takes too long."""
    end = time.monotonic() + PATIENCE
    while not reached():
        if failed := [process for process in processes if process.poll()]:
            raise SystemExit("\n".join(process.communicate()[1] for process in failed))
        if time.monotonic() > end:
            raise SystemExit(f"the ranks had not finished after {PATIENCE} s")
        time.sleep(0.01)


def wait_for(batches: Path, count: int, processes: list[subprocess.Popen[str]]) -> None:
    """Waits until this number of steps has been made; a hook writes a file for each."""
    wait_until(lambda: batches.is_dir() and sum(1 for _ in batches.iterdir()) >= count, processes)


@contextmanager
def launched(
    command: list[object], ranks: model.Ranks, variables: dict[str, str]
) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes of all ranks, gone afterwards."""
    port, words = free_port(), [str(word) for word in command]
    processes: list[subprocess.Popen[str]] = []
    try:
        for rank in range(ranks.size):
            own = placed(rank, ranks.size, port, "127.0.0.1", ranks.of_node) | {"OMP_NUM_THREADS": "1"} | variables
            processes.append(
                subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own)
            )
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def done_by(processes: list[subprocess.Popen[str]]) -> str:
    """What rank 0 has printed, when all are done."""
    wait_until(lambda: all(process.poll() == 0 for process in processes), processes)
    return processes[0].communicate()[0]


def train(
    program: Path, stage: str, options: list[object], output: Path, ranks: model.Ranks, variables: dict[str, str]
) -> Run:
    """A stage of STEPS steps on all ranks."""
    data = ["--dataset=mock", f"--num_classes={CLASSES}", f"--num_samples={ranks.size * STEPS}", "--test_samples=64"]
    common = [
        "--batch_size=1",
        "--threads=1",
        "--num_preprocessing_threads=1",
        "--epochs=1",
        "--hooks=batches",
        "--heartbeat_timeout=60",
    ]
    batches, begin = output / "batches", time.monotonic()
    with launched([program, stage, *options, *data, *common, "--output", output], ranks, variables) as processes:
        wait_for(batches, 1, processes)
        start, used = time.monotonic() - begin, sum(processor_seconds(process.pid) for process in processes)
        wait_for(batches, 3, processes)
        for process in processes:
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # the peak is measured from here
        wait_for(batches, STEPS - 3, processes)
        peaks = [peak(process.pid) for process in processes]
        done_by(processes)
    with (output / "curve.csv").open(newline="") as stream:
        wire = int(list(csv.DictReader(stream))[-1]["wire_bytes"])
    traffic = json.loads((output / "manifest.json").read_text())["details"]["traffic"]
    trials = 0
    if stage == "stage2":
        with (output / "steps.csv").open(newline="") as stream:
            trials = sum(int(row["trials"]) for row in csv.DictReader(stream))
    return Run(start, used, peaks, wire, traffic.get("reduce_scatter", {}).get("bytes_between_nodes", 0), trials)


def counted_row(ranks: model.Ranks, vector: model.Layout, network: str, stage: str, run: Run) -> dict[str, object]:
    """Bytes of the epoch beside the model's, and how long the start took."""
    wire, between = model.stage1_bytes(vector, ranks, STEPS), 0
    if stage == "stage2":
        wire = model.stage2_bytes(vector, ranks, 0, COMPONENTS, STEPS, run.trials)
        between = STEPS * model.exchange(vector.shares(ranks.size), ranks, 0, gathers=0)[1]
    return {
        "layout": f"{ranks.nodes}x{ranks.of_node}",
        "network": network,
        "stage": stage,
        "trials": run.trials,
        "sent": run.wire,
        "model": wire,
        "between": run.between,
        "model ": between,
        "first step, s": f"{run.start:.1f}",
        "processor, s": f"{run.processor:.1f}",
    }


def memory_row(ranks: model.Ranks, stage: str, narrow: Run, wide: Run) -> dict[str, object]:
    """A rank's memory for the wide network beyond that for the narrow one: mean, and the least and most as parts of the
    model's."""
    vectors = [layout_of(WIDTHS[network]) for network in ("wide", "narrow")]
    expected, less = (
        model.stage1_memory(vector.columns, max(vector.buckets()), ranks.size)
        if stage == "stage1"
        else model.stage2_memory(vector.columns, ranks.size, COMPONENTS)
        for vector in vectors
    )
    grown = [more - base for more, base in zip(wide.peaks, narrow.peaks, strict=True)]
    expected -= less
    return {
        "memory, MB": f"{sum(grown) / len(grown) / 1e6:.2f}",
        "model  ": f"{expected / 1e6:.2f}",
        "least": f"{min(grown) / expected:.3f}",
        "most": f"{max(grown) / expected:.3f}",
    }


def together(ranks: model.Ranks, columns: int) -> tuple[int, int]:
    """Bytes that all ranks send in one reduce-scatter and one all-gather, and those of them between nodes."""
    shares = model.Layout([[columns]]).shares(ranks.size)
    each = [model.exchange(shares, ranks, rank) for rank in range(ranks.size)]
    return sum(sent for sent, _ in each), sum(between for _, between in each)


def exchange_row(program: Path, ranks: model.Ranks, columns: int) -> dict[str, object]:
    """The same, counted."""
    with launched([program, columns, 1], ranks, {}) as processes:
        counted = json.loads(done_by(processes))
    sent, between = together(ranks, columns)
    return {
        "layout": f"{ranks.nodes}x{ranks.of_node}",
        "network": "wide",
        "stage": "all",
        "sent": int(counted["bytes"]),
        "model": sent,
        "between": int(counted["bytes_between_nodes"]),
        "model ": between,
    }


def rows_of(binaries: Path, ranks: model.Ranks, folder: Path) -> Iterator[dict[str, object]]:
    """The rows of a layout."""
    program, name = binaries / "dimred", f"{ranks.nodes}x{ranks.of_node}"
    returned = RETURNED | {"LD_PRELOAD": str(folder / "shim.so")}
    for stage in ("stage1", "stage2"):  # as a user starts them
        output, again = folder / f"{name}_convnet_{stage}", ["--checkpoint", folder / f"{name}_convnet_stage1", *RANDOM]
        options = ["--model=convnet", "--snapshots_per_epoch=1"] if stage == "stage1" else again
        run = train(program, stage, ["--mock_shape=1,28,28", *options], output, ranks, {})
        yield counted_row(ranks, model.Layout(CONVNET), "convnet", stage, run)
    yield exchange_row(binaries / "exchange", ranks, layout_of(WIDTHS["wide"]).columns)
    for stage in ("stage1", "stage2"):
        runs = {}
        for network, width in WIDTHS.items():
            one, two = folder / f"{name}_{network}_1", folder / f"{name}_{network}_2"
            own = (
                [f"--model={folder / network}.pt", "--snapshots_per_epoch=1"]
                if stage == "stage1"
                else ["--checkpoint", one, *RANDOM]
            )
            output = one if stage == "stage1" else two
            runs[network] = run = train(program, stage, ["--mock_shape=1,8,8", *own], output, ranks, returned)
            more = memory_row(ranks, stage, runs["narrow"], run) if network == "wide" else {}
            yield counted_row(ranks, layout_of(width), network, stage, run) | more


def is_right(row: dict[str, object]) -> bool:
    """Whether the bytes are the model's, and memory is to a twentieth."""
    least, most = (float(str(row.get(column, 1))) for column in ("least", "most"))
    return row["sent"] == row["model"] and row["between"] == row["model "] and least > 0.95 and most < 1.05


def as_line(row: dict[str, object]) -> str:
    """A line of the table."""
    line = " ".join(f"{row.get(name, '')!s:>{width}}" for name, width in COLUMNS.items()).rstrip()
    return line if is_right(row) else f"{line}  differs"


def write(output: Path, head: list[str], lines: dict[str, list[str]]) -> None:
    """The table, its layouts in order; those that were not run now stay as they are."""
    kept = dict(lines)
    for line in output.read_text().splitlines()[len(head) :] if output.exists() else []:
        if (layout := line.split()[0]) not in lines:
            kept.setdefault(layout, []).append(line)
    ordered = sorted(kept, key=lambda layout: (int(layout.split("x")[0]) * int(layout.split("x")[1]), layout))
    output.write_text("\n".join([*head, *(line for layout in ordered for line in kept[layout])]) + "\n")


def main() -> int:
    """Prints the table, and writes it to --output."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=Path)
    parser.add_argument("--layouts", nargs="+", default=["1x16", "2x8", "1x32", "4x8", "1x64", "8x8"])
    parser.add_argument(
        "--output", type=Path, help="file of results; keeps earlier results of layouts that are not run now"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # with its ranks
    networks = ", ".join(f"{name} of {layout_of(width).columns} columns" for name, width in WIDTHS.items())
    head = [
        f"experiments/benchmarks/many_ranks.py, {datetime.now(UTC):%Y-%m-%d}: {STEPS} steps; {networks}; "
        f"{COMPONENTS} components",
        f"{processor()}, {os.cpu_count()} processors, beside other work: "
        "a start had processor / (processors x first step) of them",
        " ".join(f"{name.strip():>{width}}" for name, width in COLUMNS.items()),
    ]
    print("\n".join(head), flush=True)
    lines: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", folder / "shim.so"], input=PRELOADED, text=True, check=True
        )
        for network, width in WIDTHS.items():
            save_network(width, folder / f"{network}.pt")
        for layout in options.layouts:
            nodes, of_node = map(int, layout.split("x"))
            for row in rows_of(options.binaries.resolve(), model.Ranks(nodes * of_node, nodes), folder):
                lines.setdefault(layout, []).append(as_line(row))
                print(lines[layout][-1], flush=True)
    if options.output:
        write(options.output, head, lines)
    return int(any(line.endswith("differs") for rows in lines.values() for line in rows))


if __name__ == "__main__":
    sys.exit(main())
