"""experiments/compare.py: options that have no effect beside others are left out or refused."""

from __future__ import annotations

import re
from pathlib import Path

import compare
from comparison.idle import METHODS, OPTIMIZERS, SCHEDULES, idle
from comparison.jobs import continued
from fake_comparison import SHORT, arguments, calls, results

pytest_plugins = ["fake_comparison"]


def test_a_continued_start_leaves_out_what_has_no_effect_any_more() -> None:
    start = {"epochs": 2, "snapshots_per_epoch": 4, "snapshot_from_epoch": 1, "learning_rate": 0.1, "seed": 3,
             "end_learning_rate": 0.01, "momentum": 0.5, "milestones": [1]}  # fmt: skip
    assert continued(start | {"schedule": "step"}, {"epochs": "+1"}) == {
        "epochs": 3, "snapshots_per_epoch": 0, "learning_rate": 0.1, "momentum": 0.5, "milestones": [1], "schedule": "step"}  # fmt: skip
    assert set(continued(start, {"schedule": "constant", "budget": 1})) == {
        "epochs", "snapshots_per_epoch", "learning_rate", "momentum", "schedule"}  # fmt: skip
    piecewise = continued(start, {"schedule": "piecewise", "pieces": "3:.1", "optimizer": "adam"})
    assert set(piecewise) == {"epochs", "snapshots_per_epoch", "schedule", "pieces", "optimizer"}
    assert "learning_rate" in continued(start | {"warmup_epochs": 1}, {"schedule": "piecewise"})
    assert continued(start, {"snapshots_per_epoch": 2})["snapshot_from_epoch"] == 1


def test_dimred_refuses_what_is_known_to_have_no_effect(fails, tmp_path: Path) -> None:
    values = {"milestones": "1", "milestone_unit": "steps", "pieces": "1:.1", "decay_scheme": "luong5", "trials": "3",
              "curvature": "same", "alpha_schedule": "linear", "schedule": "linear", "ftrl_learning_rate_power": "-.3",
              "weight_decay_of": "all"}  # fmt: skip
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"")
    stage2 = (f"--checkpoint={weights}", "--model=lenet")
    for table, command, words, preset in ((SCHEDULES, "stage1", ["--schedule=constant"], {"schedule": "constant"}),
                                          (OPTIMIZERS, "stage1", ["--optimizer=sgd"], {"optimizer": "sgd"}),
                                          (METHODS, "stage2", [*stage2, "--preset=ema"], {"preset": "ema"}),
                                          (["first_drop"], "stage2", [*stage2, "--preset=sgd"], {"preset": "sgd"}),
                                          (["weight_decay_of"], "stage2", [*stage2, "--preset=psgd"], {"preset": "psgd"}),
                                          (METHODS, "stage2", stage2, {})):  # fmt: skip
        idle_here = set(table) & idle(command, preset)
        assert idle_here
        for option in idle_here:
            said = fails(2, command, *words, f"--{option}={values.get(option, '.3')}", "--output", tmp_path / "run")
            assert re.search("has no effect|with no other|decay_scheme needs", said), (option, said)


def test_an_axis_is_left_out_where_a_method_has_no_use_for_it(fake: Path, capsys) -> None:
    sgd = '[methods.sgd]\nrole = "control"\npreset = ["sgd", "psgd"]\n'
    config = SHORT + sgd + "[axes.methods]\nalpha = [0.1, 0.2]\n"
    (fake / "comparison.toml").write_text(config)
    assert compare.main(arguments(fake)) == 0
    made = [line for line in calls(fake) if line.startswith("stage2") and "--seed=1 " in line]
    assert len([line for line in made if "--preset=sgd" in line]) == 1
    assert not any("--preset=sgd" in line and "--alpha" in line for line in made)
    assert len([line for line in made if "--preset=psgd" in line and "--alpha" in line]) == 2
    assert len(made) == 2 + 1 + 2
    table = results(fake).query("seed == 1 and method == 'sgd'")
    assert table.set_index("variant")["methods.alpha"].isna().to_dict() == {"preset=sgd": True, "preset=psgd": False}
    (fake / "comparison.toml").write_text(config.replace('["sgd", "psgd"]', '"sgd"').replace('[methods.robust]', '[methods.robust]\npreset = "swa"'))
    assert compare.main(arguments(fake)) == 2
    assert "axes.methods.alpha: changes nothing: no method has a use for it" in capsys.readouterr().err
