"""Measures images per second and accuracy of stage 1 for several numbers of ranks on this machine.

    python experiments/rank_scaling.py --output runs/rank_scaling

With the batch of a rank fixed (the global one grows) and with the global batch fixed (a rank's share
shrinks), one thread a rank, round after round in turn, so that a slow minute meets all alike. Prints
the table, writes results.csv (a line a run) and report.html. With more ranks than cores the rate says
nothing of scaling: only what sharing a core costs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from workbench.files import require_place, write_whole
from workbench.jobs import DIMRED, REPOSITORY, flags
from workbench.page import MARK, page
from workbench.ranks import ranks_of, rate, wire_per_step
from workbench.text_table import text_table, write_csv

from dimred.runs import is_finished, read_run, read_runs

sys.path.insert(0, str(REPOSITORY / "tests"))
from ranks import run_ranks

HEADER = ["fixed", "ranks", "global batch", "round", "images/s", "sent per step, MB", "test accuracy"]
TABLE = ("table of experiments/rank_scaling.py", ",".join(HEADER[:4]))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument(
        "--batch_size", type=int, default=64, help="samples per rank, in the runs with a fixed batch per rank"
    )
    parser.add_argument(
        "--global_batch_size", type=int, default=128, help="samples over all ranks, in the runs with a fixed total"
    )
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="convnet")
    parser.add_argument("--train_samples", type=int, default=0)
    parser.add_argument("--dimred", type=Path, default=DIMRED)
    return parser.parse_args()


def main() -> None:
    """Runs what is not there yet, then reports."""
    options = parse()
    report = options.output / "report.html"
    try:
        require_place(report, "--output", MARK)
        require_place(options.output / "results.csv", "--output", TABLE)
    except ValueError as error:
        print(f"rank_scaling: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    plan = {}
    for ranks in options.ranks:
        plan["per-rank batch", ranks] = options.batch_size * ranks
        plan["global batch", ranks] = options.global_batch_size
    rows = []
    for round_ in range(options.rounds):
        for (fixed, ranks), batch in plan.items():
            folder = options.output / f"round_{round_}" / f"{fixed.split()[0]}_{ranks}"
            common = {
                "global_batch_size": batch,
                "epochs": options.epochs,
                "model": options.model,
                "threads": 1,
                "train_samples": options.train_samples,
                "snapshots_per_epoch": 0,
                "seed": round_ + 1,
                "learning_rate": 0.05,
                "output": folder.resolve(),
            }
            if not is_finished(folder):
                folder.parent.mkdir(parents=True, exist_ok=True)
                done = run_ranks(options.dimred, ["stage1", *flags(common)], ranks, patience=3600)
                if any(done.codes):
                    raise SystemExit(done.errors)
            run = read_run(folder)
            rows.append(
                [fixed, ranks, batch, round_, rate(run), wire_per_step(run) / 1e6, float(run.result()["test_accuracy"])]
            )
    write_csv(options.output / "results.csv", HEADER, rows)
    print(
        text_table(
            ["fixed", "ranks", "global batch", "images/s", "against 1 rank", "sent per step", "test %"], summary(rows)
        )
    )
    print(f"{os.cpu_count()} cores; median (lowest to highest) of {options.rounds} rounds")
    runs = read_runs(sorted((options.output / "round_0").iterdir(), key=lambda f: ranks_of(read_run(f))))
    html = page("Stage 1 by the number of ranks", runs, None)
    write_whole(report, lambda file: file.write_text(html, encoding="utf-8"))
    print(f"report: {options.output / 'report.html'}")


def summary(rows: list[list[Any]]) -> list[list[str]]:
    """Medians and ranges over rounds; ratios within each round."""
    table = []
    for fixed, ranks, batch in dict.fromkeys((row[0], row[1], row[2]) for row in rows):
        mine = [row for row in rows if (row[0], row[1]) == (fixed, ranks)]
        alone = {row[3]: row[4] for row in rows if (row[0], row[1]) == (fixed, 1)}
        rates = [row[4] for row in mine]
        ratios = [row[4] / alone[row[3]] for row in mine if row[3] in alone]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})" if ratios else "–"
        accuracies = [100 * row[6] for row in mine]
        deviation = f"{statistics.stdev(accuracies):.2f}" if len(accuracies) > 1 else "–"
        table.append(
            [
                fixed,
                f"{ranks}",
                f"{batch}",
                f"{statistics.median(rates):,.0f} ({min(rates):,.0f}-{max(rates):,.0f})",
                ratio,
                f"{mine[0][5]:.2f} MB",
                f"{statistics.mean(accuracies):.2f} ± {deviation}",
            ]
        )
    return table


if __name__ == "__main__":
    main()
