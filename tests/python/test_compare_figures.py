"""experiments/compare.py: its tables, recomputed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import compare
import numpy as np
import pandas as pd
import pytest
import record
from comparison.jobs import Entry, Job
from comparison.readings import Reading
from comparison.results import foreign, is_place
from comparison.summary import Choices, ranking, rival, shown, summarise
from fake_comparison import arguments, results

from dimred.runs import holm, paired_difference, run_folders

pytest_plugins = ["fake_comparison"]

COUNTED = ["forward_passes", "backward_passes", "images", "spent", "test_accuracy", "validation_accuracy"]


def test_figures_are_those_of_the_runs(whole: Path) -> None:
    table, summary = results(whole), pd.read_csv(whole / "out/summary.csv")
    ends = summary[summary["compared_at"] == "all baselines"]
    means = table[table["role"] == "baseline"].groupby("method")["validation_accuracy"].mean()
    assert ends[ends["baseline"]]["method"].tolist() == [means.idxmax()] * 2  # in each condition
    alphas = table[table["method"] == "robust"].groupby("variant")["validation_accuracy"].mean()
    assert set(ends[(ends["method"] == "robust") & ends["chosen"]]["variant"]) == {alphas.idxmax()}

    def losses(method: str, variant: str | float, components: float) -> np.ndarray:
        return accuracies(method, variant, components, "test_loss")

    def accuracies(method: str, variant: str | float, components: float, metric: str = "test_accuracy") -> np.ndarray:
        line = table[
            (table["method"] == method) & (table["variant"].isna() if variant == "" else table["variant"] == variant)
        ]
        axis = line["matrices.components"]
        return line[axis.isna() | (axis == components)].sort_values("seed")[metric].to_numpy()

    line = ends[
        (ends["method"] == "robust") & (ends["variant"] == "alpha=0.2") & (ends["matrices.components"] == 8)
    ].iloc[0]
    mine, theirs = accuracies("robust", "alpha=0.2", 8), accuracies(means.idxmax(), "", 8)
    expected = paired_difference(mine, theirs)
    assert (line["n"], line["pairs"], line["missing"]) == (3, 3, 0)
    assert line["test_accuracy"] == pytest.approx(mine.mean())
    assert line["sd"] == pytest.approx(mine.std(ddof=1))
    assert line["difference"] == pytest.approx(expected.mean)
    assert line["difference_sd"] == pytest.approx(expected.sd)
    assert expected.sd > 1e-5
    assert (line["low"], line["high"], line["p"]) == pytest.approx((expected.low, expected.high, expected.p))
    of_losses = table[table["role"] == "baseline"].groupby("method")["validation_loss"].mean()
    assert ends[ends["loss_baseline"]]["method"].tolist() == [of_losses.idxmin()] * 2
    mine, theirs = losses("robust", "alpha=0.2", 8), losses(of_losses.idxmin(), "", 8)
    expected = paired_difference(mine, theirs)
    assert (line["test_loss"], line["loss_sd"]) == pytest.approx((mine.mean(), mine.std(ddof=1)))
    assert (line["loss_difference"], line["loss_p"]) == pytest.approx((expected.mean, expected.p))
    assert (line["loss_low"], line["loss_high"]) == pytest.approx((expected.low, expected.high))
    assert "selection, all baselines, losses" in (whole / "out/summary.txt").read_text()


def test_a_confirmation_runs_the_rival_of_each_metric() -> None:
    """The variant with the lowest loss need not be its method's best in accuracy, which is what was chosen."""
    ranked = {"test_accuracy": [("sgd", "rate=1")], "test_loss": [("sgd", "rate=2"), ("mean", "")]}
    choices: Choices = {(("methods.budget", 1.0),): ({"sgd": "rate=1", "mean": ""}, ranked)}
    job = Job(Path("run"), "run", "run", "stage2", ())

    def runs(variant: str, budget: float) -> bool:
        entry = Entry(1, "baseline", "sgd", variant, (("methods.budget", budget),), job)
        return compare.chosen(entry, choices) or compare.leads(entry, choices)

    assert [runs(f"rate={rate}", 1.0) for rate in (1, 2, 3)] == [True, True, False]
    assert not runs("rate=2", 0.1)


def fake_group(role: str, validation: float, spent: float, **options: str) -> list[SimpleNamespace]:
    """Two seeds of a run as `rival` sees them."""
    job = Job(Path("run"), "run", "run", "stage2", tuple(options.items()))
    result = {
        "validation_accuracy": validation,
        "test_accuracy": validation,
        "validation_loss": validation,
        "test_loss": 1 - validation,
        "spent": spent,
    }
    name = "sgd" if role == "baseline" else "robust"
    entries = [Entry(seed, role, name, "", (), job) for seed in (1, 2)]
    run = SimpleNamespace(steps_per_epoch=50)
    return [SimpleNamespace(entry=entry, reading=run, result=result, axes={}) for entry in entries]


def test_at_equal_passes_the_best_baseline_that_cost_no_more_is_the_rival() -> None:
    groups = {
        ("free", ""): fake_group("baseline", 0.90, 0),
        ("dear", ""): fake_group("baseline", 0.95, 3),
        ("even", ""): fake_group("baseline", 0.92, 1),
    }
    ranked = ranking(groups)["test_accuracy"]
    assert [name for name, _ in ranked] == ["dear", "even", "free"]
    assert [name for name, _ in ranking(groups)["test_loss"]] == ["free", "even", "dear"]
    for spent, expected in {2: "even", 1: "even", 0.99: "even", 0.97: "free", 2.99: "dear"}.items():
        key = ("robust", str(spent))
        assert rival(key, groups | {key: fake_group("method", 0.99, spent)}, ranked, "spent") == (expected, "")
        assert rival(key, groups | {key: fake_group("method", 0.99, spent)}, ranked, None) == ("dear", "")
    assert rival(("even", ""), groups, ranked, "spent") == ("even", "")  # nothing as cheap is better
    assert rival(("free", ""), groups, [("even", ""), ("dear", "")], "spent") is None
    frozen = [("free", ""), ("even", ""), ("dear", "")]  # of the selection: it stands, whatever came after
    assert rival(("dear", ""), groups, frozen, "spent") == ("free", "")


def test_a_confirmation_keeps_the_variants_that_were_chosen() -> None:
    """Whichever does better on the confirmation's seeds."""
    outcomes = []
    for variant, validation in (("rate=1", 0.8), ("rate=2", 0.9)):
        group = fake_group("baseline", validation, 1)
        for outcome in group:
            outcome.entry = Entry(outcome.entry.seed, "baseline", "sgd", variant, (), outcome.entry.job)
        outcomes += group
    own = summarise(outcomes, {}, None).set_index("variant")["chosen"]
    assert own.to_dict() == {"rate=1": False, "rate=2": True}
    ranked = {metric: [("sgd", "rate=1"), ("sgd", "rate=2")] for metric in ("test_accuracy", "test_loss")}
    frozen = summarise(outcomes, {}, None, {(): ({"sgd": "rate=1"}, ranked)}).set_index("variant")["chosen"]
    assert frozen.to_dict() == {"rate=1": True, "rate=2": False}


def test_what_is_cheaper_than_all_baselines_stands_alone() -> None:
    outcomes = [*fake_group("baseline", 0.9, 3), *fake_group("method", 0.99, 1)]
    table = summarise(outcomes, {}, "spent").set_index("role")
    assert table["against"].to_dict() == {"baseline": "sgd", "method": ""}
    assert table["difference"].isna().all()
    assert shown(table.reset_index(), [], "spent").splitlines()[-1].endswith("–")


def test_no_more_passes_leave_out_what_cost_more(whole: Path) -> None:
    """The fake's stage 2 spends 4/3 epochs an epoch, stage 1 continued one."""
    summary = pd.read_csv(whole / "out/summary.csv")
    passes = summary[summary["compared_at"] == "no more passes"].set_index("method")
    assert passes.loc["random", "cost"].tolist() == pytest.approx([8 / 3] * 2)
    assert passes.loc["annealed", "cost"].tolist() == pytest.approx([2] * 2)
    best = summary[(summary["compared_at"] == "all baselines") & summary["baseline"]]["method"].iloc[0]
    assert passes.loc["random", "against"].tolist() == [best] * 2
    assert passes.loc["random", "pairs"].tolist() == [3] * 2


def test_a_real_comparison_is_read_whole(small_comparison: Path) -> None:
    """A handful of real runs: every cost is there, Holm's correction is over all tests of a table."""
    table = pd.read_csv(small_comparison / "results.csv")
    assert set(table["outcome"]) == {"finished"}
    assert table[COUNTED].notna().all(axis=None)
    robust = table[table["method"] == "robust"]
    assert (robust["basis_bytes_read"] > 0).all()
    assert (robust["matrix_seconds"] > 0).all()
    assert (table["seconds"] > 0).all()
    summary = pd.read_csv(small_comparison / "summary.csv")
    for _, tests in summary.groupby(["phase", "compared_at"]):
        assert tests["p_holm"].to_numpy() == pytest.approx(holm(tests["p"]), nan_ok=True)


def test_a_test_that_stands_in_two_conditions_counts_once(whole: Path) -> None:
    """The annealed runs do not depend on the number of components, the others do."""
    summary = pd.read_csv(whole / "out/summary.csv")
    tests = summary[summary["compared_at"] == "no more seconds"]
    runs = tests.assign(components=tests["matrices.components"].where(tests["role"] != "baseline"))
    unique = runs.drop_duplicates(["method", "variant", "components"])
    assert len(unique) < len(tests)
    assert unique["p_holm"].to_numpy() == pytest.approx(holm(unique["p"]), nan_ok=True)


def test_a_record_says_what_was_found_where_and_with_what(whole: Path, tmp_path: Path) -> None:
    assert record.main([str(whole / "out"), "--output", str(tmp_path / "deep" / "record.md")]) == 0
    page = (tmp_path / "deep" / "record.md").read_text()
    table = re.search(r"## Selection: against the best of all baselines\n\n```\n(.*?)\n```", page, re.DOTALL)[1]
    assert table in (whole / "out/summary.txt").read_text()
    assert "27 runs of 27 finished" in page
    assert "## What failed\n\nNone." in page
    assert (whole / "comparison.toml").read_text().strip() in page
    assert str(whole) not in page
    assert record.main([str(tmp_path), "--output", str(tmp_path / "x")]) == 1
    assert not (tmp_path / "x").exists()


def test_the_report_of_a_comparison_is_of_its_last_phase(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    table = results(whole)
    assert table["chosen"].sum() == 27 - 6  # one of two alphas, in 2 conditions x 3 seeds
    again = pd.concat([table, table.assign(phase="confirmation", folder="other/" + table["folder"]).iloc[:5]])
    again.to_csv(folder / "results.csv", index=False)
    assert run_folders([folder]) == [folder / "other" / name for name in sorted(table["folder"].iloc[:5])]
    table.to_csv(folder / "results.csv", index=False)
    assert run_folders([folder]) == [folder / name for name in sorted(set(table["folder"]))]


def test_a_run_of_another_seed_does_not_count(copy: Path) -> None:
    """Copied by hand into the place of one that was there."""
    one, two = results(copy).query("method == 'annealed' and seed in (1, 2)")["folder"]
    shutil.rmtree(copy / "out" / two)
    shutil.copytree(copy / "out" / one, copy / "out" / two)
    assert compare.main(arguments(copy)) == 1
    bad = results(copy).query("outcome != 'finished'")
    assert bad[["method", "seed", "outcome"]].to_numpy().tolist() == [["annealed", 2, "foreign"]]
    assert "is a run of seed 1" in bad["note"].iloc[0]


def test_a_run_of_other_options_does_not_count(copy: Path) -> None:
    one, two = results(copy).query("method == 'robust' and seed == 1 and `matrices.components` == 4")["folder"]
    shutil.rmtree(copy / "out" / two)
    shutil.copytree(copy / "out" / one, copy / "out" / two)
    assert compare.main(arguments(copy)) == 1
    bad = results(copy).query("outcome != 'finished'")
    assert "is a run with alpha = 0.1 instead of 0.2" in bad["note"].iloc[0]


def test_a_moved_comparison_keeps_its_seconds(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "moved")
    before = results(whole)
    assert (before[before["role"] == "method"]["matrix_seconds"] > 0).all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAKE_FOLDER", str(tmp_path / "moved"))
        assert compare.main(arguments(tmp_path / "moved")) == 0
    pd.testing.assert_series_equal(results(tmp_path / "moved")["matrix_seconds"], before["matrix_seconds"])


@pytest.mark.parametrize(
    ("has", "asked", "here", "moved"),
    [
        ("/home/me/runs/cifar10", "runs/cifar10", True, True),
        ("/home/me/runs/cifar10", "../me/runs/cifar10/", True, True),
        ("/home/cifar10", "../cifar10", True, True),
        ("/home/me/cifar10", "./runs/../cifar10", True, True),
        ("/home/me", ".", True, True),
        ("/runs/cifar10", "/runs//cifar10", True, True),
        ("/elsewhere/runs/cifar10", "runs/cifar10", False, True),
        ("/elsewhere/cifar10", "../cifar10", False, True),
        ("/home/me/other/cifar10", "runs/cifar10", False, False),
        ("/home/me/cifar100", "cifar10", False, False),
        ("/elsewhere/runs/cifar10", "/runs/cifar10", False, False),
        ("/runs/cifar10", "/runs/cifar", False, False),
        ("/elsewhere", ".", False, False),
        ("/elsewhere", "..", False, False),
        ("runs/cifar10", "cifar10", False, False),
        ("/home/me", "", False, False),
        (3, "runs", False, False),
    ],
)
def test_a_path_is_the_absolute_one_that_became_of_it(
    monkeypatch, has: object, asked: str, here: bool, moved: bool
) -> None:
    """`here`: from /home/me, where the run lies that asked for it; `moved`: of a run that came from elsewhere."""
    monkeypatch.setattr("os.getcwd", lambda: "/home/me")
    assert (is_place(has, asked, False), is_place(has, asked, True)) == (here, moved)


def test_runs_of_the_same_name_of_another_folder_do_not_count_unless_they_were_moved(tmp_path: Path) -> None:
    """A reading of a run on runs/faces of another place, where it stands and where it came from."""
    job = Job(tmp_path / "run", "run", "run", "stage1", (("data", "runs/faces"),))
    entry = Entry(1, "method", "m", "", (), job)

    def note(output: Path, data: str) -> str:
        return foreign(Reading(1, {"output": str(output), "data": data}, 1.0, {}, {}), entry)

    assert note(job.target, str(Path.cwd() / "runs/faces")) == ""
    assert note(job.target, "/elsewhere/runs/faces").endswith("data = /elsewhere/runs/faces instead of runs/faces")
    assert note(Path("/elsewhere/out/run"), "/elsewhere/runs/faces") == ""
    assert note(Path("/elsewhere/out/run"), "/elsewhere/faces") != ""
