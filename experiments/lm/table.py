"""Reads the rows of run.py: each arm against the mean of the best window, by test loss in nats a character.

python experiments/lm/table.py [ROWS]
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

EXPERIMENTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(EXPERIMENTS))

from workbench.text_table import text_table  # noqa: E402

from dimred.runs import holm, mean_interval, paired_difference  # noqa: E402

RIVAL = "mean of a window"


def chosen(rows: list[dict[str, Any]]) -> dict[str, dict[int, dict[str, Any]]]:
    """The variant of the lowest validation loss by arm and seed."""
    found: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        best = found[row["arm"]].get(row["seed"])
        if best is None or row["validation"] < best["validation"]:
            found[row["arm"]][row["seed"]] = row
    return dict(found)


def table_of(rows: list[dict[str, Any]]) -> str:
    """The table of the seeds that have every arm."""
    arms = chosen(rows)
    seeds = sorted(set.intersection(*(set(found) for found in arms.values())))
    losses = {arm: [found[seed]["test"] for seed in seeds] for arm, found in arms.items()}
    pairs = {arm: paired_difference(values, losses[RIVAL]) for arm, values in losses.items() if arm != RIVAL}
    corrected = dict(zip(pairs, holm([pair.p for pair in pairs.values()]), strict=True))
    lines = []
    for arm, values in losses.items():
        own = mean_interval(values)
        variants = ", ".join(sorted({found["variant"] for seed, found in arms[arm].items() if seed in seeds} - {""}))
        line = [arm, variants, f"{own.mean:.4f} ± {own.sd:.4f}"]
        if arm in pairs:
            pair = pairs[arm]
            line += [
                f"{pair.mean:+.4f}",
                f"{pair.low:+.4f} to {pair.high:+.4f}",
                f"{pair.p:.2g}",
                f"{corrected[arm]:.2g}",
            ]
        lines.append(line + ["–"] * (7 - len(line)))
    header = ["arm", "chosen", "test loss (mean ± sd)", "difference", "95 % interval", "p", "p (Holm)"]
    return f"{len(seeds)} seeds\n\n" + text_table(header, lines)


def main() -> int:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else EXPERIMENTS / "records" / "lm_merges_rows.jsonl"
    print(table_of([json.loads(line) for line in file.read_text().splitlines()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
