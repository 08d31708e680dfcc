"""16, 32 and 64 ranks of small networks on this machine: counted bytes and memory of a rank against the model, seconds to the first step.

    python benchmarks/many_ranks.py build/bin --output docs/results/ranks.txt

A layout is NODES x RANKS OF EACH, as a launcher's environment gives it; on one node the exchange is direct. The ConvNet is started as a user
starts it. Both stages then train a narrow and a wide network: the difference of a rank's memory is that of their vectors, without the
program. Ends with 1 where a byte is off, or memory by more than a twentieth.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import rank_model as model  # noqa: E402
from hosts import placed  # noqa: E402
from machine import processor  # noqa: E402
from ranks import ended, free_port  # noqa: E402

INPUTS, CLASSES, DEPTH, COMPONENTS, STEPS = 64, 10, 40, 16, 12
WIDTHS = {"narrow": 24, "wide": 200}
CONVNET = [
    [32, 1, 3, 3],
    [32],
    [64, 32, 3, 3],
    [64],
    [64, 64, 3, 3],
    [64],
    [64, 576],
    [64],
    [10, 64],
    [10],
]
RANDOM = ["--basis=random", f"--n_component={COMPONENTS}"]
PATIENCE = 240  # seconds for a command
# The program keeps what it frees; here it is given back, so that a peak is that of the steps and not of the start.
PRELOADED = "int mallopt(int name, int value) { (void)name; (void)value; return 1; }\n"
RETURNED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
COLUMNS = {"layout": 6, "network": 7, "stage": 6, "trials": 6, "sent": 9, "model": 9, "between": 9, "model ": 9,
           "first step, s": 13, "processor, s": 12, "memory, MB": 10, "model  ": 7, "least": 6, "most": 6}  # fmt: skip


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
    """Of the network of linear layers."""
    return model.Layout(
        [
            [width, INPUTS],
            [width],
            *[[width, width], [width]] * (DEPTH - 1),
            [CLASSES, width],
            [CLASSES],
        ]
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


def processor_seconds(process: int) -> float:
    """Used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(batches: Path, count: int, processes: list[subprocess.Popen[str]]) -> None:
    """Until so many steps have been made; a hook writes a file for each."""
    end = time.monotonic() + PATIENCE
    while not batches.is_dir() or sum(1 for _ in batches.iterdir()) < count:
        if any(process.poll() for process in processes) or time.monotonic() > end:
            raise SystemExit("\n".join(process.communicate()[1] for process in processes if process.poll()) or "no steps in time")
        time.sleep(0.01)


@contextmanager
def launched(command: list[object], nodes: int, of_node: int, **variables: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes of all ranks, gone afterwards."""
    size, port = nodes * of_node, free_port()
    processes: list[subprocess.Popen[str]] = []
    try:
        for rank in range(size):
            own = placed(rank, size, port, "127.0.0.1", of_node) | {"OMP_NUM_THREADS": "1"} | variables
            processes.append(
                subprocess.Popen(
                    [*map(str, command)],
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=own,
                )
            )
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def done_by(processes: list[subprocess.Popen[str]]) -> str:
    """What rank 0 has printed; SystemExit where a rank has failed."""
    done = ended(processes, PATIENCE)
    if any(done.codes):
        raise SystemExit("\n".join(done.errors))
    return done.output[0]


def train(
    program: Path,
    stage: str,
    options: list[object],
    output: Path,
    nodes: int,
    of_node: int,
    **variables: str,
) -> Run:
    """A stage of STEPS steps on all ranks."""
    data = [
        "--dataset=mock",
        f"--num_classes={CLASSES}",
        f"--num_samples={nodes * of_node * STEPS}",
        "--test_samples=64",
    ]
    common = [
        "--batch_size=1",
        "--threads=1",
        "--num_preprocessing_threads=1",
        "--epochs=1",
        "--hooks=batches",
        "--heartbeat_timeout=60",
    ]
    batches, begin = output / "batches", time.monotonic()
    with launched(
        [program, stage, *options, *data, *common, "--output", output],
        nodes,
        of_node,
        **variables,
    ) as processes:
        wait_for(batches, 1, processes)
        start, used = (
            time.monotonic() - begin,
            sum(processor_seconds(process.pid) for process in processes),
        )
        wait_for(batches, 3, processes)
        for process in processes:
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # the peak begins anew
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
    return Run(
        start,
        used,
        peaks,
        wire,
        traffic.get("reduce_scatter", {}).get("bytes_between_nodes", 0),
        trials,
    )


def counted_row(ranks: model.Ranks, vector: model.Layout, network: str, stage: str, run: Run) -> dict[str, object]:
    """Bytes of the epoch beside the model's, and how long the start took."""
    wire, between = model.stage1_bytes(vector, ranks, STEPS), 0
    if stage == "stage2":
        wire = model.stage2_bytes(vector, ranks, 0, COMPONENTS, STEPS, run.trials)
        between = STEPS * model.exchange(vector.shares(ranks.size), ranks, 0, gathers=0)[1]
    return {"layout": f"{ranks.nodes}x{ranks.of_node}", "network": network, "stage": stage, "trials": run.trials,
            "sent": run.wire, "model": wire, "between": run.between, "model ": between,
            "first step, s": f"{run.start:.1f}", "processor, s": f"{run.processor:.1f}"}  # fmt: skip


def memory_row(ranks: model.Ranks, stage: str, narrow: Run, wide: Run) -> dict[str, object]:
    """A rank's memory for the wide network beyond that for the narrow one: mean, and the least and most as parts of the model's."""
    vectors = [layout_of(WIDTHS[network]) for network in ("wide", "narrow")]
    expected, less = (model.stage1_memory(vector.columns, max(vector.buckets()), ranks.size) if stage == "stage1"
                      else model.stage2_memory(vector.columns, ranks.size, COMPONENTS) for vector in vectors)  # fmt: skip
    grown = [more - base for more, base in zip(wide.peaks, narrow.peaks, strict=True)]
    expected -= less
    return {"memory, MB": f"{sum(grown) / len(grown) / 1e6:.2f}", "model  ": f"{expected / 1e6:.2f}",
            "least": f"{min(grown) / expected:.3f}", "most": f"{max(grown) / expected:.3f}"}  # fmt: skip


def together(ranks: model.Ranks, columns: int) -> tuple[int, int]:
    """Bytes that all ranks send in one reduce-scatter and one all-gather, and those of them between nodes."""
    shares = model.Layout([[columns]]).shares(ranks.size)
    each = [model.exchange(shares, ranks, rank) for rank in range(ranks.size)]
    return sum(sent for sent, _ in each), sum(between for _, between in each)


def exchange_row(program: Path, ranks: model.Ranks, columns: int) -> dict[str, object]:
    """The same, counted."""
    with launched([program, columns, 1], ranks.nodes, ranks.of_node) as processes:
        counted = json.loads(done_by(processes))
    sent, between = together(ranks, columns)
    return {"layout": f"{ranks.nodes}x{ranks.of_node}", "network": "wide", "stage": "all",
            "sent": int(counted["bytes"]), "model": sent, "between": int(counted["bytes_between_nodes"]), "model ": between}  # fmt: skip


def rows_of(binaries: Path, ranks: model.Ranks, folder: Path) -> Iterator[dict[str, object]]:
    """The rows of a layout."""
    place, program = (ranks.nodes, ranks.of_node), binaries / "dimred"
    name = f"{ranks.nodes}x{ranks.of_node}"
    for stage in ("stage1", "stage2"):  # as a user starts them
        output, again = folder / f"{name}_convnet_{stage}", ["--checkpoint", folder / f"{name}_convnet_stage1", *RANDOM]
        options = ["--model=convnet", "--snapshots_per_epoch=1"] if stage == "stage1" else again
        run = train(program, stage, ["--mock_shape=1,28,28", *options], output, *place)
        yield counted_row(ranks, model.Layout(CONVNET), "convnet", stage, run)
    for stage in ("stage1", "stage2"):
        runs = {}
        for network, width in WIDTHS.items():
            one, two = folder / f"{name}_{network}_1", folder / f"{name}_{network}_2"
            own = [f"--model={folder / network}.pt", "--snapshots_per_epoch=1"] if stage == "stage1" else ["--checkpoint", one, *RANDOM]
            runs[network] = run = train(program, stage, ["--mock_shape=1,8,8", *own], one if stage == "stage1" else two, *place,
                                        LD_PRELOAD=str(folder / "shim.so"), **RETURNED)  # fmt: skip
            more = memory_row(ranks, stage, runs["narrow"], run) if network == "wide" else {}
            yield counted_row(ranks, layout_of(width), network, stage, run) | more
    yield exchange_row(binaries / "exchange", ranks, layout_of(WIDTHS["wide"]).columns)


def is_right(row: dict[str, object]) -> bool:
    """To the byte, and memory to a twentieth."""
    least, most = (float(str(row.get(column, 1))) for column in ("least", "most"))
    return row["sent"] == row["model"] and row["between"] == row["model "] and least > 0.95 and most < 1.05


def main() -> int:
    """Prints the table, and writes it to --output."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=Path)
    parser.add_argument("--layouts", nargs="+", default=["1x16", "2x8", "1x32", "4x8", "1x64", "8x8"])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    networks = ", ".join(f"{name} of {layout_of(width).columns} columns" for name, width in WIDTHS.items())
    lines = [f"benchmarks/many_ranks.py, {datetime.now(UTC):%Y-%m-%d}: {STEPS} steps; {networks}; {COMPONENTS} components",
             f"{processor()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before",
             " ".join(f"{name.strip():>{width}}" for name, width in COLUMNS.items())]  # fmt: skip
    print("\n".join(lines), flush=True)
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", folder / "shim.so"],
            input=PRELOADED,
            text=True,
            check=True,
        )
        for network, width in WIDTHS.items():
            save_network(width, folder / f"{network}.pt")
        for layout in options.layouts:
            nodes, of_node = map(int, layout.split("x"))
            for row in rows_of(options.binaries.resolve(), model.Ranks(nodes * of_node, nodes), folder):
                right = is_right(row)
                wrong += not right
                line = " ".join(f"{row.get(name, '')!s:>{width}}" for name, width in COLUMNS.items()).rstrip()
                lines.append(line if right else f"{line}  differs")
                print(lines[-1], flush=True)
    if options.output:
        options.output.write_text("\n".join(lines) + "\n")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
