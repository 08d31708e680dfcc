"""Runs the arms on seeds that have no row yet; what is done is not repeated.

    python experiments/lm/run.py [--seeds 1 2 3] [--folder runs/lm] [--rows FILE] [--arms NAME...] [--rate 1e-3]

About 36 minutes a seed on one core that is free. Snapshots and states of a seed take 320 MB. Another rate of the
constant run needs a folder and a file of rows of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

EXPERIMENTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(EXPERIMENTS))

from lm.arms import ARMS  # noqa: E402
from lm.base import Base, make  # noqa: E402
from lm.text import read_text  # noqa: E402
from lm.training import RATE  # noqa: E402


def done(rows: Path) -> set[tuple[int, str]]:
    lines = rows.read_text().splitlines() if rows.exists() else []
    return {(row["seed"], row["arm"]) for row in map(json.loads, lines)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 9)))
    parser.add_argument("--folder", type=Path, default=Path("runs/lm"))
    parser.add_argument("--rows", type=Path, default=EXPERIMENTS / "records" / "lm_merges_rows.jsonl")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS), metavar="NAME")
    parser.add_argument(
        "--rate", type=float, default=RATE, help="of the run that all arms but schedule-free AdamW share"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    text = read_text()
    for seed in options.seeds:
        base = Base(seed, options.folder / f"seed_{seed}", text, options.rate)
        make(base)
        for arm in options.arms:
            if (seed, arm) in done(options.rows):
                continue
            lines = [
                json.dumps({"seed": seed, "arm": arm, "variant": variant, "validation": losses[0], "test": losses[1]})
                for variant, losses in ARMS[arm](base)
            ]
            with options.rows.open("a") as stream:  # an arm's variants together, or none
                stream.write("\n".join(lines) + "\n")
            print(seed, arm, *lines, sep="\n  ", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
