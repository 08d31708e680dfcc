"""Measures stage 2's algebra against a copy of the same bytes, and bfloat16 against float32, as ratios.

python experiments/benchmarks/algebra_ratio.py build/bin/device_algebra --json algebra.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from pathlib import Path


def main() -> None:
    """Prints a table of two sizes; writes every pair to --json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--repeat", type=int, default=11)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    print("stage-2 algebra (project + update + back-project, P read twice) / copy of the same bytes")
    for columns in (93_322, 2_560_000):
        command = [str(options.program), "cpu", str(columns), "32", str(options.repeat)]
        wide, half = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        seconds = wide["update"]
        ratios = [a / c for a, c in zip(seconds, wide["copy"], strict=True)]
        halved = [b / a for a, b in zip(seconds, half["update"], strict=True)]
        result = {"columns": columns, "float32": wide, "bfloat16": half, "ratios": ratios, "ratios_bfloat16": halved}
        results.append(result)
        print(
            f"  32 x {columns:>9,}: {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} - {max(ratios):.2f}), "
            f"{1e3 * statistics.median(seconds):.1f} ms, "
            f"{wide['copy_bytes'] / statistics.median(seconds) / 1e9:.1f} GB/s of P; "
            f"bfloat16 / float32 {statistics.median(halved):.2f} "
            f"({min(halved):.2f} - {max(halved):.2f})"
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
