"""Soups of random fine-tunes of one pretrained network, against their best rivals, over replicates of the whole pipeline.

    python experiments/soups.py experiments/soups/convnet_grey.toml --output runs/soups --base data=cifar10_grey
    python experiments/soups.py experiments/soups/convnet_grey.toml --output runs/soups --base data=cifar10_grey --replicates 1 2 3

A replicate pretrains, tunes the last layer alone (members whose last layers were drawn apart have no mean), draws its members' options,
tunes them, runs `dimred soup`, and anneals the best member for the passes that learning took. Stopped and started again it goes on where
it was; `--rows FILE` keeps a line for each arm of a finished replicate, which is not run again. Prints each arm against the rival that
validation chooses, paired by replicate, Holm-corrected.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dimred.runs import read_runs
from workbench import replicates
from workbench.evaluation import Evaluation
from workbench.jobs import execute, pair, train
from workbench.replicates import Metric, PlanError

RIVALS = ("best", "mean", "greedy", "stock", "annealed")  # arms that learn no coefficient
TABLES = {"title", "question", "members", "base", "member", "draw", "soup", "annealed"}


def read_plan(file: Path) -> dict[str, Any]:
    """The plan, checked. Raises PlanError."""
    plan = replicates.read_tables(file, TABLES, {"head"})
    if plan["members"] < 2:
        raise PlanError(f"{file}: members needs 2 or more, received {plan['members']}")
    for name, choices in plan["draw"].items():
        if not isinstance(choices, list) or not choices:
            raise PlanError(f"{file}: draw.{name} needs a list of choices, received {choices!r}")
    replicates.needs_one_split(file, plan["member"], "member")
    return plan


def drawn(plan: dict[str, Any], replicate: int, member: int) -> dict[str, Any]:
    """The options of a member: a pure function of the plan and of these numbers."""
    stream = random.Random(f"{replicate}/{member}")
    choices = {name: stream.choice(values) for name, values in plan["draw"].items()}
    return {**plan["member"], **choices, "seed": 1000 * replicate + member}


def run_replicate(plan: dict[str, Any], replicate: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """All of it, into output/replicate_<n>; a row for each arm."""
    folder = options.output / f"replicate_{replicate}"
    binary, threads = options.dimred, {"threads": options.threads}
    base = folder / "base"
    train(binary, "stage1", base, {**plan["base"], **dict(options.base), **threads, "seed": replicate})
    if "head" in plan:
        head = folder / "head"
        train(binary, "stage1", head, {**plan["head"], **dict(options.member), **threads, "seed": replicate, "initialize_from": base})
        base = head
    members = [folder / f"member_{i:02}" for i in range(plan["members"])]
    for i, member in enumerate(members):
        tuned = {**drawn(plan, replicate, i), **dict(options.member), **threads, "initialize_from": base, "snapshot_initial": "true"}
        train(binary, "stage1", member, tuned)
    table = folder / "soup" / "soups.csv"
    if not table.is_file():
        listed = folder / "members.txt"
        listed.write_text("".join(f"{newest_snapshot(member)}\n" for member in members))
        anchor = {"anchor": min((members[0] / "snapshots").glob("*.h5"))} if "stock" in plan["soup"]["kinds"].split(",") else {}
        soup = {**plan["soup"], **anchor, **threads, "output": table.parent, "overwrite": "true", "quiet": "true"}
        execute(binary, "soup", soup, folder / "soup.log", [listed])
    rows = soup_rows(table)
    best = json.loads((table.parent / "coefficients.json").read_text())["best"]
    start = Path(best["members"][best["blocks"][0]["coefficients"].index(1)])
    [first] = read_runs(members[:1])
    images = first.steps_per_epoch * first.manifest["global_batch_size"]  # of an epoch
    learned = next(row for row in rows if row["kind"] == "learned")
    budget = (learned["forward_images"] + 2 * learned["backward_images"]) / 3 / images
    train(binary, "stage2", folder / "annealed",
          {**plan["annealed"], **threads, "checkpoint": start, "budget": budget, "seed": replicate})  # fmt: skip
    judged = {**threads, **{name: value for name, value in plan["soup"].items() if name == "test_samples"}}  # alike for all
    evaluation = Evaluation(binary, folder / "scores", {**judged, "fit_temperature": "true"})
    for row in rows:
        row |= at_temperature(evaluation.scores(row["kind"], [table.with_name(f"{row['kind']}.h5")]))
    rows.append(annealed_row(folder / "annealed", evaluation))
    machine = replicates.machine_of(base)
    return [{**row, "machine": machine} for row in rows]


def newest_snapshot(run: Path) -> Path:
    """The last weights of a run."""
    return max((run / "snapshots").glob("*.h5"))


def soup_rows(table: Path) -> list[dict[str, Any]]:
    """The rows of soups.csv as numbers."""
    with table.open() as file:
        return [{key: value if key == "kind" else float(value) for key, value in row.items()} for row in csv.DictReader(file)]


def at_temperature(scores: dict[str, float]) -> dict[str, float]:
    """The part of scores that soups.csv lacks."""
    return {name: scores[name] for name in ("temperature", "test_tempered_loss")}


def annealed_row(run: Path, evaluation: Evaluation) -> dict[str, Any]:
    """Scores and costs of a run in soups.csv's words."""
    [found] = read_runs([run])
    costs = found.costs()
    scores = evaluation.scores(run.name, [run])
    plain = {name: scores[name] for name in ("validation_loss", "validation_accuracy", "test_loss", "test_accuracy")}
    return {"kind": "annealed", "members": 1.0, **plain, **at_temperature(scores), "seconds": costs["seconds"], "images": costs["images"]}


EXPERIMENT = replicates.Experiment(
    arms=(*RIVALS, "learned", "learned_layers"),
    rivals=RIVALS,
    chosen_by=Metric("validation_accuracy", "validation %"),
    metrics=(Metric("test_accuracy", "test %"), Metric("test_loss", "test loss"),
             Metric("test_tempered_loss", "test loss at a fitted temperature")),  # fmt: skip
    read_plan=read_plan,
    run=run_replicate,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 with one line of what failed, 2 for a bad plan."""
    parser = replicates.parser(__doc__.splitlines()[0])
    further: dict[str, Any] = {"type": pair, "nargs": "*", "action": "extend", "default": [], "metavar": "OPTION=VALUE"}
    parser.add_argument("--base", **further, help="further options of the pretraining")
    parser.add_argument("--member", **further, help="further options of the last layer's training and of the members'")
    return replicates.main(EXPERIMENT, parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
