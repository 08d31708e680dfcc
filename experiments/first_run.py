"""Runs README's commands for your own data with two schedules: one ends with stage 1, the other continues in stage 2.

    python experiments/first_run.py fashion=default,train_samples=2000 flowers=FOLDER,model=convnet,image_size=64 \\
        --output runs/first_run --seeds 1 2 3

An argument is NAME=DATA and options of stage 1. Each seed runs scripts/run_stage_1.sh and run_stage_2.sh twice: with
--total_epochs, so that the learning rate ends at zero, and without. Stopped and started again it goes on where it was.
Prints test accuracies and writes results.csv beside the runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recipe_seeds import mean_and_deviation
from workbench.files import require_place
from workbench.jobs import REPOSITORY, CommandFailed, flags, pair, run_logged
from workbench.text_table import text_table, write_csv

from dimred.runs import is_finished, read_run

ARMS = ("rate at zero", "rate high")
MARK = ("table of experiments/first_run.py", "data,arm,seed,rate,")
COLUMNS = ("stage1", "mean", "stage2")  # stage 1's end, the mean of its last ten snapshots, stage 2's end


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pair, nargs="+", metavar="NAME=DATA[,OPTION=VALUE]...")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epochs", type=int, default=20, help="epochs of stage 1, as in README")
    parser.add_argument("--threads", type=int, default=1, help="threads of each process")
    return parser.parse_args(arguments)


def run_script(stage: int, words: Sequence[object], options: dict[str, object]) -> None:
    """scripts/run_stage_<stage>.sh into options["output"]; nothing when that run is finished."""
    folder = Path(str(options["output"]))
    if not is_finished(folder):
        script = REPOSITORY / "scripts" / f"run_stage_{stage}.sh"
        run_logged([str(script), *map(str, words), *flags(options)], folder.with_name(folder.name + ".log"))


def measure(folder: Path, data: str, given: argparse.Namespace, seed: int, arm: str) -> dict[str, float]:
    """The rate at stage 1's end, and three test accuracies in per cent."""
    source, *more = data.split(",")
    common = {"threads": given.threads, "seed": seed}
    length = {"total_epochs": given.epochs if arm == ARMS[0] else None}
    own = {"epochs": given.epochs, "snapshots_per_epoch": 2, **dict(map(pair, more))}
    run_script(1, [source], {**own, **length, **common, "output": folder / "stage1"})
    run_script(2, [source, folder / "stage1"], {**common, "output": folder / "stage2"})
    first, second = read_run(folder / "stage1"), read_run(folder / "stage2")
    ends = (first.result(), second.curve.iloc[0], second.result())
    accuracies = {name: 100 * float(end["test_accuracy"]) for name, end in zip(COLUMNS, ends, strict=True)}
    return {"rate": float(first.result()["learning_rate"]), **accuracies}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A row for each data set and arm; gains are over stage 1's end, paired by seed."""
    header = ["data", "stage 1 ends with", "rate", "stage 1's end", "mean of 10", "gain", "stage 2", "gain"]
    lines = []
    for name, arm in dict.fromkeys((row["data"], row["arm"]) for row in rows):
        members = [row for row in rows if (row["data"], row["arm"]) == (name, arm)]
        cells = [name, arm, f"{members[0]['rate']:.4f}", mean_and_deviation([row["stage1"] for row in members])]
        for column in COLUMNS[1:]:
            cells.append(mean_and_deviation([row[column] for row in members]))
            cells.append(mean_and_deviation([row[column] - row["stage1"] for row in members], "+"))
        lines.append(cells)
    return text_table(header, lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 with the failed command's last line."""
    options = parse(arguments)
    output = options.output.resolve()
    rows: list[dict[str, object]] = []
    try:
        require_place(output / "results.csv", "--output", MARK)
        for seed in options.seeds:
            for name, data in options.data:
                for arm in ARMS:
                    folder = output / name / f"{arm.replace(' ', '_')}_{seed}"
                    rows.append({"data": name, "arm": arm, "seed": seed, **measure(folder, data, options, seed, arm)})
    except (CommandFailed, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(table(rows))
    write_csv(output / "results.csv", list(rows[0]), [list(row.values()) for row in rows])
    print(f"written: {output / 'results.csv'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
