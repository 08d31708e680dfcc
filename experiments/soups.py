"""Soups of random fine-tunes of one pretrained network, against their best rivals, over replicates of the whole pipeline.

    python experiments/soups.py experiments/soups/resnet20_fashion.toml --output runs/soups --base data=cifar10_grey
    python experiments/soups.py experiments/soups/convnet_fashion.toml --output runs/soups --replicates 1 2 3

A replicate pretrains, draws its members' options, tunes them, runs `dimred soup`, and anneals the best member for the passes that learning
took. Stopped and started again it goes on where it was; `--rows FILE` keeps a line for each arm of a finished replicate, which is not run
again. Prints a table over replicates: each arm against the rival that validation chooses, paired by replicate, Holm-corrected.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import statistics
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dimred.runs import holm, paired_difference, read_runs
from workbench.files import write_whole
from workbench.jobs import DIMRED, CommandFailed, execute, pairs, train
from workbench.text_table import text_table

RIVALS = (
    "best",
    "mean",
    "greedy",
    "stock",
    "annealed",
)  # arms that learn no coefficient
ARMS = (*RIVALS, "learned", "learned_layers")
TABLES = {"title", "question", "members", "base", "member", "draw", "soup", "annealed"}


class PlanError(ValueError):
    """A plan that cannot be run."""


def read_plan(file: Path) -> dict[str, Any]:
    """The plan, checked. Raises PlanError."""
    plan = tomllib.loads(file.read_text())
    if unknown := sorted(set(plan) - TABLES):
        raise PlanError(f"{file}: unknown key {unknown[0]}; there are {', '.join(sorted(TABLES))}")
    if missing := sorted(TABLES - set(plan)):
        raise PlanError(f"{file}: needs {missing[0]}")
    if plan["members"] < 2:
        raise PlanError(f"{file}: members needs 2 or more, received {plan['members']}")
    for name, choices in plan["draw"].items():
        if not isinstance(choices, list) or not choices:
            raise PlanError(f"{file}: draw.{name} needs a list of choices, received {choices!r}")
    for name in ("validation_fraction", "split_seed"):
        if name not in plan["member"]:
            raise PlanError(f"{file}: member needs {name}: all members hold the same samples out")
    return plan


def drawn(plan: dict[str, Any], replicate: int, member: int) -> dict[str, Any]:
    """The options of a member: a pure function of the plan and of these numbers."""
    stream = random.Random(f"{replicate}/{member}")
    choices = {name: stream.choice(values) for name, values in plan["draw"].items()}
    return {**plan["member"], **choices, "seed": 1000 * replicate + member}


def run_replicate(plan: dict[str, Any], replicate: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """All of it, into output/replicate_<n>; a row for each arm."""
    folder = options.output.resolve() / f"replicate_{replicate}"  # paths are part of a run's configuration
    base, binary = folder / "base", options.dimred
    threads = {"threads": options.threads}
    train(
        binary,
        "stage1",
        base,
        {**plan["base"], **pairs(options.base), **threads, "seed": replicate},
    )
    members = [folder / f"member_{i:02}" for i in range(plan["members"])]
    for i, member in enumerate(members):
        train(
            binary,
            "stage1",
            member,
            {**drawn(plan, replicate, i), **threads, "initialize_from": base},
        )
    table = folder / "soup" / "soups.csv"
    if not table.is_file():
        listed = folder / "members.txt"
        listed.write_text("".join(f"{newest_snapshot(member)}\n" for member in members))
        anchor = {"anchor": newest_snapshot(base)} if "stock" in plan["soup"]["kinds"].split(",") else {}
        soup = {
            **plan["soup"],
            **anchor,
            **threads,
            "output": table.parent,
            "overwrite": "true",
            "quiet": "true",
        }
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
    rows.append(annealed_row(folder / "annealed"))
    machine = json.loads((base / "manifest.json").read_text())
    kept = {key: machine.get(key) for key in ("processor", "device", "threads", "precision", "revision")}
    return [{"replicate": replicate, **row, "machine": kept} for row in rows]


def newest_snapshot(run: Path) -> Path:
    """The last weights of a run."""
    return max((run / "snapshots").glob("*.h5"))


def soup_rows(table: Path) -> list[dict[str, Any]]:
    """The rows of soups.csv as numbers."""
    with table.open() as file:
        return [{key: value if key == "kind" else float(value) for key, value in row.items()} for row in csv.DictReader(file)]


def annealed_row(run: Path) -> dict[str, Any]:
    """The last row of a run's curve in soups.csv's words."""
    [found] = read_runs([run])
    result, costs = found.result(), found.costs()
    names = ("validation_loss", "validation_accuracy", "test_loss", "test_accuracy")
    return {"kind": "annealed", "members": 1.0, **{name: float(result[name]) for name in names},
            "seconds": costs["seconds"], "images": costs["images"]}  # fmt: skip


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Arms over the replicates that have all of them."""
    arms = [arm for arm in ARMS if any(row["kind"] == arm for row in rows)]
    by_replicate: dict[int, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_replicate.setdefault(row["replicate"], {})[row["kind"]] = row
    whole = [found for _, found in sorted(by_replicate.items()) if len(found) == len(arms)]
    if not whole:
        return "no replicate is finished"

    def column(arm: str, name: str) -> list[float]:
        return [100 * found[arm][name] if name.endswith("accuracy") else found[arm][name] for found in whole]

    rivals = [arm for arm in arms if arm in RIVALS]
    rival = max(rivals, key=lambda arm: statistics.fmean(column(arm, "validation_accuracy")))
    differences = {arm: paired_difference(column(arm, "test_accuracy"), column(rival, "test_accuracy")) for arm in arms if arm != rival}
    corrected = dict(zip(differences, holm([d.p for d in differences.values()]), strict=True))
    lines = []
    for arm in arms:
        loss, accuracy = column(arm, "test_loss"), column(arm, "test_accuracy")
        spread = f" ± {statistics.stdev(accuracy):.2f}" if len(whole) > 1 else ""
        cells = [arm, f"{statistics.fmean(column(arm, 'validation_accuracy')):.2f}", f"{statistics.fmean(accuracy):.2f}{spread}",
                 f"{statistics.fmean(loss):.4f}"]  # fmt: skip
        if arm == rival:
            lines.append([*cells, "the best rival", "", "", ""])
            continue
        d = differences[arm]
        lines.append(
            [
                *cells,
                f"{d.mean:+.2f}",
                f"{d.low:+.2f} to {d.high:+.2f}",
                f"{d.p:.3f}",
                f"{corrected[arm]:.3f}",
            ]
        )
    header = [
        "arm",
        "validation %",
        "test %",
        "test loss",
        "difference",
        "95 % interval",
        "p",
        "p (Holm)",
    ]
    return f"{len(whole)} replicate{'s' if len(whole) > 1 else ''}\n" + text_table(header, lines)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--replicates", type=int, nargs="+", default=list(range(1, 11)))
    parser.add_argument(
        "--base",
        nargs="*",
        action="extend",
        default=[],
        metavar="OPTION=VALUE",
        help="further options of the pretraining",
    )
    parser.add_argument("--rows", type=Path, help="keep the rows of finished replicates in this file")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dimred", type=Path, default=DIMRED)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 with one line of what failed, 2 for a bad plan."""
    options = parse(arguments)
    try:
        plan = read_plan(options.plan)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    file = options.rows or options.output / "rows.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    try:
        for replicate in options.replicates:
            if any(row["replicate"] == replicate for row in rows):
                continue
            rows += run_replicate(plan, replicate, options)
            file.parent.mkdir(parents=True, exist_ok=True)
            text = "".join(json.dumps(row) + "\n" for row in rows)
            write_whole(file, lambda path, text=text: path.write_text(text))
            print(f"replicate {replicate} is finished", flush=True)
    except (CommandFailed, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{plan['title']}\n{plan['question']}\n\n{table(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
