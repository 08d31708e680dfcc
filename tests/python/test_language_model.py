"""Runs behind two records, experiments/lm: stopped ones go on, diverged ones are rows, tables find what is there."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from lm import run, says_table, table
from lm.base import Base, make
from lm.says import measured
from lm.training import SCHEDULE_FREE, Diverged
from torch import nn
from torch.nn import functional

import dimred


class Line:
    """A task of a few weights."""

    name, kind, end, weight_decay, clip = "line", "AdamW", 160, 0.1, math.inf

    def start(self, seed):
        torch.manual_seed(seed)
        return nn.Linear(5, 2)

    def loss(self, model, seed, step):
        generator = torch.Generator().manual_seed(1000 * seed + step)
        return functional.mse_loss(model(torch.randn(4, 5, generator=generator)), torch.ones(4, 2))

    def losses(self, model):
        return (model.weight.square().sum().item(),) * 2


class StoppedLine(Line):
    """Interrupted when it comes to a step for the first time."""

    def __init__(self, *steps):
        self.steps = set(steps)

    def loss(self, model, seed, step):
        if step in self.steps:
            self.steps.remove(step)
            raise KeyboardInterrupt
        return super().loss(model, seed, step)


@pytest.mark.filterwarnings("ignore:.*from an earlier training")
def test_a_run_that_is_stopped_goes_on_bit_for_bit(tmp_path) -> None:
    whole = Base(Line(), 1, 0.01, tmp_path / "whole")
    make(whole, 160)
    cut = Base(StoppedLine(5, 103, 150), 1, 0.01, tmp_path / "cut")
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            make(cut, 160)
    make(cut, 144)
    make(cut, 160)
    for step in (128, 144, 157, 160):
        first, second = (base.at(step) for base in (whole, cut))
        assert first.step == second.step == step
        assert torch.equal(first.model.weight, second.model.weight)
    assert [file.name for file in cut.files()] == [file.name for file in whole.files()]
    assert len(cut.files()) == 80
    for one, other in zip(whole.files(), cut.files(), strict=True):
        weights = [dimred.average([file], last=1).w for file in (one, other)]
        assert np.array_equal(*weights)


def test_a_run_that_diverges_says_where(tmp_path) -> None:
    class Burst(Line):
        def loss(self, model, seed, step):
            return super().loss(model, seed, step) * (math.inf if step == 30 else 1)

    with pytest.raises(Diverged, match=r"at step 31$"):
        make(Base(Burst(), 1, 0.01, tmp_path), 160)


def test_rows_that_are_there_are_not_made_again(tmp_path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = run.Rows(file, ("seed", "arm"))
    rows.add([{"seed": 1, "arm": "a", "validation": 1.0}, {"seed": 1, "arm": "a", "validation": 2.0}])
    with pytest.raises(ValueError, match="JSON"):
        rows.add([{"seed": 2, "arm": "a", "validation": 1.0}, {"seed": 2, "arm": "a", "validation": math.nan}])
    assert run.Rows(file, ("seed", "arm")).done == {(1, "a")}
    assert len(file.read_text().splitlines()) == 2


@pytest.mark.parametrize(("away", "taken"), [(9e-5, 6), (2e-4, 0)])
def test_the_first_records_rows_serve_where_its_run_is_repeated(tmp_path, away: float, taken: int) -> None:
    merges = run.read_rows(run.MERGES)
    rows = run.Rows(tmp_path / "rows.jsonl", ("seed", "rate", "arm"))
    shared = [row | {"rate": 1e-3} for row in merges if row["seed"] == 2 and row["arm"] in run.SHARED]
    shared[3]["test"] += away
    rows.add(shared)
    for _ in range(2):  # the second time adds nothing
        run.take_over(rows, 2, merges)
    found = [row for row in run.read_rows(rows.file) if row.get("from") == "lm_merges"]
    assert len(found) == taken
    if taken:
        by_job = {(row["rate"], row["arm"], row["variant"]): row["test"] for row in found}
        theirs = {(row["arm"], row["variant"]): row["test"] for row in merges if row["seed"] == 2}
        assert by_job[1e-3, "annealed, last 20 %", "minus-sqrt"] == theirs["annealed minus-sqrt, 20 %", "end"]
        assert by_job[1e-3, "annealed, last 10 %", "linear"] == theirs["annealed linear, 10 %", "end"]
        assert by_job[3e-3, SCHEDULE_FREE, ""] == theirs[SCHEDULE_FREE, "rate=0.003"]
        assert {row["seed"] for row in found} == {2}


def controls() -> list[dict]:
    """Rows of three seeds: the random basis diverges at its largest rate, dldr on one seed altogether."""
    rows = []
    for seed in (1, 2, 3):
        for rate, arm in dict.fromkeys(run.FIRST_QUESTION + run.SECOND_QUESTION):
            row = {"seed": seed, "rate": rate, "arm": arm, "variant": "a"}
            loss = 1 + 0.01 * seed + (0.1 * rate if arm == SCHEDULE_FREE else 0.001 * seed**2)
            rows += [row | {"validation": loss, "test": loss}]
            rows += [row | {"variant": "b", "reason": "a loss of nan"}]
    for row in rows:
        if row["arm"] == "dldr in the window's PCA" and row["seed"] == 2 and "test" in row:
            row.pop("test"), row.pop("validation"), row.update(reason="a loss of inf")
    return rows


def test_what_diverged_is_never_chosen_and_an_arm_without_a_figure_is_named() -> None:
    lines = {line.split("  ")[0]: line for line in table.questions(controls()).splitlines()}
    assert "diverged on seeds 2" in lines["dldr in the window's PCA"]
    assert "0.001 a (3)" in lines["P-SGD in a random basis"]
    assert "+0.0000" in lines["P-SGD in a random basis"]
    assert "0.001 a (3)" in lines[SCHEDULE_FREE]
    assert "1.0201" in lines[SCHEDULE_FREE]


def test_no_table_before_a_seed_has_every_arm() -> None:
    rows = [row for row in controls() if not (row["arm"] == "annealed, last 10 %" and row["rate"] == 1e-2)]
    assert "no seed has every arm yet" in table.questions(rows)


def said(setting: str, rates: tuple[float, ...], seeds: int = 8) -> list[dict]:
    """Rows of the seeds: straightness makes the mean's gain, the rate that of annealing; the highest rate diverges
    once."""
    random, rows = np.random.default_rng(len(rates)), []
    for i, rate in enumerate(rates):
        for seed in range(1, seeds + 1):
            row = {"setting": setting, "seed": seed, "rate": rate}
            if i == len(rates) - 1 and seed == 3:
                rows.append(row | {"what": "diverged", "reason": "a loss of nan"})
                continue
            drawn = {name: float(np.exp(random.normal())) for name in says_table.STATISTICS}
            last = 2 + random.normal() / 100
            losses = {
                "last": last,
                "end": last,
                "mean": last - 0.1 * math.log(drawn["straightness"]),
                "annealed": last - 0.05 * i + random.normal() / 1000,
                "step 0.1": last + random.normal() / 100,
                "step 0.5": last + random.normal() / 100,
            }
            rows.append(row | {"what": "statistics"} | drawn)
            rows.append(row | {"what": "losses"} | {name: [loss, loss] for name, loss in losses.items()})
    return json.loads(json.dumps(rows))


def test_a_statistic_that_knows_a_gain_is_found_and_no_other(monkeypatch) -> None:
    monkeypatch.setattr(says_table, "PERMUTATIONS", 9_999)
    rows = said("a", (1e-3, 3e-3, 1e-2, 3e-2)) + said("b", (1e-4, 3e-4, 1e-3))
    found = says_table.found_of(rows)
    assert says_table.known(found) == ["straightness knows the gain of: mean"]
    lines = {(setting, line["gain"], line["statistic"]): line for setting, line in found}
    assert lines["a", "mean", "straightness"]["correlation"] == pytest.approx(1)
    assert lines["a", "mean", "straightness"]["errors"][0] == pytest.approx(0, abs=1e-12)
    own, of_the_rate, _ = lines["a", "annealing", "straightness"]["errors"]
    assert of_the_rate < 0.01 < own
    assert math.isnan(lines["b", "higher rate", "straightness"]["errors"][0])
    only = says_table.found_of([row for row in rows if row["setting"] == "a"])
    assert says_table.known(only) == ["no statistic knows a gain"]  # one setting is not enough


def test_a_run_without_statistics_is_in_no_pair_and_still_the_next_rate() -> None:
    rows = said("a", (1e-3, 3e-3, 1e-2))
    found = next(row for row in rows if (row["rate"], row["seed"], row["what"]) == (3e-3, 4, "statistics"))
    for name in says_table.STATISTICS:
        del found[name]
    found |= {"what": "no statistics", "reason": "equal snapshots"}
    gains = says_table.gains_of(says_table.runs_of(rows, "a"))
    assert (3e-3, 4) not in gains and math.isfinite(gains[1e-3, 4]["higher rate"])
    assert len(says_table.comparisons(rows, "a")) == 20


def test_the_p_of_seeds_is_exact() -> None:
    random = np.random.default_rng(1)
    seeds, rates = np.tile(np.arange(4), 3), np.repeat([1.0, 2.0, 3.0], 4)
    of_seed, of_run = np.array([3.0, 1.0, 4.0, 2.0])[seeds], random.permuted(np.arange(12.0).reshape(3, 4), axis=1)
    # What the seeds alone decide is one finding, however many rates repeat it: the order and its reverse of 24.
    assert says_table.p_of_seeds(of_seed, of_seed, rates, seeds) == pytest.approx(2 / 24)
    assert says_table.partial_correlation(of_seed, of_seed, rates)[1] < 0.001
    assert says_table.p_of_seeds(of_run.ravel(), of_run.ravel(), rates, seeds) == pytest.approx(1 / 24)
    # A seed that lacks a rate is left out.
    assert says_table.p_of_seeds(of_seed[:11], of_seed[:11], rates[:11], seeds[:11]) == pytest.approx(2 / 6)
    assert math.isnan(says_table.p_of_seeds(0 * of_seed, of_seed, rates, seeds))


def test_no_verdict_before_eight_seeds_of_three_settings(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(says_table, "PERMUTATIONS", 99)
    rows = [row for name in "abc" for row in said(name, (1e-3, 3e-3, 1e-2), 9)]

    def verdict(rows: list[dict]) -> str:
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        monkeypatch.setattr("sys.argv", ["says_table.py", str(tmp_path / "rows.jsonl")])
        says_table.main()
        return capsys.readouterr().out

    assert "a, seed 3, rate 0.01: diverged, a loss of nan" in verdict(rows)
    early = "no verdict before eight seeds"
    assert early not in verdict(rows)
    for part in ([row for row in rows if row["setting"] != "c"], [row for row in rows if row["seed"] < 9]):
        assert verdict(part).splitlines()[-1] == early


def test_a_window_that_does_not_move_has_a_reason(tmp_path) -> None:
    class Still(Line):
        def loss(self, model, seed, step):
            return super().loss(model, seed, step) * 0

    found = dict(measured(Base(Still(), 1, 0.0, tmp_path)))
    assert "different snapshots" in found["no statistics"]["reason"] and len(found["losses"]) == 8


def test_a_next_rate_that_diverged_is_the_lowest_gain() -> None:
    rows = said("a", (1e-3, 3e-3, 1e-2))
    gains = says_table.gains_of(says_table.runs_of(rows, "a"))
    assert gains[3e-3, 3]["higher rate"] == -math.inf
    assert math.isfinite(gains[3e-3, 4]["higher rate"])
    assert (1e-2, 3) not in gains


def test_seeds_that_lack_a_rate_are_not_read() -> None:
    rows = [row for row in said("a", (1e-3, 3e-3, 1e-2)) if (row["rate"], row["seed"]) != (3e-3, 5)]
    assert {seed for _, seed in says_table.runs_of(rows, "a")} == {1, 2, 3, 4, 6, 7, 8}
