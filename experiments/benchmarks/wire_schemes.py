"""Measures bytes and seconds of a stage-2 step over ranks against MindSpore's scheme of communication.

python experiments/benchmarks/wire_schemes.py build/bin/stage2_wire --json wire.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from ranks import run_ranks


def main() -> None:
    """Prints a line per number of ranks and scheme; writes every round to --json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--columns", type=int, default=2_560_000)
    parser.add_argument("--components", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    print("MindSpore's wire (all-reduce + 2 R broadcasts) / a whole step of ours: bytes a rank sends, speed")
    for ranks in options.ranks:
        done = run_ranks(options.program, [options.columns, options.components, options.rounds], ranks)
        if any(done.codes):
            raise SystemExit("\n".join(done.errors))
        result = json.loads(done.output[0])
        results.append(result)
        theirs = result["seconds"]["mindspore"]
        for scheme in ("robust", "presets"):
            ratios = [b / a for a, b in zip(result["seconds"][scheme], theirs, strict=True)]
            print(
                f"  {ranks} ranks, {scheme:<7}: bytes 1/{result['bytes']['mindspore'] / result['bytes'][scheme]:.2f}, "
                f"{statistics.median(ratios):.1f} times as fast ({min(ratios):.1f} - {max(ratios):.1f}), "
                f"{1e3 * statistics.median(result['seconds'][scheme]):.1f} ms a step"
            )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
