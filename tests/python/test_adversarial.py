"""experiments/adversarial.py: plans, and the weights that an arm is stopped at."""

from __future__ import annotations

import json
from pathlib import Path

import adversarial
import pytest
from conftest import REPOSITORY
from workbench.evaluation import Evaluation

PLANS = sorted((REPOSITORY / "experiments" / "adversarial").glob("*.toml"))


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem)
def test_the_plans_are_whole(plan: Path) -> None:
    assert set(adversarial.read_plan(plan)["arms"]) >= {"full", "psgd"}


@pytest.mark.parametrize(("before", "after", "rule"), [
    ("[arms.psgd]", "[arms.own]", "unknown arm own"),
    ('from = "last"', 'from = "first"', "arms.full.from needs last or tail, received 'first'"),
    ("windows = [8, 16, 32]", "windows = [1]", "windows needs numbers of snapshots from 2 to 48, received [1]"),
    ("split_seed = 1\n", "", "stage1 needs split_seed"),
    ("validation_fraction = 0.1", "validation_fraction = 0", "stage1.validation_fraction needs a number above 0, received 0"),
    ("epsilon = 0.25\n", "", "stage1 needs epsilon"),
    ("[judge]", "[judged]", "unknown key judged"),
])  # fmt: skip
def test_a_plan_that_cannot_run_is_refused(before: str, after: str, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PLANS[0].read_text()
    assert before in text
    plan = tmp_path / "plan.toml"
    plan.write_text(text.replace(before, after, 1))
    assert adversarial.main([str(plan), "--output", str(tmp_path / "out")]) == 2
    assert rule in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_an_arm_stops_where_held_out_images_withstand_most(tmp_path: Path) -> None:
    for name, held_out, test in (("one", 0.3, 0.9), ("two", 0.5, 0.1), ("three", 0.5, 0.8)):
        scores = {"validation_attacked_accuracy": held_out, "test_attacked_accuracy": test}
        (tmp_path / f"{name}.json").write_text(json.dumps({"options": {}, "scores": scores}))
    attack = Evaluation(Path("none"), tmp_path, {})
    assert adversarial.best_of(attack, {name: [] for name in ("one", "two", "three")}) == "two"


TINY = """title = "tiny"
question = "Does it run?"
windows = [2, 4]
[stage1]
train_samples = 400
validation_fraction = 0.25
split_seed = 1
epochs = 2
test_samples = 50
snapshots_per_epoch = 3
attack = "fgsm"
epsilon = 0.1
[stage2]
epochs = 2
n_component = 2
[arms.psgd_tail]
preset = "psgd"
learning_rate = 0.02
from = "tail"
[stop]
attack = "pgd"
attack_steps = 1
attack_samples = 20
[judge]
test_samples = 50
attack = "pgd"
attack_steps = 3
attack_samples = 20
"""


def test_a_replicate_is_stopped_judged_and_goes_on_from_its_rows(
    tmp_path: Path, binaries: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, rows = tmp_path / "tiny.toml", tmp_path / "rows.jsonl"
    plan.write_text(TINY)
    common = [str(plan), "--replicates", "1", "--threads=1", "--rows", str(rows), "--dimred", str(binaries / "dimred")]
    assert adversarial.main([*common, "--output", str(tmp_path / "here")]) == 0
    made = {row["kind"]: row for row in map(json.loads, rows.read_text().splitlines())}
    assert {kind: row["candidates"] for kind, row in made.items()} == {"last": 1, "stopped": 2, "tail": 2, "psgd_tail": 2}
    replicate = tmp_path / "here" / "replicate_1"
    for kind, row in made.items():
        chosen = json.loads((replicate / "stop" / f"{row['weights']}.json").read_text())["scores"]
        assert row["stop_accuracy"] == chosen["validation_attacked_accuracy"]
        judged = (replicate / "judge" / f"{row['weights']}.log").read_text()
        assert "--attack_steps=3" in judged and f"accuracy {100 * row['test_attacked_accuracy']:.2f} %" in judged, kind
    window = made["tail"]["weights"].removeprefix("tail_")
    assert f"start_latest = {window}\n" in (replicate / "psgd_tail" / "config.toml").read_text()
    first = capsys.readouterr().out
    assert adversarial.main([*common, "--output", str(tmp_path / "elsewhere")]) == 0
    assert first.endswith(capsys.readouterr().out) and not (tmp_path / "elsewhere").exists()
