"""experiments/adversarial.py: plans, and the weights that an arm is stopped at."""

from __future__ import annotations

import json
from pathlib import Path

import adversarial
import pytest
from conftest import REPOSITORY

PLANS = sorted((REPOSITORY / "experiments" / "adversarial").glob("*.toml"))


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem)
def test_the_plans_are_whole(plan: Path) -> None:
    assert set(adversarial.read_plan(plan)["arms"]) >= {"full", "psgd"}


@pytest.mark.parametrize(("before", "after", "rule"), [
    ("[arms.psgd]", "[arms.own]", "unknown arm own"),
    ('from = "last"', 'from = "first"', "arms.full.from needs last or tail, received 'first'"),
    ("windows = [8, 16, 32]", "windows = [1]", "windows needs numbers of snapshots from 2 to 48, received [1]"),
    ("split_seed = 1\n", "", "stage1 needs split_seed"),
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
        (tmp_path / f"{name}.json").write_text(json.dumps(scores))
    attack = adversarial.Attack(Path("none"), tmp_path, {})
    assert adversarial.best_of(attack, {name: [] for name in ("one", "two", "three")}) == "two"
