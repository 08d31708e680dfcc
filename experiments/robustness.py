"""Does stage 2 ever do harm? Many one-epoch runs per preset and batch size from real stage-1 ends.

    python experiments/robustness.py --output runs/robustness --jobs 2

Three stage-1 runs of the recipe, then for each preset and batch size 20 seeds of stage 2 spread
over them, each with one thread. A stopped experiment goes on where it was. All presets start from
the last weights with the same 32 components, so that only the step differs. Prints the table and
writes results.csv (a line per run) and table.csv.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from dimred.runs import read_run
from workbench.jobs import DIMRED, CommandFailed, fit, train
from workbench.text_table import text_table, write_csv

PRESETS = ("robust", "mindspore-latest", "mindspore-first", "dldr")
BATCHES = (64, 256, 1024, 4096)
TOLERATED_LOSS = 0.5  # points below the start that a run may end at


@dataclass(frozen=True)
class Job:
    """One stage-2 run."""

    preset: str
    batch_size: int
    seed: int
    stage1_seed: int

    def folder(self, output: Path) -> Path:
        return output / self.preset / f"batch_{self.batch_size}" / f"seed_{self.seed}"


@dataclass(frozen=True)
class Result:
    """Where a run began and ended, in per cent; `end` is nan when it did not come to its end."""

    preset: str
    batch_size: int
    seed: int
    stage1_seed: int
    start: float
    end: float
    finite: bool
    note: str

    @property
    def delta(self) -> float:
        """Points gained."""
        return self.end - self.start


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).parent
    parser.add_argument("--recipe", type=Path, default=here / "recipes" / "fashion_demo.toml",
                        help="stage 1's options (default: the demo's)")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--presets", nargs="+", default=list(PRESETS), choices=PRESETS)
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--seeds", type=int, default=20, help="runs per preset and batch size")
    parser.add_argument("--stage1_seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--components", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time, one thread each")
    parser.add_argument("--dimred", type=Path, default=DIMRED)
    return parser.parse_args(arguments)  # fmt: skip


def prepare(options: argparse.Namespace, seed: int) -> None:
    """One stage-1 run and its projection matrix."""
    folder = options.output / f"stage1_{seed}"
    stage1 = {"config": options.recipe, "seed": seed, "threads": 1}
    train(options.dimred, "stage1", folder, stage1)
    fit(options.dimred, folder, folder / "pca_mat.npy", options.components, threads=1)


def run_job(options: argparse.Namespace, job: Job) -> None:
    """One epoch of stage 2. A run that stops over non-finite values is a result, not an error."""
    start = options.output / f"stage1_{job.stage1_seed}"
    folder = job.folder(options.output)
    note = folder.with_name(folder.name + ".stopped")
    if note.is_file():
        return
    arguments = {"checkpoint": start, "pca_mat": start / "pca_mat.npy", "preset": job.preset,
                 "start": "last", "n_component": options.components, "epochs": 1,
                 "batch_size": job.batch_size, "seed": job.seed, "threads": 1}  # fmt: skip
    try:
        train(options.dimred, "stage2", folder, arguments)
    except CommandFailed as error:
        if "finite" not in str(error):
            raise
        note.write_text(f"{error}\n")


def read_result(options: argparse.Namespace, job: Job) -> Result:
    """The run's first and final evaluation; a loss that is not a number makes it non-finite."""
    folder = job.folder(options.output)
    note = folder.with_name(folder.name + ".stopped")
    run = read_run(folder)
    start = 100 * float(run.curve["test_accuracy"].iloc[0])
    finite = all(math.isfinite(loss) for loss in run.curve["test_loss"]) and not note.is_file()
    end = math.nan if note.is_file() else 100 * float(run.result()["test_accuracy"])
    reason = note.read_text().strip() if note.is_file() else ""
    return Result(job.preset, job.batch_size, job.seed, job.stage1_seed, start, end, finite, reason)


def table_rows(results: Sequence[Result]) -> list[list[str]]:
    """One row per preset and batch size, over the finite runs; the others count as below."""
    rows = []
    key: Callable[[Result], tuple[str, int]] = lambda r: (r.preset, r.batch_size)  # noqa: E731
    for (preset, batch_size), group in itertools.groupby(results, key):
        runs = list(group)
        deltas = [run.delta for run in runs if run.finite]
        below = sum(delta < -TOLERATED_LOSS for delta in deltas) + len(runs) - len(deltas)
        mean = f"{statistics.fmean(deltas):+.2f}" if deltas else "–"
        rows.append(
            [preset, str(batch_size), str(len(runs)), str(len(runs) - len(deltas)),
             f"{statistics.fmean(run.start for run in runs):.2f}",
             f"{min(deltas):+.2f}" if deltas else "–", mean,
             f"{max(deltas):+.2f}" if deltas else "–", str(below)]
        )  # fmt: skip
    return rows


HEADER = ["preset", "batch", "runs", "non-finite", "mean start %", "min delta", "mean delta",
          "max delta", f"below start - {TOLERATED_LOSS}"]  # fmt: skip


def jobs_of(options: argparse.Namespace) -> list[Job]:
    """Every combination; seed i starts from stage-1 run i modulo their number."""
    starts = options.stage1_seeds
    return [
        Job(preset, batch_size, seed, starts[(seed - 1) % len(starts)])
        for preset in options.presets
        for batch_size in options.batch_sizes
        for seed in range(1, options.seeds + 1)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 with the failed command's last line."""
    options = parse(arguments)
    options.output = options.output.resolve()  # paths are part of a run's configuration
    jobs = jobs_of(options)
    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda seed: prepare(options, seed), options.stage1_seeds))
            list(pool.map(lambda job: run_job(options, job), jobs))
    except (CommandFailed, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    results = [read_result(options, job) for job in jobs]
    rows = table_rows(results)
    print(text_table(HEADER, rows))
    write_csv(options.output / "table.csv", HEADER, rows)
    names = [f.name for f in fields(Result)]
    lines = [(*astuple(result), result.delta) for result in results]
    write_csv(options.output / "results.csv", [*names, "delta"], lines)
    print(f"written: {options.output / 'table.csv'}, {options.output / 'results.csv'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
