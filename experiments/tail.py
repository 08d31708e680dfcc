"""Readouts of an annealed tail's snapshots against their mean at equal passes, over replicates of the whole pipeline.

    python experiments/tail.py experiments/tail/convnet_fashion.toml --output runs/tail --threads 1

A replicate trains at a constant rate, goes on from there in four ways (annealed to zero or to the floor's rate, for the tail's epochs or
for more), and reads its weights out of the snapshots. Stopped and started again it goes on where it was; `--rows FILE` keeps a line for
each arm of a finished replicate, which is not run again. Prints each arm against the rival that held-out images choose, each readout
against the mean of a tail with at least its passes, and the stop rule.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from dimred.runs import BadRun, read_runs
from dimred.runs.snapshots import snapshot_files
from workbench import readouts, replicates
from workbench.jobs import annealing, train
from workbench.readouts import FASHION_MNIST, Floats, Judge, Samples
from workbench.replicates import Metric, PlanError, Row

RIVALS = ("floor", "annealed", "tail", "annealed_longer", "tail_longer")
# Each with the mean of a tail with at least its passes.
READOUTS = {"rna": "tail", "line": "tail_longer", "layers": "tail_longer", "gauss_newton": "tail_longer"}
NUMBERS = ("held_out", "constant_epochs", "tail_epochs", "longer_epochs", "window", "floor_rate")
GAINS = {"test_accuracy": 0.03, "test_loss": 0.002}  # the stop rule's, in points and nats


def read_plan(file: Path) -> dict[str, Any]:
    """The plan, checked. Raises PlanError."""
    plan = replicates.read_tables(file, {"title", "question", "stage1", *NUMBERS, "rna", "line", "layers", "gauss_newton"})
    for name in NUMBERS:
        if not plan[name] > 0:
            raise PlanError(f"{file}: {name} needs a number above 0, received {plan[name]}")
    for name in ("train_samples", "learning_rate", "batch_size"):
        if name not in plan["stage1"]:
            raise PlanError(f"{file}: stage1 needs {name}")
    if plan["window"] % plan["tail_epochs"]:
        raise PlanError(f"{file}: window needs a multiple of tail_epochs, received {plan['window']}")
    if plan["longer_epochs"] <= plan["tail_epochs"]:
        raise PlanError(f"{file}: longer_epochs needs more than tail_epochs, received {plan['longer_epochs']}")
    spare = plan["longer_epochs"] - plan["tail_epochs"]
    for arm, passes in readout_passes(plan).items():
        if passes > spare:
            raise PlanError(f"{file}: {arm} takes the passes of {passes:.2f} epochs, the longer tail has {spare} more")
    return plan


def readout_passes(plan: dict[str, Any]) -> dict[str, float]:
    """Of each readout, in epochs: a backward pass counts as two forward ones, a forward-mode derivative as one beside its values."""
    held_out, newton = plan["held_out"], plan["gauss_newton"]
    forward = {
        "rna": 0,
        "line": len(plan["line"]["lambdas"]) * held_out,
        "layers": 3 * plan["layers"]["epochs"] * held_out,
        "gauss_newton": 2 * newton["components"] * newton["samples"] + len(newton["dampings"]) * held_out,
    }
    return {arm: images / 3 / plan["stage1"]["train_samples"] for arm, images in forward.items()}


def continuations(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The options of the runs that go on from the constant rate."""
    begin, rate, often = plan["constant_epochs"], plan["stage1"]["learning_rate"], plan["window"] // plan["tail_epochs"]
    return {
        name + suffix: annealing(begin, more, rate, end, snapshots)
        for suffix, more in (("", plan["tail_epochs"]), ("_longer", plan["longer_epochs"]))
        for name, end, snapshots in (("annealed", 0.0, 1), ("tail", plan["floor_rate"], often))
    }


def read_out(plan: dict[str, Any], rows: Floats, judge: Judge, held_out: Samples, seed: int) -> dict[str, Callable[[], tuple[Floats, Any]]]:
    """For each readout, what makes its weights and says which setting it chose."""

    def loss(w: Floats) -> float:
        return judge.scores(w, held_out)[0]

    def line() -> tuple[Floats, Any]:
        chosen, w = readouts.best_on_line(rows[-1], readouts.mean(rows), plan["line"]["lambdas"], loss)
        return w, chosen

    def gauss_newton() -> tuple[Floats, Any]:
        chosen, w = readouts.gauss_newton(judge, rows, held_out, plan["gauss_newton"], plan["gauss_newton"]["dampings"], loss)
        return w, chosen

    return {
        "rna": lambda: (readouts.combined(rows, readouts.anderson(rows, plan["rna"]["regularisation"])), None),
        "line": line,
        "layers": lambda: (readouts.learned_by_layers(judge, rows, held_out, plan["layers"], seed), None),
        "gauss_newton": gauss_newton,
    }


def run_replicate(plan: dict[str, Any], replicate: int, options: argparse.Namespace) -> list[Row]:
    """All of it, into output/replicate_<n>; a row for each arm."""
    torch.set_num_threads(options.threads)
    folder, binary = options.output / f"replicate_{replicate}", options.dimred
    # This script tests, so that the trainer need not.
    common = {**plan["stage1"], "data": options.data, "threads": options.threads, "seed": replicate, "test_samples": 64}
    constant = folder / "constant"
    train(binary, "stage1", constant,
          {**common, "schedule": "constant", "epochs": plan["constant_epochs"], "snapshots_per_epoch": 0})  # fmt: skip
    runs = continuations(plan)
    for name, settings in runs.items():
        train(binary, "stage1", folder / name, {**common, **settings, "resume_from": constant})
    test = readouts.read_samples(options.data, "t10k", constant)
    # Temperatures are fitted on images that no readout has seen.
    try:
        both = readouts.read_held_out(options.data, constant, common["train_samples"], 2 * plan["held_out"])
    except BadRun as error:
        raise PlanError(f"{error}: {plan['held_out']}, and as many to fit temperatures on") from error
    held_out, calibration = both.part(slice(0, None, 2)), both.part(slice(1, None, 2))
    judge = Judge(common.get("model", "convnet"), test)
    snapshots = {name: readouts.read_rows(snapshot_files(folder / name)[-plan["window"] :]) for name in runs}
    rivals = {name: readouts.mean(rows) if name.startswith("tail") else rows[-1] for name, rows in snapshots.items()}
    rivals["floor"] = snapshots["tail"][-1]
    makers = read_out(plan, snapshots["tail"], judge, held_out, replicate)
    machine, passes, made = replicates.machine_of(constant), readout_passes(plan), []
    for arm in EXPERIMENT.arms:
        began = time.process_time()
        w, chosen = (rivals[arm], None) if arm in rivals else makers[arm]()
        spent = time.process_time() - began
        validation, tested = judge.scores(w, held_out), judge.scores(w, test)
        temperature, tempered = judge.tempered_loss(w, calibration, test)
        run = arm if arm in runs else "tail"
        [trained] = read_runs([folder / run])
        made.append({"kind": arm, "chosen": chosen, "validation_loss": validation[0], "validation_accuracy": validation[1],
                     "test_loss": tested[0], "test_accuracy": tested[1], "temperature": temperature, "test_tempered_loss": tempered,
                     "epochs_of_passes": runs[run]["epochs"] + passes.get(arm, 0.0),
                     "seconds": trained.costs()["seconds"], "readout_seconds": spent, "machine": machine})  # fmt: skip
    return made


def gains(whole: Sequence[Mapping[str, Row]], metric: Metric, arm: str, rival: str) -> float:
    """By how much the arm is better than its rival, in the mean."""
    sign = -1 if metric.name.endswith("loss") else 1
    return sign * (
        statistics.fmean(metric.of(found[arm]) for found in whole) - statistics.fmean(metric.of(found[rival]) for found in whole)
    )


def report(rows: Sequence[Row]) -> str:
    """All arms against the best rival, the readouts against the mean of a tail with at least their passes, and the stop rule."""
    whole = replicates.whole_replicates(rows, EXPERIMENT.arms)
    if not whole:
        return "no replicate is finished"
    metrics = replicates.measured(whole, EXPERIMENT)
    ruled = [metric for metric in EXPERIMENT.metrics if metric.name in GAINS]
    enough = [arm for arm, rival in READOUTS.items() if all(gains(whole, metric, arm, rival) >= GAINS[metric.name] for metric in ruled)]
    passes = ", ".join(f"{arm} {statistics.fmean(found[arm]['epochs_of_passes'] for found in whole):.2f}" for arm in EXPERIMENT.arms)
    verdict = f"{', '.join(enough) or 'no readout'} gains both {GAINS['test_accuracy']} points and {GAINS['test_loss']} of loss"
    return "\n\n".join([
        replicates.table(rows, EXPERIMENT),
        *(replicates.pairs_table(whole, list(READOUTS.items()), metric) for metric in metrics),
        f"Passes, in epochs: {passes}",
        f"Stop rule, {len(whole)} replicates: {verdict}",
    ])  # fmt: skip


EXPERIMENT = replicates.Experiment(
    arms=(*RIVALS, *READOUTS),
    rivals=RIVALS,
    chosen_by=Metric("validation_loss", "validation loss"),
    metrics=(Metric("test_accuracy", "test %"), Metric("test_loss", "test loss"),
             Metric("test_tempered_loss", "test loss at a fitted temperature")),  # fmt: skip
    read_plan=read_plan,
    run=run_replicate,
    report=report,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 with one line of what failed, 2 for a bad plan."""
    parser = replicates.parser(__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=FASHION_MNIST, help="folder of the IDX files")
    return replicates.main(EXPERIMENT, parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
