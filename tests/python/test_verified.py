"""experiments/verified.py: what it takes from a comparison, and what it makes of the verifications."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import verified
from run_folders import row, write_run

from dimred.runs import holm, paired_difference

# Verifies weights whose text is the accuracy, and counts its calls.
DIMRED = """#!{python}
import json, os, sys
from pathlib import Path
command, weights, _, pairs, _, output, _ = sys.argv[1:]
if Path(weights).read_text() == "damaged":
    sys.exit(sys.stderr.write("dimred verify: error: damaged\\n") and 1)
if Path(weights).read_text() == "killed":
    os.kill(os.getpid(), 9)
with Path({calls!r}).open("a") as stream:
    stream.write(weights + "\\n")
Path(output).mkdir(parents=True, exist_ok=True)
record = {{"accuracy": float(Path(weights).read_text()), "pairs_file": pairs}}
(Path(output) / "verification.json").write_text(json.dumps(record))
"""
ACCURACY = {"last": [0.80, 0.82, 0.81], "annealed": [0.90, 0.91, 0.93], "robust": [0.91, 0.90, 0.95]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A comparison of three seeds at one budget; of stage 1 three snapshots, ten steps an epoch."""
    lines = []
    for seed in (1, 2, 3):
        start = write_run(tmp_path / f"set/seed_{seed}/stage1", [row(2, 0.5, step=20)], steps_per_epoch=10)
        (start / "snapshots").mkdir()
        for step, accuracy in ((5, 0.5), (10, 0.6), (20, 0.7)):
            (start / "snapshots" / f"snapshot_{step:08}.h5").write_text(str(accuracy + seed / 100))
        lines.append({"role": "start", "method": "stage 1", "seed": seed, "folder": f"seed_{seed}/stage1"})
        for method, accuracies in ACCURACY.items():
            run = tmp_path / f"set/seed_{seed}/{method}"
            run.mkdir()
            (run / "final.h5").write_text(str(accuracies[seed - 1]))
            budget = None if method == "last" else 0.1
            lines.append(
                {
                    "role": "baseline",
                    "method": method,
                    "seed": seed,
                    "folder": f"seed_{seed}/{method}",
                    "methods.budget": budget,
                }
            )
    results = pd.DataFrame(lines).assign(phase="selection", outcome="finished", variant="")
    broken = {
        "role": "method",
        "method": "robust",
        "seed": 4,
        "folder": "nowhere",
        "phase": "selection",
        "outcome": "failed",
    }
    pd.concat([results, pd.DataFrame([broken])]).to_csv(tmp_path / "set/results.csv", index=False)
    summary = [{"method": method, "baseline": method == "annealed", "against": "annealed"} for method in ACCURACY]
    summary = (
        pd.DataFrame(summary)
        .assign(role="any", variant="", chosen=True, phase="selection", compared_at="no more passes")
        .assign(**{"methods.budget": 0.1})
    )
    summary.to_csv(tmp_path / "set/summary.csv", index=False)
    (tmp_path / "pairs.txt").write_text("pairs")
    dimred = tmp_path / "dimred"
    dimred.write_text(DIMRED.format(python=sys.executable, calls=str(tmp_path / "calls")))
    dimred.chmod(0o755)
    return tmp_path / "set"


def words(folder: Path) -> list[str]:
    """The words of the command line."""
    return [str(folder), "--pairs", str(folder.parent / "pairs.txt"), "--dimred", str(folder.parent / "dimred")]


def test_tables_are_of_the_verified_runs(folder: Path, capsys) -> None:
    assert verified.main(words(folder)) == 0
    text = capsys.readouterr().out
    epochs = [line.split() for line in text.splitlines()[2:4]]
    assert epochs == [["1", "3", "62.00", "1.00"], ["2", "3", "72.00", "1.00"]]  # not of half an epoch
    against = [paired_difference(ACCURACY[name], ACCURACY["annealed"]) for name in ("last", "robust")]
    corrected = holm([against[0].p, against[1].p])
    rows = {line.split()[1]: line for line in text.splitlines()[7:10]}
    assert rows["last"].split()[3:7] == ["3", "81.00", "1.00", "3"]
    for name, difference, p in zip(("last", "robust"), against, corrected, strict=True):
        mean = np.mean(ACCURACY[name])
        for part in (f"{100 * mean:.2f}", f"{100 * difference.mean:+.2f}", f"{difference.p:.3g}", f"{p:.3g}"):
            assert part in rows[name]
    assert "the best" in rows["annealed"]
    table = pd.read_csv(folder / "verification.csv")
    assert list(table["verified"]) == [
        ACCURACY[method][seed - 1] for method, seed in zip(table["method"], table["seed"], strict=True)
    ]
    assert len(table) == 9


def test_nothing_is_verified_twice_but_what_has_changed(folder: Path) -> None:
    calls = folder.parent / "calls"
    assert verified.main(words(folder)) == 0
    first = calls.read_text().splitlines()
    assert len(first) == len(set(first)) == 9 + 2 * 3
    assert verified.main(words(folder)) == 0
    assert calls.read_text().splitlines() == first
    changed = folder / "seed_2/robust/final.h5"
    changed.write_text("0.5")
    assert verified.main(words(folder)) == 0
    assert calls.read_text().splitlines()[len(first) :] == [str(changed)]
    (folder.parent / "pairs.txt").write_text("others")
    assert verified.main(words(folder)) == 0
    assert len(calls.read_text().splitlines()) == 2 * len(first) + 1


def test_what_cannot_be_verified_is_named(folder: Path, capsys) -> None:
    (folder / "seed_1/last/final.h5").write_text("damaged")
    assert verified.main(words(folder)) == 1
    assert capsys.readouterr().err == f"verified: {folder}/seed_1/last/final.h5: dimred verify: error: damaged\n"
    assert verified.main([*words(folder), "--phase=confirmation"]) == 1
    assert "no finished run of its confirmation" in capsys.readouterr().err


def test_a_verifier_that_is_killed_is_named(folder: Path, capsys) -> None:
    (folder / "seed_1/last/final.h5").write_text("killed")
    assert verified.main(words(folder)) == 1
    says = f"verified: {folder}/seed_1/last/final.h5: dimred verify ended with -9 and said nothing\n"
    assert capsys.readouterr().err == says


def test_an_axis_may_be_of_text(folder: Path, capsys) -> None:
    for name in ("results.csv", "summary.csv"):
        table = pd.read_csv(folder / name)
        table.assign(**{"stage1.precision": "bfloat16"}).to_csv(folder / name, index=False)
    assert verified.main(words(folder)) == 0
    assert len([line for line in capsys.readouterr().out.splitlines() if "bfloat16" in line.split()]) >= 3


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("results.csv", "", "No columns to parse from file"),
        ("results.csv", "a,b\n1,2\n", "the column phase is missing"),
        ("summary.csv", "phase,role\n", "the column compared_at is missing"),
    ],
)
def test_tables_of_another_kind_are_named_before_any_work(
    folder: Path, capsys, name: str, text: str, says: str
) -> None:
    (folder / name).write_text(text)
    assert verified.main(words(folder)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"verified: {folder / name} needs to be a table that compare.py wrote") and line.endswith(
        says
    )
    assert not (folder.parent / "calls").exists()


@pytest.mark.parametrize("name", ["verification.csv", "verification.txt"])
def test_no_other_file_is_replaced(folder: Path, capsys, name: str) -> None:
    (folder / name).write_text("somebody's own")
    assert verified.main(words(folder)) == 1
    assert f"{folder / name} exists already and is not an earlier table" in capsys.readouterr().err
    assert (folder / name).read_text() == "somebody's own"
    assert not (folder.parent / "calls").exists()
    (folder / name).unlink()
    for _ in range(2):
        assert verified.main(words(folder)) == 0


def test_no_jobs_at_a_time_are_refused(folder: Path, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        verified.main([*words(folder), "--jobs=0"])
    assert "--jobs needs a number above 0, received 0" in capsys.readouterr().err


def lines_of(text: str, method: str) -> list[list[str]]:
    """Cells of the second table's lines of a method."""
    return [cells for cells in (line.split() for line in text.splitlines()) if method in cells[:2]]


def test_what_is_missing_is_told(folder: Path, capsys) -> None:
    table = pd.read_csv(folder / "results.csv")
    table.loc[(table["method"] == "robust") & table["seed"].isin([1, 2]), "outcome"] = "failed"
    table.to_csv(folder / "results.csv", index=False)
    assert verified.main(words(folder)) == 0
    text = capsys.readouterr().out
    assert "nan" not in text
    ((*_, n, mean, sd, pairs, difference, interval, p, corrected),) = lines_of(text, "robust")
    assert (n, mean, sd, pairs, difference, interval, p, corrected) == ("1", "95.00", "–", "1", "+2.00", "–", "–", "–")
    ((*_, n, _, _, pairs, _, _, _, _, _, _),) = lines_of(text, "last")
    assert (n, pairs) == ("3", "3")


def test_conditions_of_stage_1_are_not_pooled(folder: Path, capsys) -> None:
    table = pd.read_csv(folder / "results.csv")
    table["stage1.width"] = table["seed"].map({1: 8, 2: 16, 3: 16})
    table.to_csv(folder / "results.csv", index=False)
    summary = pd.read_csv(folder / "summary.csv")
    pd.concat([summary.assign(**{"stage1.width": width}) for width in (8, 16)]).to_csv(
        folder / "summary.csv", index=False
    )
    assert verified.main(words(folder)) == 0
    first = [line.split() for line in capsys.readouterr().out.split("\n\n")[0].splitlines()[2:]]
    assert first == [
        ["8", "1", "1", "61.00", "–"],
        ["8", "2", "1", "71.00", "–"],
        ["16", "1", "2", "62.50", "0.71"],
        ["16", "2", "2", "72.50", "0.71"],
    ]


def test_a_test_that_stands_at_two_budgets_counts_once(folder: Path, capsys) -> None:
    table = pd.read_csv(folder / "results.csv")
    table.loc[table["method"] == "annealed", "methods.budget"] = None
    table.to_csv(folder / "results.csv", index=False)
    summary = pd.read_csv(folder / "summary.csv")
    more = summary[summary["method"] != "robust"].assign(**{"methods.budget": 1.0})
    pd.concat([summary, more]).to_csv(folder / "summary.csv", index=False)
    assert verified.main(words(folder)) == 0
    last, again = lines_of(capsys.readouterr().out, "last")
    against = [paired_difference(ACCURACY[name], ACCURACY["annealed"]).p for name in ("last", "robust")]
    assert (last[2], again[2]) == ("0.1", "1")
    assert last[-1] == again[-1] == f"{holm(against)[0]:.3g}"  # of two tests, not of three
