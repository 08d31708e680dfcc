"""Runs the demo's recipe for several seeds: stage 1, PCA, stage 2 and two equal-epoch continuations.

    python experiments/recipe_seeds.py --recipe experiments/recipes/fashion_demo.toml \\
        --output runs/recipe_seeds --seeds 1 2 3

Stopped and started again it goes on where it was. Prints mean and standard deviation over seeds and
the differences of stage 2 to its baselines, paired by seed; writes results.csv beside the runs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from workbench.files import require_place
from workbench.jobs import DIMRED, CommandFailed, fit, pair, train
from workbench.text_table import text_table, write_csv

from dimred.runs import Run, flatten, read_runs

MARK = ("table of experiments/recipe_seeds.py", "seed,run,method,")
ENDS = ("stage1", "continued", "annealed", "stage2")
METRICS = {
    "test_accuracy": ("final test accuracy, %", 100, 2),
    "test_loss": ("final test loss", 1, 4),
}  # title, factor, digits


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).parent
    parser.add_argument(
        "--recipe",
        type=Path,
        default=here / "recipes" / "fashion_demo.toml",
        help="file with options of stage 1 (default: the demo's)",
    )
    parser.add_argument("--stage2_recipe", type=Path, help="file with options of stage 2")
    parser.add_argument(
        "--stage2",
        type=pair,
        nargs="*",
        action="extend",
        default=[],
        metavar="OPTION=VALUE",
        help="further options of stage 2, e.g. batch_size=256",
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--extra_epochs", type=int, default=2, help="epochs of stage 2 and its baselines")
    parser.add_argument("--components", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time")
    parser.add_argument("--threads", type=int, default=2, help="threads of each process")
    parser.add_argument("--dimred", type=Path, default=DIMRED)
    return parser.parse_args(arguments)


def run_seed(options: argparse.Namespace, seed: int) -> None:
    """All runs of one seed, into output/seed_<n>/."""
    folder = options.output.resolve() / f"seed_{seed}"  # paths are part of a run's configuration
    binary = options.dimred
    first = flatten(tomllib.loads(options.recipe.read_text()))["epochs"]
    stage1 = {"config": options.recipe, "seed": seed, "threads": options.threads}
    train(binary, "stage1", folder / "stage1", stage1)
    fit(binary, folder / "stage1", folder / "pca_mat.npy", options.components, options.threads)
    stage2 = {
        "config": options.stage2_recipe,
        "checkpoint": folder / "stage1",
        "seed": seed,
        "pca_mat": folder / "pca_mat.npy",
        "epochs": options.extra_epochs,
        "threads": options.threads,
    }
    train(binary, "stage2", folder / "stage2", stage2 | dict(options.stage2))
    onward = stage1 | {
        "resume_from": folder / "stage1",
        "snapshots_per_epoch": 0,
        "epochs": first + options.extra_epochs,
    }
    train(binary, "stage1", folder / "continued", onward)
    train(binary, "stage1", folder / "annealed", onward | {"anneal_from_epoch": first})


def mean_and_deviation(values: Sequence[float], sign: str = "", digits: int = 2) -> str:
    """`mean ± sd`, the deviation of the sample; a dash for a single value."""
    deviation = f"{statistics.stdev(values):.{digits}f}" if len(values) > 1 else "–"
    return f"{statistics.fmean(values):{sign}.{digits}f} ± {deviation}"


def table(by_seed: dict[int, list[Run]], metric: str) -> str:
    """One column per seed, one row per run, then the paired differences."""
    title, factor, digits = METRICS[metric]
    columns = {
        seed: {end: factor * float(run.result()[metric]) for end, run in zip(ENDS, runs, strict=True)}
        for seed, runs in by_seed.items()
    }
    header = [title, *(f"seed {seed}" for seed in columns), "mean ± sd"]
    rows = []
    for end in ENDS:
        values = [column[end] for column in columns.values()]
        rows.append([end, *(f"{value:.{digits}f}" for value in values), mean_and_deviation(values, digits=digits)])
    for baseline in ENDS[:-1]:
        values = [column["stage2"] - column[baseline] for column in columns.values()]
        cells = [f"{value:+.{digits}f}" for value in values]
        rows.append([f"stage2 - {baseline}", *cells, mean_and_deviation(values, "+", digits)])
    return text_table(header, rows)


def save(path: Path, by_seed: dict[int, list[Run]]) -> None:
    """results.csv: one line per run with its own costs."""
    costs = ["images", "seconds", "forward_passes", "backward_passes"]
    header = ["seed", "run", "method", *METRICS, "weights", "epochs", *costs]
    rows = []
    for seed, runs in by_seed.items():
        for run in runs:
            final = run.result()
            epochs = run.curve["epoch"].max() - run.start_epoch
            rows.append(
                [
                    seed,
                    run.name,
                    run.method,
                    *(final[metric] for metric in METRICS),
                    final["weights"],
                    epochs,
                    *map(run.costs().get, costs),
                ]
            )
    write_csv(path, header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 with the failed command's last line."""
    options = parse(arguments)
    try:
        require_place(options.output / "results.csv", "--output", MARK)
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda seed: run_seed(options, seed), options.seeds))
    except (CommandFailed, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    by_seed = {seed: read_runs(options.output / f"seed_{seed}" / end for end in ENDS) for seed in options.seeds}
    for metric in METRICS:
        print(table(by_seed, metric), end="\n\n")
    save(options.output / "results.csv", by_seed)
    print(f"written: {options.output / 'results.csv'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
