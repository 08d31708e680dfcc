"""Stage 2's reduce-scatter in buckets beside the backward pass against one behind it, between hosts of slow connections, in turns.

    .venv/bin/python benchmarks/stage2_overlap.py [--layouts 2x1 2x2] [--json build/stage2_overlap.json]

ResNet-18 on mock images of 3 x 32 x 32, preset robust, random basis of 4 components, one thread a rank. Hosts are network namespaces on a
switch, 1 Gbit/s each way (tc's tbf); needs root. Prints seconds a step of the second epoch, and what of the sums the backward pass hid.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from hosts import Host, on_a_switch, placed  # noqa: E402
from machine import processor  # noqa: E402
from pca_peers import span  # noqa: E402
from ranks import ended, free_port  # noqa: E402

PROGRAM = ROOT / "build" / "bin" / "dimred"
STEPS, BATCH = 4, 128  # of an epoch; images of a rank
WAYS = {"beside": [], "behind": ["--bucket_mb", 1e6, "--first_bucket_mb", 1e6]}


def command(stage: str, output: Path, ranks: int, options: list[object]) -> list[str]:
    data = ["--dataset=mock", "--mock_shape=3,32,32", "--num_classes=10", f"--num_samples={ranks * BATCH * STEPS}", "--test_samples=16"]
    common = ["--threads=1", "--num_preprocessing_threads=1", f"--batch_size={BATCH}", "--precision=float32"]
    return [str(word) for word in [PROGRAM, stage, *data, *common, *options, "--output", output]]


def run_once(hosts: list[Host], start: Path, output: Path, node_size: int, options: list[object]) -> tuple[float, float]:
    """Seconds of a step, and of them those of sums behind the backward pass."""
    ranks, port = len(hosts) * node_size, free_port()
    words = command("stage2", output, ranks, ["--checkpoint", start, "--basis=random", "--n_component=4", "--epochs=2", *options])
    processes = [
        subprocess.Popen(
            [*hosts[rank // node_size].command(), *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=placed(rank, ranks, port, hosts[0].address, node_size) | {"OMP_NUM_THREADS": "1"})
        for rank in range(ranks)
    ]  # fmt: skip
    done = ended(processes, patience=600)
    if any(done.codes):
        raise SystemExit("\n".join(done.errors))
    with (output / "curve.csv").open(newline="") as stream:
        seconds = [float(row["seconds"]) for row in csv.DictReader(line for line in stream if not line.startswith("#"))]
    exposed = re.findall(r"reduce-scatter in \d+ buckets: [\d.]+ s so far, ([\d.]+) s", done.output[0])
    return (seconds[2] - seconds[1]) / STEPS, (float(exposed[1]) - float(exposed[0])) / STEPS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layouts", nargs="+", default=["2x1", "2x2"], help="nodes x ranks of each")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {"processor": processor(), "rate": options.rate, "layouts": {}}
    with tempfile.TemporaryDirectory() as scratch:
        start = Path(scratch) / "stage1"
        words = command("stage1", start, 1, ["--model=resnet18", "--epochs=1", "--snapshots_per_epoch=1"])
        subprocess.run(words, check=True, capture_output=True)
        for layout in options.layouts:
            nodes, node_size = map(int, layout.split("x"))
            runs: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
            with on_a_switch(nodes, options.rate) as hosts:
                for turn in range(options.turns):
                    for name, way in WAYS.items():
                        runs[name].append(run_once(hosts, start, Path(scratch) / f"{layout}_{turn}_{name}", node_size, way))
            results["layouts"][layout] = runs
            for name, all_of in runs.items():
                step, exposed = zip(*all_of, strict=True)
                print(f"{layout} {name}: {span(step, ' s')} a step, {span(exposed, ' s')} of it sums behind the backward pass")
            ratios = [ours[0] / behind[0] for ours, behind in zip(runs["beside"], runs["behind"], strict=True)]
            print(f"{layout} a step beside takes {span(ratios, '')} of one behind")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
