"""Where a step's time goes: the profiler's timeline of one step of each stage, when its graphs are recorded.

    python experiments/benchmarks/gpu/timeline.py --output runs/gpu_profile

Writes OUTPUT/gpu_profile.json, a trace for chrome://tracing of each step, and where ncu is ncu.csv: time and bytes a
second of the kernels that read P. Needs the standard library. Exit code 0: every network that was asked for has a
table; 1: else; 2: bad options.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from processes import run_limited
from programs import BIN, SOURCES, Failed, data, environment, train, why_no_device

sys.path.insert(0, str(SOURCES / "experiments"))
from workbench.text_table import text_table

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy")
PROFILED = 10  # the step, counted from 1
SHOWN = 8  # kernels of a table
# Network, its images, batch, and whether it computes in bfloat16 as the check's part (f) does.
NETWORKS = {
    "convnet": ("fashion", "1,28,28", 64, False),
    "resnet20": ("cifar10", "3,32,32", 128, False),
    "resnet50": ("", "3,224,224", 256, True),
}
NCU_KERNELS = {"ours": "regex:project_tiles|advance_columns", "ATen's": "regex:gemv|gemm|cutlass|dot"}
NCU_LAUNCHES = ("--launch-skip", "4", "--launch-count", "12")  # behind the first turn
NCU_METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes.sum.per_second",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
)


def union(intervals: Iterable[tuple[float, float]]) -> float:
    """The length that intervals cover together."""
    covered, end = 0.0, -math.inf
    for first, last in sorted(intervals):
        covered += max(0.0, last - max(first, end))
        end = max(end, last)
    return covered


def totals(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Count and milliseconds of each name, longest first."""
    sums: dict[str, list[float]] = defaultdict(list)
    for event in events:
        sums[event["name"]].append(event["dur"] / 1e3)
    rows = [{"name": name, "count": len(times), "ms": sum(times)} for name, times in sums.items()]
    return sorted(rows, key=lambda row: -row["ms"])


def summary(trace: dict[str, Any]) -> dict[str, Any]:
    """One step in milliseconds: from its first event to its last one's end, how long the device was busy, how often the
    host launched something and how long it waited, and what took longest there (without a device: the operators, each
    with those that it calls)."""
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X" and event.get("cat") != "Trace"]
    if not events:
        raise Failed("the trace is empty")
    device = [event for event in events if event.get("cat") in ON_DEVICE]
    calls = [event for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    start, end = min(event["ts"] for event in events), max(event["ts"] + event["dur"] for event in events)
    return {
        "step_ms": (end - start) / 1e3,
        "device_busy_ms": union((e["ts"], e["ts"] + e["dur"]) for e in device) / 1e3,
        "kernels": sum(event["cat"] == "kernel" for event in device),
        "launches": sum("Launch" in event["name"] for event in calls),
        "host_waits_ms": sum(event["dur"] for event in calls if event["name"].startswith(WAITS)) / 1e3,
        "scopes": totals(event for event in events if event.get("cat") == "user_annotation"),
        "longest": totals(device or [event for event in events if event.get("cat") == "cpu_op"]),
    }


def common_options(network: str, device: str) -> dict[str, object]:
    """The options of both stages, for a few steps more than are profiled."""
    name, shape, batch, half = NETWORKS[network]
    batch = batch if device != "cpu" else 8
    source = data(name) if name else None
    options: dict[str, object] = {"data": source} if source else {"dataset": "mock", "mock_shape": shape}
    options |= {"precision": "bfloat16", "memory_format": "channels_last", "num_classes": 1000} if half else {}
    options |= {"cudnn_autotune": "true", "tf32": "true"} if device != "cpu" else {"threads": 1}
    return options | {
        "device": device,
        "model": network,
        "batch_size": batch,
        "train_samples": (PROFILED + 3) * batch,
        "test_samples": 8,
        "epochs": 1,
        "quiet": "true",
        "profile_every_n_iters": PROFILED,
    }


def profiled(stage: str, folder: Path, seconds: float, options: dict[str, object], kept: Path) -> dict[str, Any]:
    """Runs it, keeps the trace compressed and returns its summary. Raises Failed."""
    train(stage, folder, seconds, **options)
    found = sorted(folder.glob("trace_*.json"))
    if not found:
        raise Failed(f"{stage} has written no trace")
    content = found[0].read_bytes()
    kept.write_bytes(gzip.compress(content))
    return summary(json.loads(content))


def of_network(network: str, options: argparse.Namespace, scratch: Path, deadline: float) -> dict[str, Any]:
    """Both stages' summaries. Raises Failed."""
    common = common_options(network, options.device)
    start, report = scratch / network, {}
    report["stage1"] = profiled(
        "stage1",
        start,
        deadline - time.monotonic(),
        common | {"snapshots_per_epoch": 1, "learning_rate": 0.001},
        options.output / f"{network}_stage1.json.gz",
    )
    second = common | {
        "checkpoint": start,
        "preset": "robust",
        "trials": 1,
        "basis": "random",
        "n_component": 32 if options.device != "cpu" else 4,
        "recalibrate_batchnorm": "false",
    }
    report["stage2"] = profiled(
        "stage2",
        scratch / f"{network}2",
        deadline - time.monotonic(),
        second,
        options.output / f"{network}_stage2.json.gz",
    )
    return report


def ncu_rows(text: str) -> list[dict[str, str]]:
    """The rows that ncu --csv prints among the program's own lines."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    return [
        {
            "kernel": row["Kernel Name"][:60],
            "metric": row["Metric Name"],
            "value": row["Metric Value"],
            "unit": row["Metric Unit"],
        }
        for row in csv.DictReader(lines)
        if row.get("Metric Name")
    ]


def measured_by_ncu(options: argparse.Namespace, seconds: float) -> list[dict[str, str]]:
    """Stage 2's kernels on ResNet-50's P. Raises Failed."""
    ncu = shutil.which("ncu", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
    if options.device == "cpu" or not ncu:
        raise Failed("not run: needs a CUDA device" if options.device == "cpu" else "not run: ncu is not here")
    log, rows = options.output / "ncu.csv", []
    log.unlink(missing_ok=True)
    for whose, kernels in NCU_KERNELS.items():
        command = [
            ncu,
            "--csv",
            "--clock-control",
            "none",
            "--kernel-name",
            kernels,
            *NCU_LAUNCHES,
            "--metrics",
            ",".join(NCU_METRICS),
            str(BIN / "device_algebra"),
            options.device,
            "25557032",
            "32",
            "2",
        ]
        before = log.stat().st_size if log.exists() else 0
        ended = run_limited(command, log, max(1, seconds / len(NCU_KERNELS)), environment())
        found = ncu_rows(log.read_text(errors="replace")[before:])
        if not found:
            raise Failed(f"ncu ended with {ended.code} and measured none of {whose}; ncu.csv has what it said")
        rows += found
    return rows


def table_of(network: str, stage: str, found: dict[str, Any]) -> str:
    """A step's, for a terminal."""
    idle = max(0.0, found["step_ms"] - found["device_busy_ms"])
    head = (
        f"{network}, {stage}: a step of {found['step_ms']:.2f} ms, device busy {found['device_busy_ms']:.2f} ms, "
        f"idle {idle:.2f} ms, "
        f"{found['kernels']} kernels, {found['launches']} launches, host waits {found['host_waits_ms']:.2f} ms"
    )
    rows = [[row["name"][:70], str(row["count"]), f"{row['ms']:.3f}"] for row in found["longest"][:SHOWN]]
    return head + "\n" + text_table(["longest", "count", "ms"], rows)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    shown = "default: %(default)s"
    parser = argparse.ArgumentParser(prog="gpu_profile.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help=f"cuda, cuda:N or cpu; {shown}")
    parser.add_argument("--minutes", type=float, default=4, help=f"in all; {shown}")
    parser.add_argument(
        "--networks",
        nargs="+",
        choices=NETWORKS,
        default=list(NETWORKS),
        metavar="NAME",
        help=f"of {', '.join(NETWORKS)}",
    )
    parser.add_argument("--output", type=Path, default=Path("runs/gpu_profile"), help=f"folder of the results; {shown}")
    parser.add_argument(
        "--scratch", type=Path, help="folder for up to 5 GB that are removed at the end; default: OUTPUT"
    )
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace, scratch: Path) -> bool:
    """Prints and writes all of it; whether every network has a table."""
    deadline = time.monotonic() + 60 * options.minutes
    report: dict[str, Any] = {"device": options.device, "networks": {}, "missing": []}
    for network in options.networks:
        try:
            report["networks"][network] = found = of_network(network, options, scratch, deadline)
            print(*(table_of(network, stage, found[stage]) for stage in found), "", sep="\n\n", flush=True)
        except (Failed, ValueError, LookupError) as error:
            report["missing"].append(f"{network}: {error}")
        (options.output / "gpu_profile.json").write_text(json.dumps(report, indent=1) + "\n")
    try:
        report["ncu"] = rows = measured_by_ncu(options, deadline - time.monotonic())
        print(text_table(["kernel", "metric", "value", "unit"], [list(row.values()) for row in rows]))
    except (Failed, OSError) as error:
        report["missing"].append(f"ncu: {error}")
    (options.output / "gpu_profile.json").write_text(json.dumps(report, indent=1) + "\n")
    print("\n".join(f"not measured: {text}" for text in report["missing"]))
    return len(report["networks"]) == len(options.networks)


def main(arguments: Sequence[str] | None = None) -> int:
    """Its exit code."""
    options = parse(arguments)
    reason = "" if options.device == "cpu" else why_no_device(options.device)
    if reason:
        print(f"gpu_profile: needs the device {options.device}, received none: {reason}", file=sys.stderr)
        return 1
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="gpu_profile_", dir=options.scratch or options.output) as scratch:
            return 0 if measure(options, Path(scratch).resolve()) else 1
    except (Failed, OSError) as error:
        print(f"gpu_profile: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
