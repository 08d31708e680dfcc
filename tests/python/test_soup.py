"""dimred soup on small runs, and experiments/soups.py: what they write, and what they refuse."""

from __future__ import annotations

import csv
import json
import math
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import adversarial
import decision
import h5py
import numpy as np
import pytest
import soups
import tail
import transfer
from conftest import REPOSITORY
from dimred.runs import smallest_effect
from workbench import replicates

SMALL = [
    "--train_samples=800",
    "--test_samples=300",
    "--validation_fraction=0.25",
    "--threads=1",
    "--quiet",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory, execute: Callable[..., str]) -> Path:
    """base, and three runs that begin with its weights."""
    folder = tmp_path_factory.mktemp("soup")
    execute(
        "dimred",
        "stage1",
        *SMALL,
        "--split_seed=3",
        "--epochs=2",
        "--output",
        folder / "base",
    )
    for seed in (1, 2, 3):
        execute("dimred", "stage1", *SMALL, "--split_seed=3", "--epochs=1", f"--seed={seed}", f"--learning_rate=0.0{seed}",
                f"--label_smoothing={0.1 if seed == 1 else 0}", "--initialize_from",
                folder / "base", "--output", folder / f"member{seed}")  # fmt: skip
    return folder


def test_every_kind_is_written_with_its_scores(runs: Path, execute: Callable[..., str]) -> None:
    members = sorted(runs.glob("member*"))
    anchor = max((runs / "base" / "snapshots").iterdir())
    kinds = ["best", "mean", "greedy", "stock", "learned", "learned_layers"]
    said = execute(
        "dimred",
        "soup",
        *members,
        "--kinds",
        ",".join(kinds),
        "--anchor",
        anchor,
        "--steps=5",
        "--output",
        runs / "out",
    )
    assert "3 members of 93322 weights, 200 samples held out" in said
    with (runs / "out" / "soups.csv").open() as file:
        rows = {row["kind"]: row for row in csv.DictReader(file)}
    assert list(rows) == kinds
    assert float(rows["learned"]["validation_loss"]) < float(rows["mean"]["validation_loss"])
    assert float(rows["greedy"]["validation_accuracy"]) >= float(rows["best"]["validation_accuracy"])
    assert rows["mean"]["forward_images"] == "0" and rows["best"]["forward_images"] == "600"
    assert int(rows["learned"]["backward_images"]) == 200 * int(rows["learned"]["steps"])

    # The loss is the plain one, whatever the member that is named first was smoothed by.
    execute("dimred", "soup", *reversed(members), "--kinds=mean", "--output", runs / "reversed")
    with (runs / "reversed" / "soups.csv").open() as file:
        [mean] = csv.DictReader(file)
    assert float(mean["test_loss"]) == pytest.approx(float(rows["mean"]["test_loss"]), rel=1e-5)
    said = execute("dimred", "evaluate", runs / "out" / "mean.h5", "--threads=1")
    assert f"loss {float(mean['test_loss']):.4f}  accuracy" in said

    weights = {}
    for name in ("mean", "learned"):
        with h5py.File(runs / "out" / f"{name}.h5") as file:
            weights[name] = file["weights"][:].astype(np.float64)
    snapshots = []
    for member in members:
        with h5py.File(max((member / "snapshots").iterdir())) as file:
            snapshots.append(file["weights"][:].astype(np.float64))
    np.testing.assert_allclose(weights["mean"], np.mean(snapshots, axis=0), atol=1e-7)
    record = json.loads((runs / "out" / "coefficients.json").read_text())["learned"]
    assert [Path(name).parts[-3] for name in record["members"]] == [member.name for member in members]
    np.testing.assert_allclose(
        weights["learned"],
        record["blocks"][0]["coefficients"] @ np.array(snapshots),
        atol=1e-6,
    )

    # What it leaves stands alone: the weights say their network and data.
    moved = shutil.copy(runs / "out" / "learned.h5", runs / "elsewhere.h5")
    assert f"loss {float(rows['learned']['test_loss']):.4f}" in execute("dimred", "evaluate", moved)


def test_what_cannot_be_chosen_honestly_is_refused(runs: Path, execute: Callable[..., str], fails: Callable[..., str]) -> None:
    members = sorted(runs.glob("member*"))
    out = ["--output", runs / "refused"]
    assert "received 1" in fails(2, "soup", members[0], *out)
    assert "twice" in fails(2, "soup", members[0], members[0], *out)
    assert "--anchor FILE" in fails(2, "soup", *members, "--kinds=stock", *out)
    assert "did you mean learned?" in fails(2, "soup", *members, "--kinds=lerned", *out)
    assert "needs --output" in fails(2, "soup", *members)
    for command in (["soup", *members, *out], ["evaluate", members[0]]):
        assert "--label_smoothing: unknown option" in fails(2, *command, "--label_smoothing=0.1")
    assert "needs --validation_fraction" in fails(2, "soup", *members, "--validation_fraction=0", *out)
    execute(
        "dimred",
        "stage1",
        *SMALL,
        "--split_seed=4",
        "--epochs=1",
        "--output",
        runs / "other_split",
    )
    line = fails(2, "soup", *members, runs / "other_split", *out)
    assert "was trained with split_seed = 4" in line and "other_split" in line
    assert not (runs / "refused").exists()
    execute("dimred", "soup", *members, "--kinds=mean", "--output", runs / "twice")
    assert "--overwrite" in fails(2, "soup", *members, "--kinds=mean", "--output", runs / "twice")


TINY = """
title = "tiny"
question = "Does it run?"
members = 2
[base]
epochs = 1
train_samples = 400
test_samples = 200
[member]
train_samples = 400
test_samples = 200
validation_fraction = 0.25
split_seed = 1
epochs = 1
[draw]
learning_rate = [0.01, 0.02]
[soup]
kinds = "best,mean,learned"
steps = 2
test_samples = 200
[annealed]
preset = "sgd"
"""


def test_an_experiment_goes_on_from_its_rows(tmp_path: Path, binaries: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "tiny.toml"
    plan.write_text(TINY)
    common = [str(plan), "--replicates", "1", "--threads=1", "--rows", str(tmp_path / "rows.jsonl"), "--dimred", str(binaries / "dimred"),
              "--member", "test_samples=100"]  # fmt: skip
    assert soups.main([*common, "--output", str(tmp_path / "here")]) == 0
    rows = {row["kind"]: row for row in map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())}
    assert list(rows) == ["best", "mean", "learned", "annealed"]
    assert all(0 < row["test_tempered_loss"] < 3 and row["temperature"] > 0 for row in rows.values())
    made = tmp_path / "here" / "replicate_1"
    assert "\ntest_samples = 100\n" in (made / "member_00" / "config.toml").read_text()
    assert all("(200 samples)" in (made / "scores" / f"{arm}.log").read_text() for arm in ("learned", "annealed"))
    learned = rows["learned"]
    # The rival may spend what learning took, and a step more.
    assert 0 <= rows["annealed"]["images"] - (learned["forward_images"] + 2 * learned["backward_images"]) / 3 < 2 * 64
    first = capsys.readouterr().out
    assert "replicate 1 is finished" in first and "1 replicate, best rival" in first
    assert soups.main([*common, "--output", str(tmp_path / "elsewhere")]) == 0
    assert first.endswith(capsys.readouterr().out) and not (tmp_path / "elsewhere").exists()


def test_an_option_without_a_value_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "tiny.toml"
    plan.write_text(TINY)
    with pytest.raises(SystemExit, match="2"):
        soups.main([str(plan), "--output", str(tmp_path / "out"), "--member", "test_samples"])
    assert "needs option=value, received 'test_samples'" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_members_are_drawn_by_replicate_and_number_alone() -> None:
    plan = {"member": {"epochs": 1}, "draw": {"learning_rate": [0.1, 0.2, 0.3], "pad": [0, 2]}}
    draws = [soups.drawn(plan, replicate, member) for replicate in (1, 2) for member in range(20)]
    assert draws == [soups.drawn(plan, replicate, member) for replicate in (1, 2) for member in range(20)]
    assert len({draw["seed"] for draw in draws}) == 40
    assert {draw["learning_rate"] for draw in draws} == {0.1, 0.2, 0.3} and {draw["pad"] for draw in draws} == {0, 2}


def test_arms_are_compared_with_the_rival_that_validation_chooses() -> None:
    scores = {"best": (0.80, 0.90), "mean": (0.82, 0.70), "learned": (0.81, 0.75)}  # validation, test
    rows = [{"replicate": r, "kind": kind, "validation_accuracy": v, "test_accuracy": t + 0.001 * r * (kind == "learned"), "test_loss": 1.0}
            for r in (1, 2, 3) for kind, (v, t) in scores.items()]  # fmt: skip
    rows.append({"replicate": 4, "kind": "best"})  # is not finished
    table = replicates.table(rows, soups.EXPERIMENT)
    assert table.startswith("3 replicates, best rival by validation %: mean\n")  # though best is better on the test set
    learned = next(line for line in table.splitlines() if line.startswith("learned"))
    assert "+5.20" in learned and "75.20 ± 0.10" in learned


def test_replicates_that_finish_together_keep_their_rows(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda replicate: replicates.add(file, [{"replicate": replicate, "kind": "best"}]), range(40)))
    assert sorted(row["replicate"] for row in replicates.read_rows(file)) == list(range(40))


@pytest.mark.parametrize(("line", "rule"), [
    ('{"replicate": 1, "kind": "best", "plan": "of another"}', ":1: replicate 1 was made with other settings than the plan's"),
    ('{"replicate": 1, "kind": "be', ":1: needs a replicate's row, received"),
])  # fmt: skip
def test_rows_that_are_not_the_plans_are_refused(line: str, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, rows = tmp_path / "tiny.toml", tmp_path / "rows.jsonl"
    plan.write_text(TINY)
    rows.write_text(line + "\n")
    assert soups.main([str(plan), "--output", str(tmp_path / "out"), "--rows", str(rows)]) == 1
    assert rule in capsys.readouterr().err
    assert rows.read_text() == line + "\n" and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("experiment", "plan_file", "record"),
    [(soups.EXPERIMENT, "soups/convnet_grey.toml", "soups_convnet_grey"),
     (soups.EXPERIMENT, "soups/resnet20_fashion.toml", "soups_resnet20_fashion"),
     (soups.EXPERIMENT, "soups/resnet20_flowers.toml", "soups_resnet20_flowers"),
     (adversarial.EXPERIMENT, "adversarial/convnet_fashion.toml", "adversarial_convnet"),
     (tail.EXPERIMENT, "tail/convnet_fashion.toml", "tail_convnet"),
     (transfer.EXPERIMENT, "transfer/convnet_fashion.toml", "transfer_convnet"),
     (decision.EXPERIMENT, "decision/convnet_fashion.toml", "decision_convnet")],
    ids=["soups", "soups_resnet20", "soups_flowers", "adversarial", "tail", "transfer", "decision"],
)  # fmt: skip
def test_the_recorded_rows_are_those_of_the_plan(experiment: replicates.Experiment, plan_file: str, record: str) -> None:
    experiments = REPOSITORY / "experiments"
    rows = replicates.stored(experiments / "records" / f"{record}_rows.jsonl", experiment.read_plan(experiments / plan_file))
    assert replicates.report(rows, experiment) in (experiments / "records" / f"{record}.md").read_text()


def test_the_smallest_effect_is_that_of_the_tables_of_power() -> None:
    """Cohen's d of a paired test with a power of 0.8 at 0.05 is 0.996 for 10 pairs and 0.778 for 15 (G*Power)."""
    assert smallest_effect(1, 10, alpha=0.05) == pytest.approx(0.996, abs=2e-3)
    assert smallest_effect(2, 15, alpha=0.05) == pytest.approx(2 * 0.778, abs=4e-3)
    assert math.isnan(smallest_effect(1, 1))


@pytest.mark.parametrize(("change", "rule"), [
    ("members = 2|members = 1", "members needs 2 or more, received 1"),
    ("[draw]|[drawn]", "unknown key drawn"),
    ("[annealed]\npreset = \"sgd\"|", "needs annealed"),
    ("[0.01, 0.02]|0.01", "draw.learning_rate needs a list of choices, received 0.01"),
    ("split_seed = 1|", "member needs split_seed"),
])  # fmt: skip
def test_a_plan_that_cannot_run_is_refused(change: str, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = change.split("|")
    assert before in TINY
    plan = tmp_path / "plan.toml"
    plan.write_text(TINY.replace(before, after))
    assert soups.main([str(plan), "--output", str(tmp_path / "out")]) == 2
    assert rule in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("plan", sorted((REPOSITORY / "experiments" / "soups").glob("*.toml")), ids=lambda plan: plan.stem)
def test_the_plans_are_whole(plan: Path) -> None:
    assert soups.read_plan(plan)["members"] >= 12
