"""Measures reads of TFRecord and packed files from the page cache against a copy of the same bytes in the same run."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from pathlib import Path

from machine import processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="build/bin/read_rate")
    parser.add_argument("--scratch", type=Path, required=True, help="folder for 1 GB of files")
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    arguments = [options.program, options.scratch, str(options.megabytes), str(options.repeats)]
    rates = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
    options.json.write_text(json.dumps({"processor": processor()} | rates, indent=1) + "\n")
    print(f"{'copy seconds / our seconds':36} median    min    max   (bar: 0.8)")
    for name, ratios in rates["ratios"].items():
        print(f"{name:36} {statistics.median(ratios):6.2f} {min(ratios):6.2f} {max(ratios):6.2f}")


if __name__ == "__main__":
    main()
