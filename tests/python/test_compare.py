"""experiments/compare.py: what it refuses, what it shares, that it loses and repeats nothing, its figures."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import compare
import numpy as np
import pandas as pd
import pytest
from comparison.jobs import Entry, Job
from comparison.options import Option, parse_help
from comparison.schedule import Busy, Journal, take
from comparison.summary import ranking, rival
from dimred_runs import holm, paired_difference

FAKE = Path(__file__).with_name("fake_dimred.py")
COMPARE = Path(compare.__file__)
CONFIG = """
title = "fake"
selection_seeds = [1, 2, 3]
confirmation_seeds = [11, 12]

[stage1]
epochs = 2
validation_fraction = 0.1

[matrices.pca]

[matrices.random]
kind = "random"

[methods.robust]
matrix = "pca"
alpha = [0.1, 0.2]

[methods.random]
role = "control"
matrix = "random"

[methods.continued]
role = "baseline"
command = "stage1"
epochs = "+2"

[methods.annealed]
role = "baseline"
command = "stage1"
epochs = "+2"
anneal_from_epoch = "+0"

[axes.matrices]
components = [4, 8]
"""
SHORT = """
selection_seeds = [1, 2]
[stage1]
epochs = 2
validation_fraction = 0.1
[matrices.pca]
[methods.robust]
matrix = "pca"
[methods.annealed]
role = "baseline"
command = "stage1"
epochs = "+2"
anneal_from_epoch = "+0"
"""
COUNTED = [c for c in ("forward_passes", "backward_passes", "images", "spent", "test_accuracy", "validation_accuracy")]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch) -> Path:
    """A folder with comparison.toml, in which the fake dimred counts its calls."""
    monkeypatch.setenv("FAKE_FOLDER", str(tmp_path))
    (tmp_path / "comparison.toml").write_text(CONFIG)
    return tmp_path


def compared(folder: Path, config: str) -> Path:
    """A folder with a finished comparison."""
    (folder / "comparison.toml").write_text(config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAKE_FOLDER", str(folder))
        assert compare.main(arguments(folder)) == 0
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The comparison of CONFIG; nothing writes into it."""
    return compared(tmp_path_factory.mktemp("whole"), CONFIG)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> pd.DataFrame:
    """The results of SHORT when nothing happens to it."""
    return results(compared(tmp_path_factory.mktemp("short"), SHORT))


@pytest.fixture
def copy(whole: Path, fake: Path) -> Path:
    """The comparison of CONFIG again, to be damaged."""
    shutil.copytree(whole, fake, dirs_exist_ok=True)
    return fake


def arguments(folder: Path, *more: str) -> list[str]:
    """Of compare.py."""
    return [str(folder / "comparison.toml"), "--output", str(folder / "out"), "--jobs=2", "--dimred", str(FAKE), *more]


def calls(folder: Path) -> list[str]:
    """Command lines of the fake dimred so far, without process ids."""
    file = folder / "calls.txt"
    return [line.split(" ", 1)[1] for line in file.read_text().splitlines()] if file.exists() else []


def results(folder: Path) -> pd.DataFrame:
    """The tidy table."""
    return pd.read_csv(folder / "out" / "results.csv")


def test_help_of_dimred_is_understood(execute) -> None:
    table = parse_help(execute("dimred", "stage1", "--help"))
    assert table["epochs"] == Option("epochs", "N")
    assert table["precision"] == Option("precision", "NAME", ("float32", "bfloat16", "auto"))
    assert table["batchnorm_statistics"].choices == ("averaged", "rank0", "synchronized")  # over several lines
    assert table["milestones"].is_list
    assert table["flip"].kind == ""
    assert {"learning_rate", "momentum", "resume_from", "seed"} < set(table)


WRONG = {
    'alpha = [0.1, 0.2]|alpah = 0.1': r":17: methods.robust.alpah: unknown option of dimred stage2; nearest: alpha",
    'kind = "random"|kind = "rand"': r":13: matrices.random.kind: needs one of pca, random, received 'rand'",
    'components = [4, 8]|componets = [4]': r":35: axes.matrices.componets: unknown option of dimred pca; nearest: components",
    '[axes.matrices]|[axes.matrix]': r"axes.matrix: unknown table of axes; nearest: matrices",
    'matrix = "pca"|matrix = "pac"': r"methods.robust.matrix: unknown matrix 'pac'; nearest: pca",
    'role = "control"|role = "controls"': r"methods.random.role: needs one of method, baseline, control, received 'controls'",
    'command = "stage1"|command = "stage3"': r"methods.continued.command: needs stage1 or stage2, received 'stage3'",
    'epochs = 2|epochs = 2.5': r":7: stage1.epochs: needs a whole number, received 2.5",
    'epochs = 2|epochs = [2, 3]': r"stage1.epochs: needs one value; to sweep it write \[axes.stage1\]",
    'validation_fraction = 0.1|': r"stage1.validation_fraction: needs > 0: validation chooses",
    'title = "fake"|titel = "fake"': r":2: titel: unknown key; nearest: title",
    'confirmation_seeds = [11, 12]|confirmation_seeds = [3]': r"confirmation_seeds: \[3\] are among selection_seeds, too",
    'selection_seeds = [1, 2, 3]|selection_seeds = [1, 1]': r"needs a list of different whole numbers",
    'components = [4, 8]|components = 4': r"axes.matrices.components: needs a list of values, received 4",
    'epochs = 2|epochs = 2\nseed = 4': r"stage1.seed: compare sets this option itself",
    'anneal_from_epoch = "+0"|anneal_from_epoch = "0"': r"methods.annealed.anneal_from_epoch: needs a number, received '0'",
    'epochs = "+2"|budget = 1.5': r":26: methods.continued.budget: stage 1 continued needs whole epochs, received 1.5",
    'epochs = "+2"|epochs = "+1.5"': r":26: methods.continued.epochs: needs a whole number, received '\+1.5'",
    'epochs = "+2"|': r"methods.continued: needs epochs or budget",
    'title = "fake"|title = ': r": Invalid value",
}  # fmt: skip


@pytest.mark.parametrize("change", WRONG)
def test_a_mistake_is_one_line_before_any_work(change: str, fake: Path, capsys) -> None:
    before, after = change.split("|")
    (fake / "comparison.toml").write_text(CONFIG.replace(before, after, 1))
    assert compare.main(arguments(fake)) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert re.search("comparison.toml.*" + WRONG[change], said)
    assert calls(fake) == []
    assert not (fake / "out").exists()


NEEDED = {
    "stage1": "label_noise",
    "stage2": "budget",
    "pca": "kind",
}  # what the comparisons that come with it are made of


@pytest.mark.parametrize("name", ["fashion", "subspace"])
def test_the_comparisons_that_come_with_it_are_valid(name: str, tmp_path: Path, binaries, execute, capsys) -> None:
    for command, option in NEEDED.items():
        if f"--{option} " not in execute("dimred", command, "--help"):
            pytest.skip(f"this build's dimred {command} has no --{option} yet")
    config = COMPARE.parent / "comparisons" / f"{name}.toml"
    words = [str(config), "--dry_run", "--output", str(tmp_path), "--dimred", str(binaries / "dimred")]
    assert compare.main(words) == 0
    assert len(capsys.readouterr().out.splitlines()) > 50


def test_shared_work_is_done_once_and_nothing_twice(copy: Path) -> None:
    made = calls(copy)
    kinds = [line.split()[0] for line in made]
    # Per seed: 1 start; 2 kinds of matrix x 2 components; 2 alphas x 2 + 1 control x 2; 2 continuations.
    assert (kinds.count("stage1"), kinds.count("pca"), kinds.count("stage2")) == (3 * 3, 3 * 4, 3 * 6)
    assert len(set(made)) == len(made)
    table = results(copy)
    assert len(table) == 3 * (1 + 6 + 2)
    assert set(table["outcome"]) == {"finished"}
    assert pd.read_parquet(copy / "out/results.parquet")["test_accuracy"].tolist() == table["test_accuracy"].tolist()
    begin = time.monotonic()
    assert compare.main(arguments(copy)) == 0
    assert time.monotonic() - begin < 5
    assert calls(copy) == made
    shared = [column for column in table if column != "matrix_seconds"]  # known by the folder's place
    pd.testing.assert_frame_equal(results(copy)[shared], table[shared])


def test_relative_epochs_count_from_the_end_of_the_start(fake: Path) -> None:
    (fake / "comparison.toml").write_text(SHORT + "[axes.stage1]\nepochs = [2, 3]\n")
    assert compare.main(arguments(fake)) == 0
    annealed = [line for line in calls(fake) if "--anneal_from_epoch" in line and "--seed=1 " in line]
    found = {
        tuple(re.search(rf"--{key}=(\d+)", line)[1] for key in ("epochs", "anneal_from_epoch")) for line in annealed
    }
    assert found == {("4", "2"), ("5", "3")}
    table = results(fake)
    own = table[(table["method"] == "annealed") & (table["seed"] == 1)]
    assert own["spent"].tolist() == own["epochs"].tolist() == [2, 2]
    assert own["stage1_spent"].tolist() == [2, 3]


def test_figures_are_those_of_the_runs(whole: Path) -> None:
    table, summary = results(whole), pd.read_csv(whole / "out/summary.csv")
    ends = summary[summary["compared_at"] == "all baselines"]
    means = table[table["role"] == "baseline"].groupby("method")["validation_accuracy"].mean()
    assert ends[ends["baseline"]]["method"].tolist() == [means.idxmax()] * 2  # in each condition
    alphas = table[table["method"] == "robust"].groupby("variant")["validation_accuracy"].mean()
    assert set(ends[(ends["method"] == "robust") & ends["chosen"]]["variant"]) == {alphas.idxmax()}

    def accuracies(method: str, variant: str | float, components: float) -> np.ndarray:
        line = table[
            (table["method"] == method) & (table["variant"].isna() if variant == "" else table["variant"] == variant)
        ]
        axis = line["matrices.components"]
        return line[axis.isna() | (axis == components)].sort_values("seed")["test_accuracy"].to_numpy()

    line = ends[
        (ends["method"] == "robust") & (ends["variant"] == "alpha=0.2") & (ends["matrices.components"] == 8)
    ].iloc[0]
    mine, theirs = accuracies("robust", "alpha=0.2", 8), accuracies(means.idxmax(), "", 8)
    expected = paired_difference(mine, theirs)
    assert (line["n"], line["pairs"], line["missing"]) == (3, 3, 0)
    assert line["test_accuracy"] == pytest.approx(mine.mean())
    assert line["sd"] == pytest.approx(mine.std(ddof=1))
    # The fake's differences are the same for every seed up to rounding: no spread, no test.
    assert line["difference"] == pytest.approx(expected.mean)


def fake_group(role: str, validation: float, spent: float, **options: str) -> list[SimpleNamespace]:
    """Two seeds of a run as `rival` sees them."""
    job = Job(Path("run"), "run", "run", "stage2", tuple(options.items()))
    result = {"validation_accuracy": validation, "spent": spent}
    entries = [Entry(seed, role, "", "", (), job) for seed in (1, 2)]
    return [SimpleNamespace(entry=entry, run=True, result=result) for entry in entries]


def test_at_equal_passes_the_best_baseline_that_cost_no_more_is_the_rival() -> None:
    groups = {("free", ""): fake_group("baseline", 0.90, 0), ("dear", ""): fake_group("baseline", 0.95, 3),
              ("even", ""): fake_group("baseline", 0.92, 1)}  # fmt: skip
    ranked = ranking(groups)
    assert [name for name, _ in ranked] == ["dear", "even", "free"]
    for spent, expected in {2: "even", 1: "even", 0.99: "even", 0.97: "free", 2.99: "dear"}.items():
        key = ("robust", str(spent))
        assert rival(key, groups | {key: fake_group("method", 0.99, spent)}, ranked, "spent") == (expected, "")
        assert rival(key, groups | {key: fake_group("method", 0.99, spent)}, ranked, None) == ("dear", "")
    assert rival(("even", ""), groups, ranked, "spent") == ("even", "")  # nothing as cheap is better
    assert rival(("free", ""), groups, [("even", ""), ("dear", "")], "spent") is None
    biased = groups | {("soup", ""): fake_group("baseline", 0.99, 1, start="soup"),
                       ("held out", ""): fake_group("baseline", 0.98, 1, train_on="validation")}  # fmt: skip
    assert [name for name, _ in ranking(biased)] == ["dear", "even", "free", "soup", "held out"]
    frozen = [("free", ""), ("even", ""), ("dear", "")]  # of the selection: it stands, whatever came after
    assert rival(("dear", ""), groups, frozen, "spent") == ("free", "")


def test_no_more_passes_leave_out_what_cost_more(whole: Path) -> None:
    """The fake's stage 2 spends 4/3 epochs an epoch, stage 1 continued one."""
    summary = pd.read_csv(whole / "out/summary.csv")
    passes = summary[summary["compared_at"] == "no more passes"].set_index("method")
    assert passes.loc["random", "cost"].tolist() == pytest.approx([8 / 3] * 2)
    assert passes.loc["annealed", "cost"].tolist() == pytest.approx([2] * 2)
    best = summary[(summary["compared_at"] == "all baselines") & summary["baseline"]]["method"].iloc[0]
    assert passes.loc["random", "against"].tolist() == [best] * 2
    assert passes.loc["random", "pairs"].tolist() == [3] * 2


def test_confirmation_seeds_are_untouched_until_asked_for(copy: Path) -> None:
    assert not any(f"--seed={seed}" in line for line in calls(copy) for seed in (11, 12))
    assert compare.main(arguments(copy, "--confirm")) == 0
    table = results(copy)
    confirmed = table[table["phase"] == "confirmation"]
    assert set(confirmed["seed"]) == {11, 12}
    summary = pd.read_csv(copy / "out/summary.csv")
    chosen = summary[(summary["phase"] == "selection") & (summary["method"] == "robust") & summary["chosen"]]
    assert set(confirmed[confirmed["method"] == "robust"]["variant"]) == set(chosen["variant"])
    before = calls(copy)
    assert compare.main(arguments(copy)) == 0  # what was confirmed stays in the tables
    assert len(results(copy)) == len(table)
    assert calls(copy) == before
    (copy / "comparison.toml").write_text(CONFIG.replace("[4, 8]", "[4]"))
    assert compare.main(arguments(copy)) == 2  # chosen for other conditions


def test_one_failure_is_named_and_does_not_stop_the_rest(fake: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("FAKE_FAIL", "pca --components=8 --kind=random --seed=2")
    monkeypatch.setenv("FAKE_NAN", "--alpha=0.1 --checkpoint=" + str(fake / "out/seed_1"))
    assert compare.main(arguments(fake)) == 1
    said = capsys.readouterr().out
    assert "matrix random, components=8, seed 2: FAILED: ended with 1: dimred pca: error: needs more" in said
    assert (
        "random, components=8, seed 2 (selection): failed: not started: matrix random, components=8, seed 2 failed"
        in said
    )
    table = results(fake)
    assert table["outcome"].value_counts().to_dict() == {"finished": 24, "diverged": 2, "failed": 1}
    summary = pd.read_csv(fake / "out/summary.csv").query('compared_at == "all baselines"')
    lines = summary[(summary["method"] == "robust") & (summary["variant"] == "alpha=0.1")]
    assert lines[["n", "missing"]].to_numpy().tolist() == [[2, 1], [2, 1]]
    made = calls(fake)
    monkeypatch.delenv("FAKE_FAIL")
    assert compare.main(arguments(fake)) == 1  # what failed is tried again, what diverged would again
    assert [line.split()[0] for line in calls(fake)[len(made) :]] == ["pca", "stage2"]
    assert results(fake)["outcome"].value_counts().to_dict() == {"finished": 25, "diverged": 2}


@pytest.mark.parametrize("damage", ["curve", "outcome"])
def test_damaged_and_half_finished_runs_are_named_and_counted(damage: str, copy: Path, capsys) -> None:
    folder = copy / "out" / results(copy).query("method == 'annealed' and seed == 2")["folder"].iloc[0]
    if damage == "curve":
        (folder / "curve.csv").write_text("stage,weights\n")
        capsys.readouterr()
        assert compare.main(arguments(copy)) == 1
        assert f"annealed, seed 2 (selection): damaged: [dimred_runs] {folder}/curve.csv" in capsys.readouterr().out
        table = results(copy)
        assert table["outcome"].value_counts().to_dict() == {"finished": 26, "damaged": 1}
    else:  # taken up again, and finished without another row
        rows = (folder / "curve.csv").read_text()
        (folder / "manifest.json").write_text('{"outcome": "running"}')
        assert compare.main(arguments(copy)) == 0
        assert (folder / "curve.csv").read_text() == rows


def running(folder: Path) -> list[int]:
    """Processes of the fake dimred that are alive."""
    pids = [int(line.split()[0]) for line in (folder / "calls.txt").read_text().splitlines()]
    return [pid for pid in pids if b"fake_dimred" in (Path(f"/proc/{pid}/cmdline").read_bytes()
            if Path(f"/proc/{pid}/cmdline").exists() else b"")]  # fmt: skip


def until(true: Callable[[], object], seconds: float = 20) -> None:
    """Waits."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def start(folder: Path) -> subprocess.Popen[str]:
    """compare.py as a process, its runs held in their second epoch; returns when two are there."""
    (folder / "comparison.toml").write_text(SHORT)
    (folder / "hold").touch()
    environment = os.environ | {"FAKE_FOLDER": str(folder)}
    process = subprocess.Popen([sys.executable, str(COMPARE), *arguments(folder)], text=True, env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    until(lambda: len(list(folder.glob("out/*/*/curve.csv"))) == 2)
    until(lambda: all(len(file.read_text().splitlines()) == 2 for file in folder.glob("out/*/*/curve.csv")))
    return process


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_stopped_comparison_loses_and_repeats_nothing(stop: signal.Signals, fake: Path, undisturbed) -> None:
    process = start(fake)
    process.send_signal(stop)
    code = process.wait(timeout=20)
    assert code == (-9 if stop == signal.SIGKILL else 128 + stop)
    until(lambda: not running(fake))  # the children ended with it
    before = calls(fake)
    (fake / "hold").unlink()
    assert compare.main(arguments(fake)) == 0
    again = [line for line in calls(fake)[len(before) :] if line in before]
    assert sorted(again) == sorted(before)  # both were half done: they resumed
    shared = [column for column in undisturbed if "seconds" not in column]
    pd.testing.assert_frame_equal(results(fake)[shared], undisturbed[shared])
    rows = [len(file.read_text().splitlines()) for file in fake.glob("out/*/stage1-*/curve.csv")]
    assert rows == [3, 3]  # a resumed run wrote each of its rows once


def test_a_killed_run_goes_on_by_itself(fake: Path, undisturbed) -> None:
    process = start(fake)
    os.kill(running(fake)[0], signal.SIGKILL)
    until(lambda: len(calls(fake)) == 3)
    (fake / "hold").unlink()
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0, out
    assert "killed (-9), goes on" in out
    shared = [column for column in undisturbed if "seconds" not in column]
    pd.testing.assert_frame_equal(results(fake)[shared], undisturbed[shared])


def test_two_comparisons_do_not_share_a_folder(tmp_path: Path) -> None:
    lock = take(tmp_path)
    with pytest.raises(Busy, match="is at work in"):
        take(tmp_path, patience=0)
    lock.close()
    take(tmp_path, patience=0).close()


def test_time_left_is_that_of_finished_jobs_of_the_kind(tmp_path: Path) -> None:
    class Job:
        target, kind = Path("x"), "a"

    journal = Journal(tmp_path / "journal.jsonl")
    assert journal.estimate([Job()], 1) is None
    for kind, seconds in (("a", 2.0), ("a", 4.0), ("b", 10.0)):
        Job.kind = kind
        journal.add(Job(), seconds)
    with journal.path.open("a") as stream:
        stream.write('{"target": "x", "ki')  # a kill
    journal = Journal(journal.path)
    Job.kind = "a"
    assert journal.estimate([Job(), Job()], 2) == 3
    Job.kind = "new"
    assert journal.estimate([Job()], 1) == 6.5
    journal.add(Job(), 1.0)
    assert len(Journal(journal.path).by_kind["new"]) == 1


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
    tests = summary[summary["compared_at"] == "no more seconds"]  # seconds alone differ by seed in the fake
    unique = tests.drop_duplicates([c for c in tests if c != "matrices.components"])
    assert len(unique) < len(tests)
    assert unique["p_holm"].to_numpy() == pytest.approx(holm(unique["p"]), nan_ok=True)


def test_every_combination_is_there(fake: Path) -> None:
    more = '[axes.methods]\nstart = ["last", "mean"]\n[axes.stage1]\nlabel_noise = [0.0, 0.2]\n'
    (fake / "comparison.toml").write_text(
        SHORT.replace("[1, 2]", "[1]") + more + "[axes.matrices]\ncomponents = [4, 8]\n"
    )
    assert compare.main(arguments(fake)) == 0
    robust = results(fake).query("method == 'robust'")
    found = set(zip(robust["matrices.components"], robust["methods.start"], robust["stage1.label_noise"], strict=True))
    assert found == set(itertools.product((4, 8), ("last", "mean"), (0.0, 0.2)))
    annealed = results(fake).query("method == 'annealed'")
    assert annealed["methods.start"].isna().all()  # stage 1 has no such option
    assert len(annealed) == 2
