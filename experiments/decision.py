"""Which of several configurations is best once annealed? Ranked from their runs at a constant rate, over replicates.

    python experiments/decision.py experiments/decision/convnet_fashion.toml --output runs/decision --threads 1

A replicate trains every configuration at a constant rate, predicts its annealed loss and accuracy on held-out images after some epochs in
several ways, anneals it, and asks how well the predictions rank the configurations by what they reach on the test set. Stopped and started
again it goes on where it was; `--rows FILE` keeps a line for each arm of a finished replicate, which is not run again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dimred.runs.snapshots import snapshot_files
from scipy.stats import spearmanr
from workbench import readouts, replicates
from workbench.jobs import annealing, train
from workbench.readouts import FASHION_MNIST, Judge, Samples
from workbench.replicates import Metric, PlanError, Row
from workbench.text_table import text_table

Scores = tuple[float, float]  # loss, accuracy
WAYS = ("last", "mean", "learned", "short")
NUMBERS = ("held_out", "short_epochs", "annealed_epochs", "window")
ALPHA = 0.01  # of the stop rule


def read_plan(file: Path) -> dict[str, Any]:
    """The plan, checked. Raises PlanError."""
    plan = replicates.read_tables(file, {"title", "question", "decide_after", *NUMBERS, "stage1", "layers", "configurations"})
    for name in NUMBERS:
        if not plan[name] > 0:
            raise PlanError(f"{file}: {name} needs a number above 0, received {plan[name]}")
    for name in ("train_samples", "snapshots_per_epoch"):
        if name not in plan["stage1"]:
            raise PlanError(f"{file}: stage1 needs {name}")
    if len(plan["configurations"]) < 2:
        raise PlanError(f"{file}: configurations needs 2 or more, received {len(plan['configurations'])}")
    for name, settings in plan["configurations"].items():
        if "learning_rate" not in settings:
            raise PlanError(f"{file}: configurations.{name} needs learning_rate")
    if not plan["decide_after"] or min(plan["decide_after"]) * plan["stage1"]["snapshots_per_epoch"] < plan["window"]:
        raise PlanError(f"{file}: decide_after needs epochs with the window's {plan['window']} snapshots, received {plan['decide_after']}")
    return plan


def cost(plan: dict[str, Any], way: str, after: int) -> float:
    """The passes of a decision, as a part of those of annealing every configuration; scores on held-out images, which all ways need, are
    not counted."""
    learned = plan["layers"]["epochs"] * (plan["held_out"] // 2) / plan["stage1"]["train_samples"]
    more = {"short": plan["short_epochs"], "learned": learned, "annealed": plan["annealed_epochs"]}.get(way, 0)
    return float((after + more) / (max(plan["decide_after"]) + plan["annealed_epochs"]))


def judged(predicted: Sequence[Scores], true: Sequence[Scores]) -> dict[str, float]:
    """How well predictions of some configurations rank what these reach; of equal predicted losses the first is taken."""
    (loss, accuracy), (true_loss, true_accuracy) = np.array(predicted).T, np.array(true).T
    return {
        "loss_correlation": float(spearmanr(loss, true_loss).statistic),
        "accuracy_correlation": float(spearmanr(accuracy, true_accuracy).statistic),
        "lost_accuracy": float(true_accuracy.max() - true_accuracy[loss.argmin()]),
        "loss_error": float(np.abs(loss - true_loss).mean()),
    }


def run_configuration(plan: dict[str, Any], folder: Path, common: dict[str, Any], binary: Path) -> dict[str, Path]:
    """Trains it; the runs "constant", "annealed" and, of each decision, "short_<epochs>"."""
    per_epoch, rate, longest = common["snapshots_per_epoch"], common["learning_rate"], max(plan["decide_after"])
    constant = folder / "constant"
    train(binary, "stage1", constant, {**common, "schedule": "constant", "epochs": longest, "keep_checkpoints": longest})
    states = sorted((constant / "checkpoints").glob("state_*"))[-longest:]  # one an epoch
    runs = {"constant": constant}
    begun = {f"short_{after}": (after, plan["short_epochs"]) for after in plan["decide_after"]} | {
        "annealed": (longest, plan["annealed_epochs"])
    }
    for name, (after, more) in begun.items():
        runs[name] = folder / name
        settings = annealing(after, more, rate, 0.0, per_epoch)
        train(binary, "stage1", runs[name], {**common, **settings, "resume_from": states[after - 1]})
    return runs


def predictions(plan: dict[str, Any], runs: dict[str, Path], judge: Judge, held_out: Samples, seed: int) -> dict[str, Scores]:
    """By every arm, on held-out images."""
    first, other = held_out.part(slice(len(held_out) // 2)), held_out.part(slice(len(held_out) // 2, None))
    files = snapshot_files(runs["constant"])
    made = {"annealed": judge.scores(readouts.last(runs["annealed"]), held_out)}
    for after in plan["decide_after"]:
        rows = readouts.read_rows(files[: after * plan["stage1"]["snapshots_per_epoch"]][-plan["window"] :])
        made[f"last_{after}"] = judge.scores(rows[-1], held_out)
        made[f"mean_{after}"] = judge.scores(readouts.mean(rows), held_out)
        made[f"learned_{after}"] = judge.scores(readouts.learned_by_layers(judge, rows, first, plan["layers"], seed), other)
        made[f"short_{after}"] = judge.scores(readouts.last(runs[f"short_{after}"]), held_out)
    return made


def run_replicate(plan: dict[str, Any], replicate: int, options: argparse.Namespace) -> list[Row]:
    """All of it, into output/replicate_<n>; a row for each arm, with the scores of the configurations in the plan's order."""
    torch.set_num_threads(options.threads)
    common = {**plan["stage1"], "data": options.data, "threads": options.threads, "seed": replicate, "test_samples": 64}
    predicted: list[dict[str, Scores]] = []
    true: list[Scores] = []
    machine: Row = {}
    for name, settings in plan["configurations"].items():
        runs = run_configuration(plan, options.output / f"replicate_{replicate}" / name, {**common, **settings}, options.dimred)
        machine = replicates.machine_of(runs["constant"])
        test = readouts.read_samples(options.data, "t10k", runs["constant"])
        held_out = readouts.read_held_out(options.data, runs["constant"], common["train_samples"], plan["held_out"])
        judge = Judge(common.get("model", "convnet"), test)
        true.append(judge.scores(readouts.last(runs["annealed"]), test))
        predicted.append(predictions(plan, runs, judge, held_out, replicate))
    made = []
    for arm in predicted[0]:
        way, _, after = arm.partition("_")
        scores = [of[arm] for of in predicted]
        made.append({"kind": arm, **judged(scores, true), "cost": cost(plan, way, int(after or max(plan["decide_after"]))),
                     "predicted": scores, "true": true, "machine": machine})  # fmt: skip
    return made


def report(rows: Sequence[Row]) -> str:
    """Means of the arms, the mean and the learned tail against last weights and a short annealing at the same epochs, and the stop rule."""
    arms = list(dict.fromkeys(row["kind"] for row in rows))
    whole = replicates.whole_replicates(rows, arms)
    epochs = [int(arm.removeprefix("mean_")) for arm in arms if arm.startswith("mean_")]
    ordered = ["annealed", *(f"{way}_{after}" for after in epochs for way in WAYS)]
    shown = [*METRICS, Metric("cost", "cost")]
    lines = [
        [arm, *(replicates.mean_and_sd([metric.of(found[arm]) for found in whole], metric.digits) for metric in shown)] for arm in ordered
    ]
    pairs = [(f"{way}_{after}", f"{rival}_{after}") for after in epochs for way, rival in
             (("mean", "last"), ("mean", "short"), ("learned", "last"), ("learned", "short"))]  # fmt: skip
    correlation = dict(zip(pairs, replicates.paired(whole, pairs, METRICS[0]), strict=True))
    better = []
    for after in epochs:
        d, p = correlation[f"mean_{after}", f"last_{after}"]
        if d.mean > 0 and p < ALPHA:
            better.append(str(after))
    verdict = f"the mean ranks better than the last weights after {' and '.join(better)} epochs" if better else "the mean is of no use"
    return "\n\n".join([
        f"{len(whole)} replicate{'s' if len(whole) > 1 else ''}",
        text_table(["arm", *(metric.title for metric in shown)], lines),
        *(replicates.pairs_table(whole, pairs, metric) for metric in METRICS),
        f"Stop rule, p < {ALPHA} after Holm: {verdict}",
    ])  # fmt: skip


METRICS = (Metric("loss_correlation", "correlation of loss"), Metric("accuracy_correlation", "correlation of accuracy"),
           Metric("lost_accuracy", "points lost"), Metric("loss_error", "error of loss"))  # fmt: skip
EXPERIMENT = replicates.Experiment(arms=(), metrics=METRICS, read_plan=read_plan, run=run_replicate, report=report)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 with one line of what failed, 2 for a bad plan."""
    parser = replicates.parser(__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=FASHION_MNIST, help="folder of the IDX files")
    return replicates.main(EXPERIMENT, parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
