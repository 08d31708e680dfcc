"""experiments/compare.py: what it refuses, what it shares, that one failure stops nothing else."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import time
from pathlib import Path

import compare
import pandas as pd
import pytest
from comparison import readings
from comparison.options import Option, parse_table
from comparison.schedule import DIVERGED
from conftest import REPOSITORY
from fake_comparison import COMPARE, CONFIG, SHORT, arguments, calls, results

pytest_plugins = ["fake_comparison"]


def test_help_of_dimred_is_understood(execute) -> None:
    table = parse_table(execute("dimred", "stage1", "--help", "json"))
    assert table["epochs"] == Option("epochs", "integer")
    assert table["precision"] == Option("precision", "choice", ("float32", "bfloat16", "float16", "auto"))
    assert table["custom_white_list"] is table["amp_allow"]
    assert table["milestones"].is_list
    assert not table["milestones"].acts
    assert table["milestones"].depends_on == {"schedule"}
    assert table["flip"].type == "boolean"
    ours = {name for name, option in table.items() if option.is_set_by_callers}
    assert ours == {"output", "quiet", "resume_from", "threads"}
    assert {"learning_rate", "momentum", "resume_from", "seed"} < set(table)


WRONG = {
    "alpha = [0.1, 0.2]|alpah = 0.1": r":17: methods.robust.alpah: unknown option of dimred stage2; nearest: alpha",
    'kind = "random"|kind = "rand"': r":13: matrices.random.kind: needs one of pca, random, received 'rand'",
    "components = [4, 8]|componets = [4]": r":35: axes.matrices.componets: unknown option of dimred pca; "
    r"nearest: components",
    "[axes.matrices]|[axes.matrix]": r"axes.matrix: unknown table of axes; nearest: matrices",
    'matrix = "pca"|matrix = "pac"': r"methods.robust.matrix: unknown matrix 'pac'; nearest: pca",
    'role = "control"|role = "controls"': r"methods.random.role: needs one of method, "
    r"baseline, control, received 'controls'",
    'command = "stage1"|command = "stage3"': r"methods.continued.command: needs stage1 or stage2, received 'stage3'",
    "epochs = 2|epochs = 2.5": r":7: stage1.epochs: needs a whole number, received 2.5",
    "epochs = 2|epochs = [2, 3]": r"stage1.epochs: needs one value; to sweep it write \[axes.stage1\]",
    "validation_fraction = 0.1|": r"stage1.validation_fraction: needs > 0: validation chooses",
    'title = "fake"|titel = "fake"': r":2: titel: unknown key; nearest: title",
    "confirmation_seeds = [11, 12]|confirmation_seeds = [3]": r"confirmation_seeds: needs other seeds than "
    r"selection_seeds, received \[3\] in both",
    "selection_seeds = [1, 2, 3]|selection_seeds = [1, 1]": r"needs a list of different whole numbers",
    "components = [4, 8]|components = 4": r"axes.matrices.components: needs a list of values, received 4",
    "epochs = 2|epochs = 2\nseed = 4": r"stage1.seed: compare sets this option itself",
    'anneal_from_epoch = "+0"|anneal_from_epoch = "0"': r"methods.annealed.anneal_from_epoch: "
    r"needs a number, received '0'",
    'epochs = "+2"|budget = 1.5': r":26: methods.continued.budget: stage 1 continued needs whole epochs, received 1.5",
    'epochs = "+2"|epochs = "+1.5"': r":26: methods.continued.epochs: needs a whole number, received '\+1.5'",
    'epochs = "+2"|': r"methods.continued: needs epochs or budget",
    'title = "fake"|title = ': r": Invalid value",
    'epochs = "+2"|epochs = "+2"\nbudget = 2': r"methods.continued: needs epochs or budget, received both",
    "[axes.matrices]|[axes.stage1]\nvalidation_fraction = [0.0, 0.1]\n[axes.matrices]": r"validation_fraction: "
    r"needs > 0",
    'title = "fake"|title = 3': r":2: title: needs a text, received 3",
    'title = "fake"|matrices = 3': r"line 10",
    '[methods.random]|[methods."stage 1"]': r"methods: needs names of letters, digits, _ and -, received 'stage 1'",
    "[methods.random]|[methods]\nrandom = 3\n[methods.x]": r"methods.random: needs a table, received 3",
    'matrix = "pca"|matrix = []': r"methods.robust.matrix: needs the name of a matrix, received \[\]",
    'kind = "random"|kind = "ran\\u0000"': r"matrices.random.kind: needs a printable text",
    "[matrices.pca]\n\n[matrices.random]|[matrices.pca]\ncomponents = 1\n[matrices.random]\ncomponents = 2": (
        r"axes.matrices.components: changes nothing: every matrix sets this option"
    ),
    "[methods.random]|[axes.methods]\nalpha = [0.1]\n[methods.random]\nalpha = 0.3": (
        r"axes.methods.alpha: changes nothing: every method with this option sets it itself"
    ),
}


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


@pytest.mark.parametrize("name", ["results.csv", "summary.csv", "summary.txt"])
def test_tables_replace_no_other_file(name: str, fake: Path, capsys) -> None:
    (fake / "out").mkdir()
    (fake / "out" / name).write_text("somebody's own")
    assert compare.main(arguments(fake)) == 2
    assert f"{name} exists already and is not an earlier table of experiments/compare.py" in capsys.readouterr().err
    assert (fake / "out" / name).read_text() == "somebody's own"
    assert calls(fake) == []


@pytest.mark.parametrize("config", sorted(COMPARE.parent.glob("comparisons/*.toml")), ids=lambda file: file.stem)
def test_the_comparisons_that_come_with_it_are_valid(config: Path, tmp_path: Path, binaries, capsys) -> None:
    words = [str(config), "--dry_run", "--output", str(tmp_path), "--dimred", str(binaries / "dimred")]
    assert compare.main(words) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 30


def test_the_comparison_that_the_page_shows_is_valid(tmp_path: Path, binaries, capsys) -> None:
    page = (REPOSITORY / "docs/how-to/compare_fairly.md").read_text()
    shown = re.search(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown
    config = tmp_path / "shown.toml"
    config.write_text(shown[1].replace("../recipes", str(REPOSITORY / "experiments/recipes")))
    words = [str(config), "--dry_run", "--output", str(tmp_path / "out"), "--dimred", str(binaries / "dimred")]
    assert compare.main(words) == 0
    # Per seed and training set: 1 start; 2 matrices; 2 alphas x 2 components x 2 batch sizes; 2 continuations.
    assert "78 of 78 jobs to run" in capsys.readouterr().out  # 3 seeds x 2 training sets x 13


def test_shared_work_is_done_once_and_nothing_twice(copy: Path, monkeypatch) -> None:
    made = calls(copy)
    kinds = [line.split()[0] for line in made]
    assert {"--kind=random" in line for line in calls(copy) if line.startswith("pca") and "--seed=" in line} == {True}
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
    with monkeypatch.context() as patch:  # nothing is read again, and it comes to the same
        patch.setattr(readings, "read_run", lambda folder, finished: pytest.fail(f"read {folder} again"))
        assert compare.main(arguments(copy)) == 0
        shared = [column for column in table if column != "matrix_seconds"]  # known by the folder's place
        pd.testing.assert_frame_equal(results(copy)[shared], table[shared])
    (copy / "out/readings.json").write_text('{"code": 1')  # a kill cannot leave that; it is made again
    assert compare.main(arguments(copy)) == 0
    pd.testing.assert_frame_equal(results(copy)[shared], table[shared])


def test_a_damaged_start_takes_its_children_out(copy: Path) -> None:
    assert compare.main(arguments(copy)) == 0
    for curve in copy.glob("out/seed_2/stage1-*/curve.csv"):
        curve.write_text(curve.read_text().replace("epoch", "epohc", 1))
    assert compare.main(arguments(copy)) == 1
    table = results(copy)
    assert set(table[table["seed"] == 2]["outcome"]) == {"damaged"}
    assert set(table[table["seed"] != 2]["outcome"]) == {"finished"}


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


def test_confirmation_seeds_are_untouched_until_asked_for(copy: Path, capsys) -> None:
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
    for change, place in {
        "[4, 8]|[4]": "axes.matrices.components",
        "[0.1, 0.2]|[0.2]": "methods.robust",
        "+2|+3": "methods.continued",
        "[11, 12]|[11, 13]": "seeds",
    }.items():
        old, new = change.split("|")
        (copy / "comparison.toml").write_text(CONFIG.replace(old, new, 1))
        assert compare.main(arguments(copy)) == 2
        assert f"was written for another {place}; remove the file" in capsys.readouterr().err
    (copy / "comparison.toml").write_text(CONFIG)
    frozen = (copy / "out/choices.json").read_text()
    plan = json.dumps(json.loads(frozen)["plan"])
    unfinished = [f'{{"plan": {plan}{rest}}}' for rest in ("", ', "choices": [3]', ', "choices": [{"baselines": 1}]')]
    for damage in ("[]", '{"plan": 1', '{"choices": []}', *unfinished):
        (copy / "out/choices.json").write_text(damage)
        assert compare.main(arguments(copy)) == 2
        assert "choices.json is damaged or of another version" in capsys.readouterr().err
    assert calls(copy) == before


def test_rows_go_on_where_the_folders_are_not(copy: Path, tmp_path_factory, monkeypatch, capsys) -> None:
    rows = copy / "kept/rows.jsonl"
    assert compare.main(arguments(copy, f"--rows={rows}")) == 0
    here = results(copy)
    assert len(rows.read_text().splitlines()) == len(set(here["folder"]))
    other = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setenv("FAKE_FOLDER", str(other))
    (other / "comparison.toml").write_text(CONFIG)
    kept = [line for line in rows.read_text().splitlines() if "seed_3/" not in line]  # all of one seed is still to run
    (other / "rows.jsonl").write_text("".join(f"{line}\n" for line in kept))
    assert compare.main(arguments(other, f"--rows={other}/rows.jsonl", "--dry_run")) == 0
    assert all(("seed 3" in line) == line.startswith("to run") for line in capsys.readouterr().out.splitlines())
    for _ in range(2):
        assert compare.main(arguments(other, f"--rows={other}/rows.jsonl")) == 0
        pd.testing.assert_frame_equal(
            results(other).drop(columns="matrix_seconds"), here.drop(columns="matrix_seconds")
        )
        pd.testing.assert_frame_equal(
            *(
                pd.read_csv(folder / "out/summary.csv")[["method", "variant", "n", "difference", "p"]]
                for folder in (copy, other)
            )
        )
        assert sorted(json.loads(line)["folder"] for line in (other / "rows.jsonl").read_text().splitlines()) == sorted(
            set(here["folder"])
        )
    assert not any(f"--seed={seed} " in line for line in calls(other) for seed in (1, 2))
    (other / "rows.jsonl").write_text('{"folder": "seed_1/x"}\n')
    assert compare.main(arguments(other, f"--rows={other}/rows.jsonl")) == 2
    assert "rows.jsonl was not written by compare.py --rows (KeyError('reading'))" in capsys.readouterr().err


def test_choices_made_elsewhere_are_confirmed_without_the_selection(
    copy: Path, tmp_path_factory, monkeypatch, capsys
) -> None:
    assert compare.main(arguments(copy, "--confirm")) == 0
    here, choices = results(copy), copy / "out/choices.json"
    other = tmp_path_factory.mktemp("other")
    monkeypatch.setenv("FAKE_FOLDER", str(other))
    (other / "comparison.toml").write_text(CONFIG)
    for _ in range(2):  # the second finds all done
        assert compare.main(arguments(other, f"--choices={choices}")) == 0
    there = results(other)
    assert set(there["phase"]) == {"confirmation"}
    assert not any(f"--seed={seed} " in line for line in calls(other) for seed in (1, 2, 3))
    columns = ["seed", "method", "variant", "test_accuracy"]
    confirmed = here[here["phase"] == "confirmation"].reset_index(drop=True)
    pd.testing.assert_frame_equal(there[columns], confirmed[columns])
    summaries = [pd.read_csv(folder / "out/summary.csv").query('phase == "confirmation"') for folder in (copy, other)]
    against = [summary[["method", "variant", "against"]].reset_index(drop=True) for summary in summaries]
    pd.testing.assert_frame_equal(*against)

    before, changed = calls(other), other / "changed.json"
    frozen = json.loads(choices.read_text())
    frozen["choices"][0]["baselines"].reverse()
    changed.write_text(json.dumps(frozen))
    capsys.readouterr()
    assert compare.main(arguments(other, f"--choices={changed}")) == 2
    assert "has other choices than" in capsys.readouterr().err
    (other / "comparison.toml").write_text(CONFIG.replace("+2", "+3", 1))
    assert compare.main(arguments(other, f"--choices={choices}")) == 2
    assert "was written for another methods.continued" in capsys.readouterr().err
    (other / "comparison.toml").write_text(SHORT)
    assert compare.main(arguments(other, f"--choices={choices}")) == 2
    assert "--choices needs confirmation_seeds" in capsys.readouterr().err
    assert calls(other) == before


def test_choices_from_elsewhere_leave_a_selection_in_the_tables(copy: Path, tmp_path_factory, monkeypatch) -> None:
    other = tmp_path_factory.mktemp("selected")
    shutil.copytree(copy, other, dirs_exist_ok=True)
    assert compare.main(arguments(other, "--confirm")) == 0
    selected = results(other).query("phase == 'selection'")
    made = calls(copy)
    assert compare.main(arguments(copy, f"--choices={other}/out/choices.json")) == 0
    table = results(copy)
    assert set(table["phase"]) == {"selection", "confirmation"}
    columns = ["seed", "method", "variant", "test_accuracy", "chosen"]
    pd.testing.assert_frame_equal(table.query("phase == 'selection'")[columns], selected[columns])
    assert not any(f"--seed={seed} " in line for line in calls(copy)[len(made) :] for seed in (1, 2, 3))


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


def test_what_a_divergence_is_known_by() -> None:
    """The trainers' own sentences; not a path, nor a damaged file, which may be whole the next time."""
    said = []
    for file in ("stage1/train.cpp", "stage2/train.cpp", "lib/run/state.cpp", "lib/engine/passes/loss_scale.cpp"):
        text = re.sub(r'"\s+"', "", (COMPARE.parents[1] / file).read_text())
        said += [line for line in re.findall(r'"(\[[^"]*)"', text) if "not finite" in line]
    assert len(said) == 6
    for line in said:
        assert DIVERGED.search(f"dimred stage1: error: {line.replace('{}', '3')}"), line
    for line in (
        "[file] '/data/infinite/x' does not exist",
        "[file] '/data/the loss/is not finite/x' does not exist",
        "[state] '/runs/a/state.json' is damaged: value 3 is not finite",
        "[snapshot] '/runs/a/s.h5' is damaged: weights[3] is not finite",
        "[options] needs a finite number, received x",
    ):
        assert not DIVERGED.search(f"dimred stage1: error: {line}"), line


@pytest.mark.parametrize("damage", ["curve", "outcome"])
def test_damaged_and_half_finished_runs_are_named_and_counted(damage: str, copy: Path, capsys) -> None:
    folder = copy / "out" / results(copy).query("method == 'annealed' and seed == 2")["folder"].iloc[0]
    if damage == "curve":
        (folder / "curve.csv").write_text("stage,weights\n")
        capsys.readouterr()
        assert compare.main(arguments(copy)) == 1
        assert f"annealed, seed 2 (selection): damaged: [dimred.runs] {folder}/curve.csv" in capsys.readouterr().out
        table = results(copy)
        assert table["outcome"].value_counts().to_dict() == {"finished": 26, "damaged": 1}
    else:  # taken up again, and finished without another row
        rows = (folder / "curve.csv").read_text()
        (folder / "manifest.json").write_text('{"outcome": "running"}')
        assert compare.main(arguments(copy)) == 0
        assert (folder / "curve.csv").read_text() == rows


def test_every_combination_is_there(fake: Path) -> None:
    more = '[axes.methods]\nstart = ["last", "mean"]\n[axes.stage1]\nlearning_rate = [0.0, 0.2]\n'
    (fake / "comparison.toml").write_text(
        SHORT.replace("[1, 2]", "[1]") + more + "[axes.matrices]\ncomponents = [4, 8]\n"
    )
    assert compare.main(arguments(fake)) == 0
    robust = results(fake).query("method == 'robust'")
    found = set(
        zip(robust["matrices.components"], robust["methods.start"], robust["stage1.learning_rate"], strict=True)
    )
    assert found == set(itertools.product((4, 8), ("last", "mean"), (0.0, 0.2)))
    annealed = results(fake).query("method == 'annealed'")
    assert annealed["methods.start"].isna().all()  # stage 1 has no such option
    assert len(annealed) == 2
