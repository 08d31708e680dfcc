"""The experiment scripts' arithmetic and their way of going on where they were stopped."""

from __future__ import annotations

import json
import math
from pathlib import Path

import grey_folder
import pytest
import recipe_seeds
from PIL import Image
from workbench import jobs
from workbench.text_table import interval, number, percent


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


def test_flags_are_as_dimred_takes_them() -> None:
    assert jobs.flags({"a": True, "b": [1, 2.5], "c": None, "d": "x"}) == ["--a=true", "--b=1,2.5", "--d=x"]


def test_a_matrix_is_done_with_its_sidecar(tmp_path: Path) -> None:
    matrix = tmp_path / "p.npy"
    matrix.touch()
    assert not jobs.is_done("pca", matrix)
    matrix.with_suffix(".json").touch()
    assert jobs.is_done("pca", matrix)
    matrix.unlink()
    assert not jobs.is_done("pca", matrix)


def test_numbers_that_are_not_there_are_dashes() -> None:
    assert (number(1.234, "+"), percent(0.12)) == ("+1.23", "12.00")
    assert interval(0.1, 0.2, "+", percent) == "+10.00 to +20.00"
    assert (number(math.nan), percent(math.nan), interval(math.nan, 1)) == ("–", "–", "–")


def test_a_failed_command_says_which_and_why(tmp_path: Path) -> None:
    program = fake_dimred(tmp_path, "echo '[stage1] needs more' >&2; exit 2")
    with pytest.raises(jobs.CommandFailed, match=r"stage1 ended with 2: \[stage1\] needs more"):
        jobs.train(program, "stage1", tmp_path / "run", {})


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
    assert "would have the same name a/1.jpg" in capsys.readouterr().err
    (source / "a/1.png").write_bytes(b"no image")
    (source / "a/1.jpg").unlink()
    assert grey_folder.main([str(source), str(tmp_path / "other")]) == 1
    assert sorted(item.name for item in tmp_path.iterdir()) == ["grey", "photographs"]
