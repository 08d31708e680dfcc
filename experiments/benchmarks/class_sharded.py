"""Measures a class-sharded margin softmax on several ranks against one rank with all classes: memory, bytes, seconds.

    python experiments/benchmarks/class_sharded.py build/bin/class_sharded --json class_sharded.json

Exit code 1 when a rank of the last number of ranks needs more than 1/R + 10 % of what one rank needs for all classes
and the same global batch (only without class sampling).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
import rank_model
from ranks import run_ranks


def measured(program: Path, ranks: int, options: list[str]) -> dict[str, Any]:
    """The figures that rank 0 prints."""
    done = run_ranks(program, options, ranks, patience=600)
    if any(done.codes):
        raise SystemExit("\n".join(done.errors))
    return json.loads(done.output[0])


def predicted(given: argparse.Namespace, ranks: int) -> dict[str, int]:
    """Bytes of the first rank, which has most, and bytes that a rank sends in a step."""
    head = rank_model.Head(given.classes, given.embedding_size, given.global_batch_size, given.class_sampling_ratio)
    all_ranks = rank_model.Ranks(ranks, 1)
    return {"predicted_bytes": head.memory(ranks), "predicted_sent": head.sent(all_ranks)}


def main() -> int:
    """Prints a row per number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--classes", type=int, default=100_000)
    parser.add_argument("--embedding_size", type=int, default=512)
    parser.add_argument("--global_batch_size", type=int, default=64)
    parser.add_argument("--class_sampling_ratio", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    keys = ("classes", "embedding_size", "global_batch_size", "class_sampling_ratio", "steps")
    options = [f"--{key}={getattr(given, key)}" for key in keys]
    print(
        f"{given.classes:,} classes x {given.embedding_size}, {given.global_batch_size} samples a step, "
        "SGD with momentum, float32"
    )
    print("ranks  peak MB of a rank  predicted MB  of one rank's  sent MB a step  predicted MB  seconds a step")
    results = [measured(given.program, ranks, options) | predicted(given, ranks) for ranks in given.ranks]
    whole = max(part["peak_bytes"] for part in results[0]["measured"])
    share = 1.0
    for result in results:
        peak = max(part["peak_bytes"] for part in result["measured"])
        sent = statistics.fmean(part["sent"] for part in result["measured"])
        seconds = statistics.median(s for part in result["measured"] for s in part["seconds"])
        share = peak / whole
        print(
            f"{result['ranks']:5d}  {peak / 1e6:17.1f}  {result['predicted_bytes'] / 1e6:12.1f}  {share:13.3f}  "
            f"{sent / 1e6:14.3f}  {result['predicted_sent'] / 1e6:12.3f}  {seconds:14.2f}"
        )
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")
    allowed = 1.1 / results[-1]["ranks"]
    if given.ranks[0] != 1 or given.class_sampling_ratio < 1 or share <= allowed:
        return 0
    print(f"a rank needs {share:.3f} of the memory of a single rank, allowed {allowed:.3f}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
