"""CUDA kernels of stage 2 and of the PCA against copies of the same bytes, as ratios of bandwidths.

    python benchmarks/device_ratios.py build/bin/device_algebra --json device.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

Turns = dict[str, Any]


def shares(result: Turns, name: str, bytes_moved: int, copy: str, copied: int) -> list[float]:
    """Of each turn: bytes a second of `name` over those of the copy in the same turn."""
    pairs = zip(result[name], result[copy], strict=True)
    return [(bytes_moved / seconds) / (copied / other) for seconds, other in pairs]


def row(result: Turns, name: str, bytes_name: str, copy: str, copied_name: str) -> str:
    """One line of the table; keeps the ratios in `result`."""
    moved = result[bytes_name]
    ratios = shares(result, name, moved, copy, result[copied_name])
    result[f"{name}_per_{copy}"] = ratios
    rate = moved / statistics.median(result[name]) / 1e9
    return (
        f"  {name:<16} {rate:8.1f} GB/s, {statistics.median(ratios):.2f} of {copy} "
        f"({min(ratios):.2f} - {max(ratios):.2f})"
    )


def main() -> None:
    """Prints a table; writes every turn and ratio to --json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--columns", type=int, default=25_557_032, help="M of ResNet-50")
    parser.add_argument("--components", type=int, default=32)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--repeat", type=int, default=21)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    numbers = (options.columns, options.components, options.rows, options.repeat)
    command = [str(options.program), *map(str, numbers)]
    result = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    for turns in result["stage2"]:
        print(f"P {turns['components']} x {turns['columns']:,} {turns['dtype']}")
        for name in ("project", "advance"):
            print(row(turns, name, f"{name}_bytes", "copy", "copy_bytes"))
    turns = result["pca"]
    print(f"W {turns['rows']} x {turns['columns']:,}, {turns['components']} components")
    print(row(turns, "gram_streamed", "gram_bytes", "host_copy", "host_copy_bytes"))
    for name in ("gram_kept", "components_kept"):
        print(row(turns, name, "gram_bytes", "copy", "copy_bytes"))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
