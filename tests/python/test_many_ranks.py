"""The recorded table of 16 to 64 ranks, the page that goes on to 1,024, and four ranks of now: all are the model's to
the byte."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "experiments" / "benchmarks"))
import many_ranks
import rank_model as model

RECORD = (REPOSITORY / "docs" / "results" / "ranks.txt").read_text().splitlines()
WIRE = REPOSITORY / "docs" / "results" / "wire.json"
PAGE = REPOSITORY / "docs" / "explanation" / "scaling.md"
THOUSAND = model.Ranks(1024, 128)
SIZES = (1_000_000_000, 70_000_000_000)


def recorded() -> list[dict[str, str]]:
    """Rows of the record; the columns end at the same places."""
    rows = []
    for line in RECORD[3:]:
        row, begin = {}, 0
        for name, width in many_ranks.COLUMNS.items():
            row[name] = line[begin : begin + width].strip()
            begin += width + 1
        rows.append(row)
    return rows


def formulas() -> dict[str, list[float]]:
    """Lines of the page's table of 1,024 ranks: name and numbers."""
    lines = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([\d.,]+) \| ([\d.,]+) \|", PAGE.read_text(), re.MULTILINE)
    return {name: [float(number.replace(",", "")) for number in numbers] for name, *numbers in lines}


def test_the_record_has_every_layout_and_no_difference() -> None:
    assert {row["layout"] for row in recorded()} == {"1x16", "2x8", "1x32", "4x8", "1x64", "8x8"}
    assert not [line for line in RECORD if "differs" in line]


@pytest.mark.parametrize("row", recorded(), ids=lambda row: f"{row['layout']}-{row['network']}-{row['stage']}")
def test_recorded_bytes_and_memory_are_the_models(row: dict[str, str]) -> None:
    nodes, of_node = map(int, row["layout"].split("x"))
    ranks = model.Ranks(nodes * of_node, nodes)
    vector = (
        model.Layout(many_ranks.CONVNET)
        if row["network"] == "convnet"
        else many_ranks.layout_of(many_ranks.WIDTHS[row["network"]])
    )
    steps, k = many_ranks.STEPS, many_ranks.COMPONENTS
    if row["stage"] == "all":
        sent, between = many_ranks.together(ranks, vector.columns)
    elif row["stage"] == "stage1":
        sent, between = model.stage1_bytes(vector, ranks, steps), 0
    else:
        sent = model.stage2_bytes(vector, ranks, 0, k, steps, int(row["trials"]))
        between = steps * model.exchange(vector.shares(ranks.size), ranks, 0, gathers=0)[1]
    assert (int(row["sent"]), int(row["between"])) == (sent, between)
    if row["least"]:
        assert 0.95 < float(row["least"]) <= float(row["most"]) < 1.05


@pytest.mark.parametrize("counted", json.loads(WIRE.read_text()), ids=lambda counted: f"{counted['ranks']} ranks")
def test_recorded_schemes_are_the_models(counted: dict[str, Any]) -> None:
    """A step of stage 2 with one trial, without a data set's loss and stop flags; the average rank."""
    ranks, columns = model.Ranks(counted["ranks"], 1), counted["columns"]
    shares, small = model.Layout([[columns]]).shares(ranks.size), ranks.sum(32 + 2) + ranks.sum(3)
    for scheme, gathers in (("robust", 1), ("presets", 2)):
        together = sum(model.exchange(shares, ranks, rank, gathers)[0] for rank in range(ranks.size))
        assert counted["bytes"][scheme] * ranks.size == together + small * ranks.size
    assert (
        counted["bytes"]["mindspore"]
        == ranks.sum(columns, model.NUMBER) + 2 * (ranks.size - 1) * model.NUMBER * columns
    )


def test_the_page_says_what_the_model_says() -> None:
    said = formulas()
    for index, columns in enumerate(SIZES):
        sent, between = many_ranks.together(THOUSAND, columns)
        expected = {
            "a rank sends": sent / 1024e9,
            "a rank sends to other nodes": between / 1024e9,
            "a node sends to other nodes": between / 128e9,
            "the same, if ranks send directly to one another": 8 * 2 * 4 * columns * (1024 - 8) / 1024 / 1e9,
            "memory of a rank, stage 1": model.stage1_memory(columns, 0, 1024) / 1e9,
            "memory of a rank, stage 2": model.stage2_memory(columns, 1024, 32) / 1e9,
            "seconds of transfers": (sent - between) / 1024 / 300e9 + between / 1024 / 50e9,
        }
        assert {name: pytest.approx(value, rel=5e-3) for name, value in expected.items()} == {
            name: said[name][index] for name in expected
        }


def test_four_ranks_send_what_the_model_says(binaries: Path) -> None:
    row = many_ranks.exchange_row(binaries / "exchange", model.Ranks(4, 2), 5000)
    assert many_ranks.is_right(row), row
