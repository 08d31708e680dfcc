"""The league's judgement: constructed trials, and a trainer made for it that overlooks damage, beside dimred. scripts/league.sh runs it all."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments" / "benchmarks"))
import league

# Adds numbers; saves sum and step, with a checksum where it is told to, and goes on from the newest whole save.
TRAINER = """
import sys, time, zlib
from pathlib import Path
folder, careful, epochs = Path(sys.argv[1]), sys.argv[2] == "careful", int(sys.argv[3])
folder.mkdir(exist_ok=True)
total, first = b"\\1" * 4096, 1
for save in sorted(folder.glob("save_*"), reverse=True):
    whole = save.read_bytes()
    if careful and whole[:4] != zlib.crc32(whole[4:]).to_bytes(4, "big"):
        print("damaged:", save.name, flush=True)
        continue
    total, first = whole[4:], int(save.name[5:]) + 1
    print("resumed", first - 1, zlib.crc32(total), flush=True)
    break
for step in range(first, epochs * 4 + 1):
    time.sleep(0.003)
    total = bytes((byte * 3 + step) % 256 for byte in total)
    print("step", step, flush=True)
    if step % 4 == 0:
        (folder / "new").write_bytes(zlib.crc32(total).to_bytes(4, "big") + total)
        (folder / "new").rename(folder / f"save_{step:04}")
        print(f"digest {step} {zlib.crc32(total)}\\nsaved {step}", flush=True)
print("final", zlib.crc32(total))
"""


@pytest.fixture(autouse=True)
def short(monkeypatch) -> None:
    monkeypatch.setattr(league, "EPOCHS", 6)
    monkeypatch.setattr(league, "STEPS", 24)


def made(folder: Path, way: str) -> league.Contestant:
    script = folder / "trainer.py"
    script.write_text(TRAINER)
    return league.Contestant(way, way, lambda run, data, mutate: [sys.executable, str(script), str(run), way, str(league.EPOCHS)],
                             lambda run: sorted(run.glob("save_*"))[-1:], lambda run: run)  # fmt: skip


GOOD = league.Trial(
    told=10, saved=8, code=0, resumed=8, loaded="a", final="f", last=24, expected="f", loaded_expected="a", message=False, seconds=1.0
)


def test_verdicts() -> None:
    assert league.verdict(GOOD) == league.Verdict(survived=True, repeated=2, lost=0, silent=False, equal=True, seconds=1.0)
    wrong = replace(GOOD, loaded="b", final="g")
    assert league.verdict(wrong).silent and not league.verdict(wrong).equal
    assert league.verdict(replace(GOOD, final="g")).silent
    assert not league.verdict(replace(wrong, message=True)).silent
    assert league.verdict(replace(GOOD, loaded="b")).silent  # although it came out right
    older = league.verdict(replace(GOOD, resumed=4))
    assert (older.lost, older.repeated, older.silent) == (4, 6, False)
    assert league.verdict(replace(GOOD, resumed=None)).lost == 8  # began anew
    for dead in (replace(GOOD, code=1, final=""), replace(GOOD, last=20)):
        assert not league.verdict(dead).survived and not league.verdict(dead).silent and not league.verdict(dead).equal


def test_messages_are_those_of_the_fault() -> None:
    usual = {league.plain("/a/b.py:17: warning: no missing keys in 3 files")}
    assert not league.has_message(["/c/d.py:18: warning: no missing keys in 5 files", "step 3"], usual)
    assert league.has_message(["RuntimeError: PytorchStreamReader failed"], usual)


def test_row_and_table() -> None:
    verdicts = [league.verdict(GOOD), league.verdict(replace(GOOD, resumed=4, seconds=3.0)), league.verdict(replace(GOOD, code=1))]
    assert league.row(verdicts) == ["2/3", "4.0", "4", "0", "2/3", "2.0 (3.0)", "-"]
    assert league.row([league.verdict(replace(GOOD, code=1))]) == ["0/1", "-", "-", "0", "0/1", "-", "-"]
    text = league.table({"dimred": {"flip": [GOOD, replace(GOOD, code=1)]}}, ["mindspore"])
    assert "MindSpore               not installed" in text and "dimred                         1/2" in text


@pytest.mark.parametrize("way", ["careless", "careful"])
def test_silent_damage_is_recognised(way: str, tmp_path: Path, binaries: Path) -> None:
    place = league.Workplace(made(tmp_path, way), tmp_path, binaries.parent, random.Random(1))
    flipped = [league.verdict(trial) for trial in league.trials_of(place, league.FAULTS["flip"], 2)]
    killed = [league.verdict(trial) for trial in league.trials_of(place, league.FAULTS["save"], 1)]
    assert [v.survived for v in flipped + killed] == [True] * 3
    assert [v.silent for v in flipped] == [way == "careless"] * 2 and [v.equal for v in flipped] == [way == "careful"] * 2
    assert [v.lost for v in flipped + killed] == [0] * 3 and killed[0].equal and not killed[0].silent


def test_dimred(tmp_path: Path, binaries: Path) -> None:
    place = league.Workplace(league.dimred_contestant(binaries.parent), tmp_path, binaries.parent, random.Random(1))
    for _ in range(5):  # the kill may come inside the first save, when there is nothing to load yet
        (trial,) = league.trials_of(place, league.FAULTS["save"], 1)
        found = league.verdict(trial)
        assert found.survived and found.equal and not found.silent and not found.lost
        assert trial.loaded == trial.loaded_expected
        if trial.saved:
            break
    assert trial.loaded not in ("", league.digest_of([]))
