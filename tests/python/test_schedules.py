"""Every published schedule against its source's own arithmetic, through `inspect --schedule`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli import rows_in
from reference import learning_rates

EPOCHS, PER_EPOCH = 12, 25
STEPS = EPOCHS * PER_EPOCH

MINDSPORE = {
    "linear": ["linear", "--end_learning_rate=0.002", "--warmup_epochs=2"],
    "poly": ["polynomial", "--power=2", "--warmup_epochs=2"],
    "steps": ["mindspore-steps", "--warmup_epochs=2"],
    "cosine": ["mindspore-cosine", "--warmup_epochs=2"],
    "step": ["mindspore-step"],
}


@pytest.fixture
def rates(execute: Callable[..., str], tmp_path: Path) -> Callable[..., list[float]]:
    """The rates of all steps of `dimred inspect --schedule KIND options`."""

    def call(kind: str, *options: str, epochs: int = EPOCHS) -> list[float]:
        file = tmp_path / "rates.csv"
        lengths = [f"--epochs={epochs}", f"--steps_per_epoch={PER_EPOCH}"]
        execute("dimred", "inspect", "--schedule", kind, *options, *lengths, "--csv", file)
        rows = rows_in(file)
        assert [int(row["step"]) for row in rows] == list(range(epochs * PER_EPOCH))
        return [float(row["learning_rate"]) for row in rows]

    return call


def assert_same(received: list[float], expected: list[float]) -> None:
    """Both in float64 with other orders of operations; a power of e carries 300 roundings at most."""
    np.testing.assert_allclose(received, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("scheme", ["luong5", "luong10", "luong234"])
@pytest.mark.parametrize("warmup", [0, 40, 170])
@pytest.mark.parametrize("kind", ["exponential", "polynomial"])
def test_fastnn(rates, kind: str, scheme: str, warmup: int) -> None:
    """170 warm-up steps reach into the decay, which multiplies them."""
    stop = 287  # divides by nothing
    expected = learning_rates.fastnn(kind, 0.05, stop, decay_scheme=scheme, warmup_steps=warmup)
    options = [f"--decay_scheme={scheme}", f"--total_steps={stop}", "--learning_rate=0.05"]
    options += [f"--warmup_steps={warmup}", "--warmup_scheme=t2t"] if warmup else []
    ours = {
        "exponential": ["exponential", "--factor=0.94"],
        "polynomial": ["fastnn-polynomial", "--end_learning_rate=1e-4"],
    }[kind]
    assert_same(rates(*ours, *options)[:stop], expected)


@pytest.mark.parametrize("kind", ["exponential", "polynomial", "fixed"])
def test_fastnn_without_a_decay_scheme_is_constant(rates, kind: str) -> None:
    expected = learning_rates.fastnn(kind, 0.05, STEPS, decay_scheme="", warmup_steps=40)
    warmup = [] if kind == "fixed" else ["--warmup_steps=40", "--warmup_scheme=t2t"]
    assert_same(rates("constant", "--learning_rate=0.05", *warmup), expected)


@pytest.mark.parametrize("mode", MINDSPORE)
def test_mindspore(rates, mode: str) -> None:
    """get_lr's modes; its cosine with lr_init = 0 is warmup_cosine_annealing_lr."""
    kind, *options = MINDSPORE[mode]
    start = 0.0 if mode == "step" else 0.01
    expected = learning_rates.mindspore(mode, start, 0.002, 0.8, 2 * PER_EPOCH, STEPS)
    options += ["--learning_rate=0.8", f"--start_learning_rate={start}"]
    assert_same(rates(kind, *options), expected)


@pytest.mark.parametrize("batch", [256, 1024, 4096])
@pytest.mark.parametrize("warmup", [0, 2])
def test_plsc(rates, batch: int, warmup: int) -> None:
    expected = learning_rates.plsc(0.1, batch, [100, 160, 220], warmup * PER_EPOCH, STEPS)
    options = ["--milestones=100,160,220", "--milestone_unit=steps", f"--warmup_epochs={warmup}"]
    assert_same(rates("plsc", *options, f"--global_batch_size={batch}"), expected)


@pytest.mark.parametrize(
    "strategy", ["5:0.1->0.4,10:0.4=>0.8,20:0.08", "5:0.1->0.4,10:0.4=>0.8,15:0.8,20:0.08", "10:0.01,20:0.001"]
)
def test_moxing(rates, strategy: str) -> None:
    expected = learning_rates.moxing(strategy, PER_EPOCH, 24)  # 4 epochs beyond the last piece
    assert_same(rates("piecewise", f"--pieces={strategy}", epochs=24), expected)


def test_drawing(execute, tmp_path: Path) -> None:
    """The text says what it draws; its columns fall where the rate does."""
    file = tmp_path / "rate.csv"
    words = ["--schedule=plsc", "--milestones=100,160", "--milestone_unit=steps", "--csv", file]
    shown = execute("dimred", "inspect", *words, "--global_batch_size=2048", "--steps_per_epoch=2")
    assert "learning rate: plsc" in shown
    assert "step      100  epoch    50.00  rate 0.02" in shown
    rows = [line[10:].ljust(72) for line in shown.splitlines() if line[9:10] in "+|" and len(line) > 9]
    tops = [next(row for row in range(14) if rows[row][column] == "*") for column in range(72)]
    assert len(rows) == 14
    assert tops[0] == 0
    assert tops == sorted(tops)
    assert len(set(tops)) == 3
    assert len(file.read_text().splitlines()) == 181


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["exponential"], "need decay_scheme luong5, luong10 or luong234"),
        (
            ["linear", "--decay_scheme=luong5"],
            "decay_scheme has no effect: it needs schedule = exponential, polynomial",
        ),
        (["exponential", "--decay_scheme=luong10", "--total_steps=18"], "long enough for 10 decays"),
        (["piecewise"], "needs pieces for the piecewise schedule"),
        (["piecewise", "--pieces=5:0.1,5:0.2"], "piece 5:0.2 needs an end epoch > 5"),
        (["piecewise", "--pieces=5:0=>1"], "piece 5:0=>1 needs a number > 0, received 0"),
        (["piecewise", "--pieces=5"], "needs END_EPOCH:RATE"),
        (["piecewise", "--pieces=5:1", "--warmup_epochs=1"], "needs no warm-up with the schedules piecewise"),
        (["plsc", "--milestones=4"], "needs global_batch_size > 0, received 0"),
        (["linear", "--warmup_epochs=2", "--warmup_steps=9"], "warmup_steps = 0 if warmup_epochs > 0"),
        (["linear", "--total_epochs=9", "--total_steps=9"], "total_steps = 0 if total_epochs > 0"),
        (["linear", "--warmup_steps=300", "--total_steps=300"], "needs a warm-up shorter than"),
        (["linear", "--warmup_scheme=t2t", "--warmup_steps=9", "--start_learning_rate=1"], "no start_learning_rate"),
        (["lienar"], "needs one of constant | linear"),
    ],
)
def test_what_contradicts_itself_is_refused(fails, options: list[str], said: str) -> None:
    lengths = [f"--epochs={EPOCHS}", f"--steps_per_epoch={PER_EPOCH}"]
    assert said in fails(2, "inspect", "--schedule", *options, *lengths)
