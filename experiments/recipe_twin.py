"""Compares a recipe's training with PyTorch, loss by loss, on the same network, batches, weights and options.

    python experiments/recipe_twin.py experiments/recipes/fastnn_cifar10.toml --data FOLDER --short

Each stage 1 of the recipe is trained by dimred, which keeps its batches (4 bytes a value of the images; removed
afterwards), then by the PyTorch twin on these. Prints both losses of the first and the last epoch, and how far they
are apart; writes twin.csv, a line a step, into each run. Exit code 1 when a loss is not finite or does not fall, or
the epochs' means differ by more than --tolerance of the first epoch's loss.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import recipe
from comparison.options import ConfigError
from dimred_twins.training import CannotFollow, require_followable, train_as
from workbench.files import write_whole
from workbench.recipe_steps import RecipeError, Step
from workbench.text_table import text_table

from dimred.runs import BadRun, read_run

HEADER = (
    "run",
    "steps",
    "first epoch",
    "twin",
    "last epoch",
    "twin",
    "step 1 apart",
    "steps 1-10",
    "epochs apart",
    "seconds",
    "twin",
)


def both_losses(step: Step) -> tuple[pd.DataFrame, str]:
    """The losses of every step, from the time before (its batches are gone) or of training the twin; its seconds."""
    file = step.output / "twin.csv"
    if file.is_file():
        return pd.read_csv(file, index_col="step"), "-"
    begin = time.monotonic()
    table = train_as(step.output)
    write_whole(file, lambda path: table.to_csv(path, index_label="step"))
    return table, f"{time.monotonic() - begin:.0f}"


def compare(name: str, table: pd.DataFrame, tolerance: float) -> tuple[list[str], list[str]]:
    """Numbers of train_as's table for a row, and what is wrong."""
    epochs = table.groupby("epoch")[["loss", "twin_loss"]].mean()
    first, last = epochs.iloc[0], epochs.iloc[-1]
    apart = (table["loss"] - table["twin_loss"]).abs()
    between = (epochs["loss"] - epochs["twin_loss"]).abs().max()
    wrong = []
    for word, column in (("run's", "loss"), ("twin's", "twin_loss")):
        if not table[column].map(math.isfinite).all():
            wrong.append(f"{name}: the {word} loss is not finite")
        elif len(epochs) > 1 and last[column] >= first[column]:
            wrong.append(f"{name}: the {word} loss does not decrease")
    if between > tolerance * first["loss"]:
        wrong.append(
            f"{name}: the epochs' losses differ by {between:.4f}, more than {tolerance:g} of {first['loss']:.4f}"
        )
    numbers = (first["loss"], first["twin_loss"], last["loss"], last["twin_loss"])
    return [
        name,
        str(len(table)),
        *(f"{value:.4f}" for value in numbers),
        f"{apart.iloc[0]:.1e}",
        f"{apart.iloc[:10].max():.1e}",
        f"{between:.4f}",
    ], wrong


def with_batches(step: Step) -> Step:
    """The step with the hook `batches` beside its own."""
    hooks = [hook for hook in str(step.options.get("hooks", "")).split(",") if hook]
    return replace(step, options=step.options | {"hooks": ",".join([*hooks, "batches"])})


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line: recipe.py's, and ours."""
    parser = recipe.parser(__doc__.splitlines()[0])
    parser.add_argument(
        "--tolerance", type=float, default=0.1, help="tolerance of the first epoch's loss (default: %(default)s)"
    )
    parser.add_argument("--keep_batches", action="store_true", help="keep the recorded batches in the runs")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs both; the exit code."""
    options = parse(arguments)
    output = (options.output or Path("runs") / f"{options.recipe.stem}_twin").resolve()
    rows, wrong = [], []
    try:
        found = recipe.read(options, output)
        if (options.ranks or found.ranks) > 1:
            raise CannotFollow("the twin is one process; needs --ranks 1")
        steps = [with_batches(step) for step in found.steps if step.command == "stage1"]
        for step in steps:
            require_followable(step.options)
        for step in steps:
            recipe.run(replace(found, steps=[step]), options)
            if options.dry_run:
                continue
            table, seconds = both_losses(step)
            row, mistakes = compare(step.name, table, options.tolerance)
            rows.append([*row, f"{read_run(step.output).curve['seconds'].iloc[-1]:.0f}", seconds])
            wrong += mistakes
            if not options.keep_batches:
                shutil.rmtree(step.output / "batches", ignore_errors=True)
    except (RecipeError, ConfigError, CannotFollow, BadRun) as error:
        print(f"recipe_twin.py: {error}", file=sys.stderr)
        return 1
    if rows:
        print(
            f"\n{text_table(HEADER, rows)}\nThe numbers are training losses in nats. The columns of steps have the "
            "largest |dimred - PyTorch| of a step; 'epochs apart' has the largest difference of an epoch's mean."
        )
    for line in wrong:
        print(f"recipe_twin.py: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
