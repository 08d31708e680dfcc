"""Reads the rows of lm_controls: each question's arms against its rival, by test loss in nats a character.

python experiments/lm/table.py [ROWS]
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

EXPERIMENTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(EXPERIMENTS))

from workbench.text_table import text_table  # noqa: E402

from dimred.runs import holm, mean_interval, paired_difference  # noqa: E402
from lm.arms import IN_THE_WINDOW, WITH_EACH_RATE  # noqa: E402
from lm.training import SCHEDULE_FREE  # noqa: E402

Row = dict[str, Any]
SEEDS = 8  # before which there is no verdict
SHOWN = "last weights"  # of the first question, beside its tests
HEADER = ["arm", "chosen (seeds)", "test loss (mean ± sd)", "difference", "95 % interval", "p", "p (Holm)"]


def chosen(rows: list[Row]) -> dict[int, Row]:
    """The variant of the lowest validation loss by seed; what diverged is none."""
    found: dict[int, Row] = {}
    for row in rows:
        best = found.get(row["seed"])
        if "validation" in row and (best is None or row["validation"] < best["validation"]):
            found[row["seed"]] = row
    return found


def table_of(arms: dict[str, list[Row]], rival: str, shown: tuple[str, ...] = ()) -> str:
    """Over the seeds that have rows of every arm; an arm that diverged on one of them is not tested."""
    seeds = sorted(set.intersection(*({row["seed"] for row in rows} for rows in arms.values())))
    if not seeds:
        return "no seed has every arm yet"
    picked = {arm: chosen(rows) for arm, rows in arms.items()}
    whole = {arm: [found[seed]["test"] for seed in seeds] for arm, found in picked.items() if {*seeds} <= set(found)}
    tested = [arm for arm in whole if rival in whole and arm != rival and arm not in shown]
    pairs = {arm: paired_difference(whole[arm], whole[rival]) for arm in tested}
    corrected = dict(zip(pairs, holm([pair.p for pair in pairs.values()]), strict=True))
    lines = []
    for arm in sorted(arms, key=lambda arm: mean_interval(whole[arm]).mean if arm in whole else float("inf")):
        variants = Counter(shown_variant(picked[arm][seed]) for seed in seeds if seed in picked[arm])
        line = [arm, ", ".join(f"{variant} ({count})" for variant, count in variants.most_common())]
        if arm in whole:
            line.append("{0.mean:.4f} ± {0.sd:.4f}".format(mean_interval(whole[arm])))
        else:
            line.append(f"diverged on seeds {', '.join(str(seed) for seed in seeds if seed not in picked[arm])}")
        if arm in pairs:
            pair = pairs[arm]
            line += [f"{pair.mean:+.4f}", f"{pair.low:+.4f} to {pair.high:+.4f}"]
            line += [f"{pair.p:.2g}", f"{corrected[arm]:.2g}"]
        lines.append(line + ["–"] * (len(HEADER) - len(line)))
    early = "" if len(seeds) >= SEEDS else ", no verdict before eight"
    return f"{len(seeds)} seeds ({' '.join(map(str, seeds))}){early}\n\n" + text_table(HEADER, lines)


def shown_variant(row: Row) -> str:
    return f"{row['rate']:g} {row['variant']}".strip()


def questions(rows: list[Row]) -> str:
    by_arm = {arm: [row for row in rows if row["arm"] == arm] for arm in (*WITH_EACH_RATE, *IN_THE_WINDOW)}
    first = {arm: [row for row in by_arm[arm] if row["rate"] == 1e-3] for arm in (SHOWN, "mean of a window")}
    rates = sorted({row["rate"] for arm in WITH_EACH_RATE for row in by_arm[arm]})
    at_rates = {
        f"{arm} at {rate:g}": [row for row in by_arm[arm] if row["rate"] == rate]
        for arm in WITH_EACH_RATE
        for rate in rates
    }
    whole = complete({arm: by_arm[arm] for arm in WITH_EACH_RATE}, rates)
    return "\n\n".join(
        [
            "Is it the PCA?",
            table_of(first | {arm: by_arm[arm] for arm in IN_THE_WINDOW}, next(iter(IN_THE_WINDOW)), (SHOWN,)),
            "Which method leads when each has its best rate?",
            table_of(whole, SCHEDULE_FREE),
            "At each rate",
            table_of({arm: found for arm, found in at_rates.items() if found}, "", ()),
        ]
    )


def complete(arms: dict[str, list[Row]], rates: list[float]) -> dict[str, list[Row]]:
    """The rows of seeds that have an arm's every rate."""
    found = {}
    for arm, rows in arms.items():
        seen = {(row["seed"], row["rate"]) for row in rows}
        found[arm] = [row for row in rows if all((row["seed"], rate) in seen for rate in rates)]
    return found


def main() -> int:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else EXPERIMENTS / "records" / "lm_controls_rows.jsonl"
    print(questions([json.loads(line) for line in file.read_text().splitlines()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
