"""Training on attacked images, and evaluation of them."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pytest

SMALL = ["--train_samples=800", "--test_samples=200", "--validation_fraction=0.2", "--threads=1", "--quiet"]
PGD = ["--attack=pgd", "--epsilon=0.1", "--attack_steps=5", "--attack_samples=100", "--threads=1"]


def rows(run: Path) -> list[dict[str, str]]:
    with (run / "curve.csv").open() as file:
        return list(csv.DictReader(file))


def losses(said: str) -> list[tuple[float, float, int]]:
    """Loss, accuracy and samples of each line of evaluate."""
    return [(float(a), float(b), int(c)) for a, b, c in re.findall(r"loss ([\d.]+)  accuracy ([\d.]+) %  \((\d+) samples\)", said)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, execute: Callable[..., str]) -> Path:
    """clean and attacked: stage 1 of three epochs each."""
    folder = tmp_path_factory.mktemp("attack")
    execute("dimred", "stage1", *SMALL, "--epochs=3", "--output", folder / "clean")
    execute("dimred", "stage1", *SMALL, "--epochs=3", "--attack=fgsm", "--epsilon=0.1", "--output", folder / "attacked")
    return folder


def test_training_on_attacked_images_defends_and_costs_its_passes(trained: Path, execute: Callable[..., str]) -> None:
    clean, attacked = (losses(execute("dimred", "evaluate", trained / run, *PGD)) for run in ("clean", "attacked"))
    assert [score[2] for score in clean] == [160, 100, 200, 100]  # validation, of it attacked, test, of it attacked
    assert attacked[3][0] < 0.95 * clean[3][0]  # loss under attack
    last = rows(trained / "attacked")[-1]
    assert int(last["backward_passes"]) == int(last["forward_passes"]) == 2 * int(last["step"])
    again = losses(execute("dimred", "evaluate", trained / "attacked", *PGD))
    assert again == attacked
    assert len(losses(execute("dimred", "evaluate", trained / "attacked"))) == 2  # of the images as they are


def test_stage_2_goes_on_as_stage_1_was_attacked(trained: Path, tmp_path: Path, execute: Callable[..., str]) -> None:
    execute(
        "dimred", "stage2", trained / "attacked", "--n_component=2", "--epochs=1", "--threads=1", "--quiet", "--output", tmp_path / "two"
    )
    config = (tmp_path / "two" / "config.toml").read_text()
    assert 'attack = "fgsm"' in config and "epsilon = 0.1\n" in config
    first, last = rows(tmp_path / "two")[0], rows(tmp_path / "two")[-1]
    steps = int(last["step"])
    assert int(last["backward_passes"]) == 2 * steps and int(last["forward_passes"]) >= 3 * steps + int(first["forward_passes"])


def test_a_stopped_run_goes_on_with_the_same_bits_and_ranks_share_the_attack(
    trained: Path, tmp_path: Path, binaries: Path, execute
) -> None:
    common = [*SMALL, "--attack=pgd", "--attack_steps=2", "--epsilon=0.1", "--epochs=2"]
    execute("dimred", "stage1", *common, "--output", tmp_path / "whole")
    execute("dimred", "stage1", *common, "--stop_at_step=13", "--output", tmp_path / "parts")
    execute("dimred", "stage1", *common, "--resume_from", tmp_path / "parts", "--output", tmp_path / "onward")
    final = [rows(tmp_path / run)[-1]["test_loss"] for run in ("whole", "onward")]
    assert final[0] == final[1]


def test_an_attack_that_cannot_be_is_refused(tmp_path: Path, fails: Callable[..., str]) -> None:
    out = ["--output", tmp_path / "run"]
    assert "attack needs --epsilon in (0, 1), received 0" in fails(2, "stage1", *SMALL, "--attack=fgsm", *out)
    assert "epsilon has no effect: it needs attack = fgsm or pgd" in fails(2, "stage1", *SMALL, "--epsilon=0.1", *out)
    line = fails(2, "stage1", *SMALL, "--attack=fgsm", "--epsilon=0.1", "--attack_steps=3", *out)
    assert "attack_steps has no effect: it needs attack = pgd" in line
    assert "needs a number in [0, 1)" in fails(2, "stage1", *SMALL, "--attack=fgsm", "--epsilon=1", *out)
    assert not (tmp_path / "run").exists()
