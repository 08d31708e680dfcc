"""experiments/report.py on run folders whose every figure is known."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import report
from conftest import REPOSITORY
from run_folders import row, write_run
from workbench.charts import accuracy_charts
from workbench.page import page
from workbench.palette import STYLE
from workbench.ranks import groups, ranks_rows
from workbench.scales import log_ticks, nice_ticks
from workbench.summary import comparison, mixed
from workbench.svg import make_frame
from workbench.tables import best_baseline, independent, pairs

from dimred.runs import colours, read_runs
from dimred.runs import groups as groups_of


def marked(folder: Path, rows: list[dict[str, object]], config: str = "epochs = 3\n") -> Path:
    """A run folder whose manifest holds what HTML has to escape."""
    return write_run(folder, rows, config, revision="<b>&")


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Stage 1 of 3 epochs to 80 %, continued to 81 %, annealed to 90 %, stage 2 to 88.5 %."""
    stage1 = marked(tmp_path / "stage1", [row(e, 0.5 + 0.1 * e) for e in (1, 2, 3)])
    onward = f'[Saves]\nresume_from = "{stage1}"\n'
    continued = write_run(tmp_path / "continued", [row(4, 0.8), row(5, 0.81)], onward)
    annealed = write_run(tmp_path / "annealed", [row(4, 0.85), row(5, 0.9)], onward + "anneal_from_epoch = 3\n")
    robust = {"stage": "stage2", "method": "robust"}
    stage2 = write_run(
        tmp_path / "stage2",
        [
            row(0, 0.79, **robust),
            row(1, 0.86, **robust),
            row(2, 0.87, **robust),
            row(2, 0.885, **robust, weights="recalibrated"),
        ],
        f'checkpoint = "{stage1}/checkpoints/state_00000003"\npca_mat = "{tmp_path}/pca_mat.npy"\n',
    )
    (stage2 / "steps.csv").write_text(
        "epoch,step,loss,slope,trials,step_size,curvature,update,reset,residual_left_out,outcome\n"
        "1,1,.9,-1,1,1,0,none,0,0,accepted\n1,2,.8,-1,20,0,.1,skipped,1,0,no_decrease\n"
        "1,3,.7,-1,1,1,.1,updated,0,0,accepted\n"
    )
    pca = {"snapshots": 4, "explained_variance_ratio": [0.9, 0.05], "random_walk_ratio": [0.7, 0.2]}
    (tmp_path / "pca_mat.json").write_text(json.dumps(pca))
    return [stage1, continued, annealed, stage2]


def test_table_counts_each_runs_own_cost_and_compares_equal_epochs(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main([*map(str, runs), "--output", str(tmp_path / "report.html")]) == 0
    lines = capsys.readouterr().out.splitlines()
    cells = {line.split()[0]: re.split(r"  +", line) for line in lines[2:6]}
    assert cells["stage1"][2:] == ["3", "300", "6.0", "30", "0.5000", "80.00"]
    assert cells["continued"][2:] == ["3 + 2", "200", "4.0", "20", "0.5000", "81.00"]
    assert cells["annealed"][1:3] == ["sgd, annealed", "3 + 2"]
    assert cells["stage2"][2:] == ["3 + 2", "200", "4.0", "20", "0.5000", "88.50 (recalibrated)"]
    assert lines[6] == "stage2 88.50 %: 7.50 above continued (81.00), 1.50 below annealed (90.00)."


def test_children_are_plotted_behind_their_parent(runs: list[Path]) -> None:
    by_name = {run.name: run for run in read_runs(runs)}
    assert list(by_name["stage2"].curve["epoch"]) == [3, 4, 5, 5]
    assert by_name["continued"].start_epoch == 3
    assert [run.name for run in read_runs(runs[0])] == [run.name for run in read_runs([runs[0]])]
    assert {run.kind for run in by_name.values()} == {"stage 1", "continued", "annealed", "stage 2"}


def test_baselines_of_another_start_are_not_compared(runs: list[Path], tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", [row(3, 0.7)])
    config = f'resume_from = "{other}"\n'
    foreign = write_run(tmp_path / "foreign", [row(4, 0.7)], config)
    (sentence,) = comparison(read_runs([*runs, other, foreign]))
    assert "continued" in sentence
    assert "foreign" not in sentence


def test_page_is_whole_and_needs_nothing_from_outside(runs: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    report.main([*map(str, runs), "--output", str(output), "--title", "a < b & c"])
    html = output.read_text()
    assert not re.search(r"(src|href)\s*=|url\((?!#)|@import", html)
    assert "<h1>a &lt; b &amp; c</h1>" in html
    assert "&lt;b&gt;&amp;" in html  # the manifest's text is escaped too
    drawings = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    titles = [ElementTree.fromstring(svg).get("aria-label") for svg in drawings]
    assert "Test accuracy" in titles
    assert "Explained variance" in titles
    assert "Guards at work" in titles
    assert "A search fails if no trial lowers the loss enough." in html
    assert "failed searches (1)" in html
    assert "skipped updates of H (1)" in html
    assert "resets of H (1)" in html
    assert "95.0 %" in html  # explained, beside
    assert "90.0 %" in html  # the random walk's


def test_the_first_epochs_are_not_cut_off(tmp_path: Path) -> None:
    rows = [row(1, 0.1), *(row(epoch, 0.9) for epoch in range(2, 20))]
    (chart,) = accuracy_charts(read_runs([write_run(tmp_path / "run", rows)]))
    low, high = make_frame(chart).y
    assert low <= 10 and high >= 90


def test_validation_chooses_the_best_epoch_where_there_is_one(tmp_path: Path) -> None:
    rows = [row(1, 0.7, validation_accuracy=0.9), row(2, 0.8, validation_accuracy=0.6)]
    (run,) = read_runs([write_run(tmp_path / "run", rows)])
    assert run.best_by_validation()["test_accuracy"] == 0.7
    (plain,) = read_runs([write_run(tmp_path / "plain", [row(1, 0.7)])])
    assert plain.best_by_validation() is None


def test_a_folder_that_is_no_run_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "report.html"
    assert report.main([str(tmp_path), "--output", str(output)]) == 2
    assert f"{tmp_path} is not a run folder: no curve.csv is in it or in a folder below it" in capsys.readouterr().err
    assert not output.exists()


def test_what_is_damaged_or_not_finished_is_left_out_and_named(runs: list[Path], tmp_path: Path, capsys) -> None:
    (runs[1] / "curve.csv").write_text("stage,weights\n")
    (runs[2] / "manifest.json").write_text('{"outcome": "interrupted", "versions": {"dimred": "0.1.0"}}')
    assert report.main([*map(str, runs), "--output", str(tmp_path / "report.html")]) == 0
    said, html = capsys.readouterr().out, (tmp_path / "report.html").read_text()
    assert [line.split()[0] for line in said.splitlines()[2:4]] == ["stage1", "stage2"]
    for text in (said, html):
        assert "2 of 4 runs are not in this report:" in text
        assert f"{runs[1]}/curve.csv" in text
        assert f"{runs[2]} is not finished: its outcome is interrupted" in text
    assert report.main([str(runs[2]), "--output", str(tmp_path / "report.html")]) == 2
    assert "is not finished" in capsys.readouterr().err


def test_groups_are_named_by_what_differs(tmp_path: Path) -> None:
    """Two seeds of each; places and seeds do not count as differences."""
    for seed in (1, 2):
        for budget in (1, 2):
            config = f'budget = {budget}\noutput = "{tmp_path}/{seed}"\nseed = {seed}\n'
            write_run(tmp_path / f"seed_{seed}" / f"robust-0000000{budget}", [row(1, 0.5)], config, seed=seed)
    found = groups_of(read_runs(sorted(tmp_path.glob("seed_*/*"))))
    assert {name: [run.manifest["seed"] for run in members] for name, members in found.items()} == {
        "robust budget=1": [1, 2],
        "robust budget=2": [1, 2],
    }


@pytest.mark.parametrize("listed", ["all", "without their starts"])
def test_runs_are_paired_by_their_start(listed: str, tmp_path: Path) -> None:
    """Stage 2's own seed is 1 from any start, unless it is given."""
    for seed in (1, 2, 3):
        write_run(tmp_path / f"one_{seed}", [row(3, 0.5)], seed=seed)
        onward = f'resume_from = "{tmp_path}/one_{seed}"\n'
        known = {"validation_accuracy": 0.5}
        write_run(tmp_path / f"cont_{seed}", [row(4, 0.6 + 0.1 * seed, **known)], onward, seed=seed)
        own = {"stage": "stage2", "method": "robust", **known}
        start = f'checkpoint = "{tmp_path}/one_{seed}/final.h5"\n'
        write_run(tmp_path / f"two_{seed}", [row(1, 0.6 + 0.11 * seed, **own)], start, seed=1)
    runs = read_runs(sorted(tmp_path.glob("*_?" if listed == "all" else "[ct]*_?")))
    found = groups_of(runs)
    assert [[run.name for run in members] for members in found.values()] == [
        [f"{name}_{seed}" for seed in (1, 2, 3)] for name in ("cont", "one", "two") if name != "one" or listed == "all"
    ]
    (sentence,) = comparison(runs)
    assert "over 3 seeds, +2.00 points (-0.48 to +4.48) against cont" in sentence


def test_several_runs_of_one_start_are_told_apart_by_their_own_seeds(tmp_path: Path) -> None:
    write_run(tmp_path / "one", [row(3, 0.5)], seed=7)
    for seed in (1, 2, 3):
        own = {"stage": "stage2", "validation_accuracy": 0.5}
        for method, gain in (("sgd", 0.01), ("robust", 0.02)):
            config = f'checkpoint = "{tmp_path}/one"\nmethod = "{method}"\n'
            rows = [row(1, 0.6 + gain * seed, method=method, **own)]
            write_run(tmp_path / f"seed_{seed}" / method, rows, config, seed=seed)
    (sentence,) = comparison(read_runs([tmp_path / "one", *sorted(tmp_path.glob("seed_*/*"))]))
    assert "over 3 seeds, +2.00 points (-0.48 to +4.48) against sgd" in sentence
    assert pairs({(7, 1): 1.0, (7, 2): 3.0, (8, 1): 5.0}, {(7, 1): 1.5, (9, 1): 0.0}) == [(2.0, 1.5)]
    several = {(7, 1): 1.0, (7, 2): 3.0, (8, 1): 5.0, (8, 2): 7.0}  # two starts: two pairs, not four
    assert pairs(several, {key: value - 1 for key, value in several.items()}) == [(2.0, 1.0), (6.0, 5.0)]
    assert independent(several) == [2.0, 6.0]
    of_one = {(7, 1): 1.0, (7, 2): 3.0}
    assert pairs(of_one, of_one) == [(1.0, 1.0), (3.0, 3.0)] and independent(of_one) == [1.0, 3.0]


def test_of_many_runs_the_groups_that_validation_prefers_are_shown(tmp_path: Path, capsys) -> None:
    """15 groups of three seeds, and one of a single lucky seed."""
    folders = []
    for seed, group in itertools.product((1, 2, 3), range(16)):
        if group == 15 and seed > 1:
            continue
        accuracy = {"stage": "stage2", "method": "robust", "validation_accuracy": 0.5 + 0.01 * group}
        folders.append(
            write_run(
                tmp_path / f"seed_{seed}" / f"g{group}", [row(1, 0.6, **accuracy)], f"alpha = {group}\n", seed=seed
            )
        )
    assert report.main([*map(str, folders), "--output", str(tmp_path / "report.html")]) == 0
    said, html = capsys.readouterr().out, (tmp_path / "report.html").read_text()
    listed = [line.split()[0].rpartition("/")[2] for line in said.splitlines() if line.startswith("seed_")]
    assert listed == [f"g{group}" for group in range(14, 2, -1)]
    assert "(12 of 46 runs" in said
    assert "12 of 46 runs" in html
    assert "16 groups of stage 2, this one has the most seeds and then the best validation accuracy: g14 " in said
    assert all(f">g{group}</td>" in html for group in range(16))  # the tables over seeds hold all


def test_what_has_seen_the_validation_set_is_no_best_baseline(tmp_path: Path) -> None:
    runs = []
    for name, validation, config in (
        ("sgd", 0.90, ""),
        ("better", 0.91, "alpha = 2\n"),
        ("soup", 0.95, 'start = "soup"\n'),
        ("held_out", 0.96, 'train_on = "validation"\n'),
    ):
        reported = {"stage": "stage2", "method": "sgd", "validation_accuracy": validation}
        runs.append(write_run(tmp_path / name, [row(1, 0.6, **reported)], 'method = "sgd"\n' + config))
    found = groups_of(read_runs(runs))
    assert best_baseline(found) == "better"
    assert best_baseline({name: found[name] for name in ("soup", "held_out")}) == "held_out"


def test_every_group_of_many_has_a_look_of_its_own(tmp_path: Path) -> None:
    """14 groups of stage 2: more than there are colours."""
    looks = colours(
        read_runs(
            [
                write_run(tmp_path / f"g{i}", [row(1, 0.5, stage="stage2", method="robust")], f"alpha = {i}\n")
                for i in range(14)
            ]
        )
    )
    assert len(set(looks.values())) == 14
    style = STYLE.read_text()
    assert all(f".{part}.line" in style and f".key.{part}" in style for look in looks.values() for part in look.split())


def test_runs_that_do_not_compare_are_said_to(tmp_path: Path) -> None:
    about = {
        "a": {"layout_hash": "1", "train_data": "x"},
        "b": {"layout_hash": "1", "train_data": "x"},
        "c": {"layout_hash": "2", "train_data": "x"},
        "d": {"layout_hash": "2", "train_data": "y"},
    }
    runs = read_runs([write_run(tmp_path / name, [row(1, 0.5)], **facts) for name, facts in about.items()])
    assert mixed(runs[:2]) == []
    assert mixed(runs) == [
        "These runs have different networks; do not compare a with c.",
        "These runs have different training data; do not compare a with d.",
    ]
    assert comparison(runs)[:2] == mixed(runs)


def test_a_page_is_written_whole_through_a_link_and_over_nothing_else(runs: list[Path], tmp_path: Path, capsys) -> None:
    place, pipe = tmp_path / "report.html", tmp_path / "pipe"
    place.symlink_to("page.html")
    assert report.main([str(runs[0]), "--output", str(place)]) == 0
    assert place.is_symlink()
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    os.mkfifo(pipe)
    for output, rule in ((pipe, "is no regular file"), (tmp_path / "none" / "x.html", "does not exist")):
        assert report.main([str(runs[0]), "--output", str(output)]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert rule in line
    assert pipe.is_fifo()


def test_ticks_are_round_and_inside() -> None:
    assert nice_ticks(0.0, 10.0, 5) == [0, 2, 4, 6, 8, 10]
    assert nice_ticks(0.2, 3.1, 8, whole=True) == [1, 2, 3]
    assert log_ticks(0.04, 1.1) == [0.05, 0.1, 0.2, 0.5, 1]
    assert log_ticks(0.5, 2000.0) == [1, 10, 100, 1000]


def test_ranks_have_a_section_when_runs_differ_in_them(tmp_path: Path) -> None:
    """100 images in 2 s on one rank; three ranks in half the time."""
    folders = []
    for ranks, batch, seconds in ((1, 30, 2.0), (3, 30, 1.0), (3, 90, 0.5)):
        run = write_run(tmp_path / f"r{ranks}_{batch}", [row(1, 0.5, seconds=seconds, step=10, wire_bytes=2e7)])
        (run / "manifest.json").write_text(json.dumps({"ranks": ranks, "global_batch_size": batch}))
        folders.append(run)
    runs = read_runs(folders)
    rows = {cells[0]: cells for cells in ranks_rows(runs)}
    assert rows["r1_30"][5:] == ["1.00", "2.00 MB", "50.00"]
    assert rows["r3_30"][2:6] == ["10", "30", "100", "2.00"]
    assert rows["r3_90"][5] == "4.00"  # against one rank with the same share
    assert list(groups(runs)) == ["per-rank batch of 30", "global batch of 30"]
    assert "<h2>Ranks</h2>" in page("t", runs, None)
    assert "<h2>Ranks</h2>" not in page("t", runs[1:], None)


def test_report_draws_the_curves_of_verified_runs(tmp_path: Path, capsys) -> None:
    runs = [write_run(tmp_path / name, [row(1, 0.5)]) for name in ("one", "two")]
    page = tmp_path / "report.html"
    assert report.main([*map(str, runs), "--output", str(page)]) == 0
    assert "Verification" not in page.read_text()
    figures = {
        "accuracy": 0.9712,
        "accuracy_deviation": 0.004,
        "tar": 0.88,
        "tar_deviation": 0.01,
        "far": 0.001,
        "xnorm": 21.5,
        "pairs": 6000,
        "pairs_file": "/data/lfw.bin",
    }
    (runs[0] / "verification.json").write_text(json.dumps(figures))
    lines = [f"{t},{1 - 1 / (1 + t):.3f},{t / 4:.3f}" for t in np.arange(0, 4, 0.01)]
    (runs[0] / "roc.csv").write_text("\n".join(["threshold,true_positive_rate,false_positive_rate", *lines]))
    assert report.main([*map(str, runs), "--output", str(page)]) == 0
    html = page.read_text()
    for text in ("<h2>Verification</h2>", "lfw.bin", "97.12 ± 0.40", "88.00 ± 1.00", "6,000", 'aria-label="ROC"'):
        assert text in html, text
    capsys.readouterr()
    (runs[0] / "verification.json").write_text("{}")
    assert report.main([*map(str, runs), "--output", str(page)]) == 2
    assert "verification.json is damaged: it has no accuracy" in capsys.readouterr().err


def test_a_closed_pipe_ends_the_table_quietly(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(1, 0.5)])
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, REPOSITORY / "experiments" / "report.py", run, "--output", tmp_path / "report.html"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")
    assert (tmp_path / "report.html").exists()
