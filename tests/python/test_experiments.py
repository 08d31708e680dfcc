"""The experiment scripts' arithmetic and their way of going on where they were stopped."""

from __future__ import annotations

import json
import math
from pathlib import Path

import equal_time
import grey_folder
import pytest
import recipe_seeds
import robustness
from PIL import Image
from robustness import Result
from run_folders import row, write_run
from workbench import jobs


def result(seed: int, delta: float, finite: bool = True) -> Result:
    return Result("robust", 64, seed, 1, 90.0, 90.0 + delta, finite, "")


def test_robustness_counts_losses_and_runs_that_are_not_finite() -> None:
    results = [result(1, 1.0), result(2, -0.5), result(3, -0.6), result(4, math.nan, finite=False)]
    (row,) = robustness.table_rows(results)
    assert row == ["robust", "64", "4", "1", "90.00", "-0.60", "-0.03", "+1.00", "2"]


def test_robustness_spreads_seeds_over_the_stage1_runs() -> None:
    options = robustness.parse(["--output", "x", "--presets", "dldr", "--batch_sizes", "64"])
    planned = robustness.jobs_of(options)
    assert [job.seed for job in planned] == list(range(1, 21))
    assert [job.stage1_seed for job in planned[:4]] == [1, 2, 3, 1]


def test_mean_and_deviation_are_the_samples() -> None:
    assert recipe_seeds.mean_and_deviation([1.0, 2.0, 3.0], "+") == "+2.00 ± 1.00"
    assert recipe_seeds.mean_and_deviation([1.0]) == "1.00 ± –"


def fake_dimred(folder: Path, body: str) -> Path:
    """A program in place of dimred that counts its calls in calls.txt."""
    program = folder / "dimred"
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls.txt\n{body}\n')
    program.chmod(0o755)
    return program


def test_finished_runs_are_not_repeated_and_others_are_resumed(tmp_path: Path) -> None:
    program = fake_dimred(tmp_path, "exit 0")
    run = tmp_path / "run"
    run.mkdir()
    (run / "manifest.json").write_text(json.dumps({"outcome": "finished"}))
    jobs.train(program, "stage1", run, {"seed": 1})
    assert not (tmp_path / "calls.txt").exists()
    (run / "manifest.json").write_text(json.dumps({"outcome": "interrupted"}))
    jobs.train(program, "stage1", run, {"seed": 1, "config": None})
    assert (tmp_path / "calls.txt").read_text() == f"stage1 --seed=1 --output={run} --quiet=true\n"


def test_a_failed_command_says_which_and_why(tmp_path: Path) -> None:
    program = fake_dimred(tmp_path, "echo '[stage1] needs more' >&2; exit 2")
    with pytest.raises(jobs.CommandFailed, match=r"stage1 ended with 2: \[stage1\] needs more"):
        jobs.train(program, "stage1", tmp_path / "run", {})


def test_accuracies_at_equal_time(tmp_path: Path, capsys) -> None:
    for seed, last in ((1, 0.8), (2, 0.6)):
        write_run(tmp_path / f"slow_{seed}", [row(epoch, last * epoch / 4) for epoch in (1, 2, 4)])
    write_run(tmp_path / "fast", [row(1, 0.3, seconds=0.5), row(2, 0.9, seconds=4.0)])
    slow, fast = ["--group", "slow", str(tmp_path / "slow_*")], ["--group", "fast", str(tmp_path / "fast")]
    names = {"class_names": ["a", "b"]}
    for folder in tmp_path.iterdir():
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps(manifest | names))
    assert equal_time.main([*slow, *fast]) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()[3:]]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells == [["1.0", "50.0 ± 0.0", "30.0"], ["2.0", "17.5 ± 3.5", "30.0"],
                     ["3.0", "17.5 ± 3.5", "30.0"], ["4.0", "35.0 ± 7.1", "90.0"]]  # fmt: skip
    assert equal_time.main([*slow, "--group", "slow", str(tmp_path / "fast")]) == 1
    assert "needs different names" in capsys.readouterr().err
    write_run(tmp_path / "more", [row(5, 0.9)], config='resume_from = "slow_1"\n')
    assert equal_time.main([*slow, "--group", "more", str(tmp_path / "more")]) == 1
    assert "needs runs that begin themselves" in capsys.readouterr().err


def test_a_grey_folder_is_whole_upright_or_not_there(tmp_path: Path, capsys) -> None:
    source, target = tmp_path / "photographs", tmp_path / "grey"
    (source / "a").mkdir(parents=True)
    image = Image.new("RGB", (16, 8), (255, 0, 0))
    exif = Image.Exif()
    exif[0x0112] = 6  # a camera held upright
    image.save(source / "a/1.jpg", exif=exif)
    image.save(source / "a/2.png")
    assert grey_folder.main([str(source), str(target)]) == 0
    assert "2 images" in capsys.readouterr().out
    with Image.open(target / "a/1.jpg") as first, Image.open(target / "a/2.jpg") as second:
        assert (first.mode, first.size, second.size) == ("L", (8, 16), (16, 8))
        assert abs(second.getpixel((3, 3)) - 76) <= 2  # 0.299 of 255
    image.save(source / "a/1.png")
    assert grey_folder.main([str(source), str(tmp_path / "other")]) == 1
    assert "would both become a/1.jpg" in capsys.readouterr().err
    (source / "a/1.png").write_bytes(b"no image")
    (source / "a/1.jpg").unlink()
    assert grey_folder.main([str(source), str(tmp_path / "other")]) == 1
    assert sorted(item.name for item in tmp_path.iterdir()) == ["grey", "photographs"]
