"""Training on attacked images: tail means and subspaces against training on in all weights, over replicates of the whole pipeline.

    python experiments/adversarial.py experiments/adversarial/convnet_fashion.toml --output runs/adversarial

A replicate trains stage 1, then each arm from its last weights or from the mean of its tail. Every arm is stopped at the weights that
withstand the attack best on held-out images, and these are judged by a stronger attack on the test set. Stopped and started again it goes
on where it was; `--rows FILE` keeps a line for each arm of a finished replicate, which is not run again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dimred.runs import read_runs
from workbench import replicates
from workbench.evaluation import Evaluation
from workbench.jobs import train
from workbench.replicates import Metric, PlanError

NO_PASS = ("last", "stopped", "tail")  # arms that need stage 1 alone
TRAINED = ("full", "full_tail", "psgd", "psgd_tail", "random", "random_tail", "robust", "robust_tail")


def read_plan(file: Path) -> dict[str, Any]:
    """The plan, checked. Raises PlanError."""
    plan = replicates.read_tables(file, {"title", "question", "windows", "stage1", "stage2", "arms", "stop", "judge"})
    replicates.needs_one_split(file, plan["stage1"], "stage1")
    for table, name in (("stage1", "epochs"), ("stage1", "snapshots_per_epoch"), ("stage1", "epsilon"), ("stage2", "epochs")):
        if name not in plan[table]:
            raise PlanError(f"{file}: {table} needs {name}")
    for name, arm in plan["arms"].items():
        if name not in TRAINED:
            raise PlanError(f"{file}: unknown arm {name}; there are {', '.join(TRAINED)}")
        if arm.get("from") not in ("last", "tail"):
            raise PlanError(f"{file}: arms.{name}.from needs last or tail, received {arm.get('from')!r}")
    most = plan["stage1"]["epochs"] * plan["stage1"]["snapshots_per_epoch"]
    if not plan["windows"] or any(not 2 <= window <= most for window in plan["windows"]):
        raise PlanError(f"{file}: windows needs numbers of snapshots from 2 to {most}, received {plan['windows']}")
    return plan


def best_of(attack: Evaluation, candidates: Mapping[str, Sequence[Path]]) -> str:
    """The name of the weights that withstand the attack best on held-out images; the first of several."""
    return max(candidates, key=lambda name: attack.scores(name, candidates[name])["validation_attacked_accuracy"])


def run_replicate(plan: dict[str, Any], replicate: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """All of it, into output/replicate_<n>; a row for each arm."""
    folder, binary, threads = options.output / f"replicate_{replicate}", options.dimred, {"threads": options.threads}
    one = folder / "stage1"
    train(binary, "stage1", one, {**plan["stage1"], **threads, "seed": replicate})
    split = {key: plan["stage1"][key] for key in ("validation_fraction", "split_seed", "train_samples", "epsilon") if key in plan["stage1"]}
    common = {**split, **threads, "seed": 1}  # attacks the same images in every replicate
    stop = Evaluation(binary, folder / "stop", {**common, "test_samples": 64, **plan["stop"]})
    judge = Evaluation(binary, folder / "judge", {**common, **plan["judge"]})
    snapshots = sorted((one / "snapshots").glob("*.h5"))
    epochs = snapshots[plan["stage1"]["snapshots_per_epoch"] - 1 :: plan["stage1"]["snapshots_per_epoch"]]
    tails = {f"tail_{window}": snapshots[-window:] for window in plan["windows"]}
    arms = {  # the run that made its weights, and the weights to choose from
        "last": (one, {"last": snapshots[-1:]}),
        "stopped": (one, {f"epoch_{i}": [file] for i, file in enumerate(epochs, 1)}),
        "tail": (one, tails),
    }
    window = len(tails[best_of(stop, tails)])
    for name, arm in plan["arms"].items():
        start = {"start": "last"} if arm["from"] == "last" else {"start": "mean", "start_latest": window}
        settings = {key: value for key, value in arm.items() if key != "from"}
        two = folder / name
        kept = {"keep_checkpoints": plan["stage2"]["epochs"] + 1}
        train(binary, "stage2", two, {**plan["stage2"], **settings, **start, **threads, **kept, "checkpoint": one, "seed": replicate})
        states = sorted((two / "checkpoints").glob("state_*"))
        arms[name] = (two, {f"{name}_{state.name}": [state] for state in states if int(state.name.removeprefix("state_"))})
    machine, rows = replicates.machine_of(one), []
    for name, (run, candidates) in arms.items():
        best = best_of(stop, candidates)
        scores = judge.scores(best, candidates[best])
        held_out = stop.scores(best, candidates[best])["validation_attacked_accuracy"]
        [found] = read_runs([run])
        costs = found.costs()
        rows.append({"kind": name, "weights": best, **scores, "stop_accuracy": held_out, "seconds": costs["seconds"],
                     "images": costs["images"], "candidates": len(candidates), "machine": machine})  # fmt: skip
    return rows


EXPERIMENT = replicates.Experiment(
    arms=(*NO_PASS, *TRAINED),
    rivals=(*NO_PASS, "full", "full_tail"),
    chosen_by=Metric("stop_accuracy", "held out, PGD %"),
    metrics=(Metric("test_attacked_accuracy", "test, PGD %"), Metric("test_accuracy", "test %"), Metric("test_loss", "test loss")),
    read_plan=read_plan,
    run=run_replicate,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 with one line of what failed, 2 for a bad plan."""
    return replicates.main(EXPERIMENT, replicates.parser(__doc__.splitlines()[0]).parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
