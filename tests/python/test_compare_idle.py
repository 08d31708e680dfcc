"""experiments/compare.py: options that have no effect beside others are left out or refused."""

from __future__ import annotations

from pathlib import Path

import compare
import pytest
from comparison.jobs import continued
from comparison.options import ConfigError, Tables
from fake_comparison import SHORT, arguments, calls, results

pytest_plugins = ["fake_comparison"]


def test_a_continued_start_leaves_out_what_has_no_effect_any_more(binaries: Path) -> None:
    ask = Tables(binaries / "dimred")
    start = {
        "epochs": 2,
        "snapshots_per_epoch": 4,
        "snapshot_from_epoch": 1,
        "learning_rate": 0.1,
        "seed": 3,
        "end_learning_rate": 0.01,
        "momentum": 0.5,
        "milestones": [1],
    }
    assert continued(ask, start | {"schedule": "step"}, {"epochs": "+1"}) == {
        "epochs": 3,
        "snapshots_per_epoch": 0,
        "learning_rate": 0.1,
        "momentum": 0.5,
        "milestones": [1],
        "schedule": "step",
    }
    assert set(continued(ask, start, {"schedule": "constant", "budget": 1})) == {
        "epochs",
        "snapshots_per_epoch",
        "learning_rate",
        "momentum",
        "schedule",
    }
    piecewise = continued(ask, start, {"schedule": "piecewise", "pieces": "3:.1", "optimizer": "adam"})
    assert set(piecewise) == {"epochs", "snapshots_per_epoch", "schedule", "pieces", "optimizer"}
    assert "learning_rate" in continued(ask, start | {"warmup_epochs": 1}, {"schedule": "piecewise"})
    assert continued(ask, start, {"snapshots_per_epoch": 2})["snapshot_from_epoch"] == 1


def test_every_option_that_dimred_refuses_for_its_effect_is_known(binaries: Path, fails, tmp_path: Path) -> None:
    """Also the other way round: what depends on a swept option is not said to be idle."""
    ask = Tables(binaries / "dimred")
    assert {"learning_rate", "update_rule"} - ask.idle("stage2", {"preset": "sgd"}) == {"learning_rate"}
    assert "first_drop" not in ask.idle("stage2", {"preset": "twa"})
    assert "first_drop" in ask.idle("stage2", {"preset": "sgd"})
    assert {"alpha", "rho"} <= ask.idle("stage2", {"method": "sgd"})
    assert not ask.idle("stage2", {"method": "sgd"}, ["preset"]) & {"alpha", "rho"}
    assert "rho" not in ask.idle("stage2", {}, ["method"])
    assert "basis_seed" in ask.idle("stage2", {"pca_mat": "p.npy"})
    with pytest.raises(ConfigError, match="--method: needs one of"):
        ask.idle("stage2", {"method": "sdg"})
    said = fails(2, "stage1", "--schedule=constant", "--milestones=1", "--output", tmp_path / "run")
    assert "milestones has no effect: it needs schedule = step or plsc" in said


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
    (fake / "comparison.toml").write_text(
        config.replace('["sgd", "psgd"]', '"sgd"').replace("[methods.robust]", '[methods.robust]\npreset = "swa"')
    )
    assert compare.main(arguments(fake)) == 2
    assert "axes.methods.alpha: changes nothing: no method uses this option" in capsys.readouterr().err
