"""experiments/decision.py: ranks, regret and cost by hand, plans, and a whole small replicate."""

from __future__ import annotations

import json
from pathlib import Path

import decision
import pytest
from conftest import REPOSITORY
from fashion import few

PLANS = sorted((REPOSITORY / "experiments" / "decision").glob("*.toml"))

TINY = """title = "tiny"
question = "Does it run?"
held_out = 100
decide_after = [2]
short_epochs = 1
annealed_epochs = 2
window = 4
[stage1]
train_samples = 160
batch_size = 64
snapshots_per_epoch = 2
[layers]
epochs = 2
batch_size = 25
learning_rate = 0.002
[configurations]
slow = { learning_rate = 0.01 }
small = { learning_rate = 0.02, batch_size = 32 }
"""


def test_predictions_are_judged_by_ranks_and_by_what_is_lost() -> None:
    """Spearman's correlation of n ranks without ties is 1 - 6 sum d^2 / (n (n^2 - 1))."""
    true = [(0.3, 0.90), (0.4, 0.88), (0.5, 0.86), (0.6, 0.84)]
    assert decision.judged(true, true) == {"loss_correlation": 1, "accuracy_correlation": 1, "lost_accuracy": 0, "loss_error": 0}
    found = decision.judged([(0.5, 0.80), (0.3, 0.82), (0.6, 0.84), (0.7, 0.86)], true)
    assert found["loss_correlation"] == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert found["accuracy_correlation"] == pytest.approx(-1)
    assert found["lost_accuracy"] == pytest.approx(0.02)  # the second is taken
    assert found["loss_error"] == pytest.approx((0.2 + 0.1 + 0.1 + 0.1) / 4)
    # Equal predictions have the mean of their ranks: 1, 2.5, 2.5 and 4 against 1, 2, 3 and 4.
    tied = decision.judged([(0.1, 0.5), (0.2, 0.4), (0.2, 0.3), (0.3, 0.2)], true)["loss_correlation"]
    assert tied == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


def test_the_cost_is_a_part_of_annealing_all() -> None:
    plan = decision.read_plan(PLANS[0])
    costs = {way: decision.cost(plan, way, 4) for way in decision.WAYS}
    assert costs == pytest.approx({"last": 4 / 14, "mean": 4 / 14, "learned": (4 + 0.8) / 14, "short": 5 / 14})
    assert decision.cost(plan, "annealed", 10) == 1


def test_a_replicate_predicts_in_every_way_and_goes_on_from_its_rows(
    tmp_path: Path, binaries: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, rows = tmp_path / "tiny.toml", tmp_path / "rows.jsonl"
    plan.write_text(TINY)
    common = [
        str(plan),
        "--replicates",
        "1",
        "--threads=1",
        "--rows",
        str(rows),
        "--data",
        str(few()),
        "--dimred",
        str(binaries / "dimred"),
    ]
    assert decision.main([*common, "--output", str(tmp_path / "here")]) == 0
    made = {row["kind"]: row for row in map(json.loads, rows.read_text().splitlines())}
    assert set(made) == {"annealed", "last_2", "mean_2", "learned_2", "short_2"}
    assert all(len(row["predicted"]) == len(row["true"]) == 2 for row in made.values())
    assert (
        made["annealed"]["loss_correlation"] == decision.judged(made["annealed"]["predicted"], made["annealed"]["true"])["loss_correlation"]
    )
    assert made["last_2"]["predicted"] != made["short_2"]["predicted"] != made["annealed"]["predicted"]
    small = tmp_path / "here" / "replicate_1" / "small"
    assert "resume_from" in (small / "short_2" / "config.toml").read_text()
    assert [len(list((small / run / "snapshots").iterdir())) for run in ("constant", "short_2", "annealed")] == [4, 2, 4]
    first = capsys.readouterr().out
    assert decision.main([*common, "--output", str(tmp_path / "elsewhere")]) == 0
    assert first.endswith(capsys.readouterr().out) and not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem)
def test_the_plans_are_whole(plan: Path) -> None:
    assert len(decision.read_plan(plan)["configurations"]) == 8


@pytest.mark.parametrize(("before", "after", "rule"), [
    ("held_out = 100", "held_out = 0", "held_out needs a number above 0, received 0"),
    ("snapshots_per_epoch = 2\n", "", "stage1 needs snapshots_per_epoch"),
    ("decide_after = [2]", "decide_after = [1, 2]", "decide_after needs epochs with the window's 4 snapshots, received [1, 2]"),
    ("slow = { learning_rate = 0.01 }\n", "", "configurations needs 2 or more, received 1"),
    ("slow = { learning_rate = 0.01 }", "slow = { pad = 2 }", "configurations.slow needs learning_rate"),
    ("[layers]", "[own]", "unknown key own"),
])  # fmt: skip
def test_a_plan_that_cannot_run_is_refused(before: str, after: str, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert before in TINY
    plan = tmp_path / "plan.toml"
    plan.write_text(TINY.replace(before, after, 1))
    assert decision.main([str(plan), "--output", str(tmp_path / "out")]) == 2
    assert rule in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.parametrize(("gain", "verdict"), [(0.3, "after 4 epochs"), (-0.3, "the mean is of no use"), (0.0, "the mean is of no use")])
def test_the_mean_must_rank_better_than_the_last_weights(gain: float, verdict: str) -> None:
    rows = [{"replicate": replicate, "kind": arm, **dict.fromkeys((metric.name for metric in decision.METRICS), 0.5), "cost": 0.3,
             "loss_correlation": 0.5 + (gain if arm == "mean_4" else 0) + 0.01 * replicate * (arm == "last_4")}
            for replicate in range(6) for arm in ("annealed", "last_4", "mean_4", "learned_4", "short_4")]  # fmt: skip
    assert verdict in decision.report(rows)
