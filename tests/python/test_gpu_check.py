"""The check for GPU machines, on a processor: all its parts in a small form, its results, its limits and its exit
codes."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import driver_stub
import pytest
from cli import cli, completed
from conftest import REPOSITORY
from fashion import few

GPU = REPOSITORY / "experiments" / "benchmarks" / "gpu"
sys.path.insert(0, str(GPU))
import check  # noqa: E402
import figures  # noqa: E402
import programs  # noqa: E402

NEEDS_CUDA = "needs a CUDA device"
without_device = pytest.mark.skipif(not programs.why_no_device("cuda"), reason="there is a device")


def run(binaries: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs the check on the build under test, with few images and one core."""
    given = (
        os.environ | {"DIMRED_BUILD": str(binaries.parent), "DIMRED_FASHION": str(few()), "OMP_NUM_THREADS": "1"} | more
    )
    return completed([sys.executable, GPU / "check.py", *words], env=given)


@pytest.fixture(scope="module")
def checked(tmp_path_factory, binaries: Path) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The whole check on this processor."""
    folder = tmp_path_factory.mktemp("check") / "out"
    return run(binaries, "--device=cpu", f"--output={folder}"), folder


def parts_of(folder: Path) -> dict[str, dict]:
    """The parts of a check by their letters."""
    return {part["part"]: part for part in json.loads((folder / "gpu_check.json").read_text())["parts"]}


def test_every_part_that_can_runs_on_a_processor_and_the_others_say_what_they_need(checked) -> None:
    done, folder = checked
    assert done.returncode == 0, done.stdout + done.stderr + (folder / "gpu_check.log").read_text()
    parts = parts_of(folder)
    assert list(parts) == list("abcdefghij")
    results = {letter: (part["result"], part["why"]) for letter, part in parts.items()}
    for letter in "bdefgij":
        assert results[letter] == ("ok", ""), results
    for letter in "ah":
        assert results[letter] == ("ok in part", NEEDS_CUDA), results
    assert results["c"] == ("not run", NEEDS_CUDA), results


def test_figures_are_finite_and_nothing_is_judged_on_a_processor(checked) -> None:
    done, folder = checked
    parts = parts_of(folder)
    assert "".join(letter for letter, part in parts.items() if part["figures"]) == "defgj"
    for figure in [figure for part in parts.values() for figure in part["figures"]]:
        assert figure["values"] and all(map(math.isfinite, figure["values"]))
        assert figure["bar"] is None
        assert f"    {figure['figure']}: " in done.stdout


def test_what_comes_back_is_two_files(checked) -> None:
    _, folder = checked
    assert sorted(path.name for path in folder.iterdir()) == ["gpu_check.json", "gpu_check.log"]
    # what the programs print, of tests that pass, too
    assert "DeviceKernels.FusedProjectOnce" in (folder / "gpu_check.log").read_text()


@without_device
def test_without_a_device_one_line_says_so_and_nothing_is_written(tmp_path: Path, binaries: Path) -> None:
    done = run(binaries, f"--output={tmp_path / 'out'}")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith("gpu_check: needs the device cuda, received none: ")
    assert not any(tmp_path.iterdir())


@without_device
def test_without_a_device_its_tests_are_counted(tmp_path: Path) -> None:
    command = cli(sys.executable, "-m pytest -q -rs -p no:cacheprovider", REPOSITORY / "tests" / "device")
    given = os.environ | {"DIMRED_RESULTS": str(tmp_path / "results"), "DIMRED_DEVICE": "cuda"}
    done = completed(command, env=given)
    results = [json.loads(line) for line in (tmp_path / "results").read_text().splitlines()]
    assert done.returncode == 0, done.stdout
    assert len(results) > 15
    assert {result["outcome"] for result in results} == {"skipped"}
    assert all(result["why"].startswith(NEEDS_CUDA) for result in results)


def shell(letter: str, text: str, seconds: float = 10) -> check.Part:
    """A part that runs a script, whose results go to $DIMRED_RESULTS."""
    return check.Part(letter, f"the part {letter}", seconds, ["sh", "-c", text])


def test_a_part_that_fails_or_hangs_ends_none_of_the_others(tmp_path: Path, monkeypatch, capsys) -> None:
    passed = """echo '{"test": "t", "outcome": "passed", "seconds": 0, "why": ""}' >>"$DIMRED_RESULTS"; echo said"""
    skipped = passed.replace("passed", "skipped").replace('"why": ""', f'"why": "{NEEDS_CUDA}"')
    failed = passed.replace("passed", "failed").replace('"why": ""', '"why": "1 is not 2"')
    rounds = "".join(
        f"""echo '{{"figure": "f", "values": {values}, "bar": 2}}' >>"$DIMRED_RESULTS"; """ for values in ([1], [1, 3])
    )
    half_a_line = """printf '{"figure": "g", "val' >>"$DIMRED_RESULTS"; """
    monkeypatch.setattr(
        check,
        "PARTS",
        (
            shell("a", f"{failed}; exit 1"),
            shell("b", f"{passed}; {rounds}{half_a_line}sleep 60 & sleep 60", seconds=1),
            shell("c", "kill -9 $$"),
            shell("d", "true"),
            shell("e", f"{passed}; {skipped}"),
            shell("f", skipped),
            shell("g", passed),
        ),
    )
    monkeypatch.setattr(check, "described", lambda device: {"device": device})
    assert check.main(["--device=cpu", "--minutes=1", f"--output={tmp_path}"]) == 1
    found = {letter: (part["result"], part["why"]) for letter, part in parts_of(tmp_path).items()}
    assert found == {
        "a": ("failed", "t: 1 is not 2"),
        "b": ("timed out", "stopped after 1 s"),
        "c": ("failed", "exit code -9, 0 results"),
        "d": ("failed", "exit code 0, 0 results"),
        "e": ("ok in part", NEEDS_CUDA),
        "f": ("not run", NEEDS_CUDA),
        "g": ("ok", ""),
    }
    stopped = parts_of(tmp_path)["b"]  # what it had done is there
    assert [test["outcome"] for test in stopped["tests"]] == ["passed"]
    assert stopped["figures"] == [{"figure": "f", "values": [1, 3], "bar": 2}]
    assert (tmp_path / "gpu_check.log").read_text().count("said") == 6
    assert "    f: 2 (1 to 3), at least 2: undecided" in capsys.readouterr().out


def test_time_that_a_part_leaves_goes_to_those_behind_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(check, "PARTS", (shell("a", "true", 20), shell("b", "true", 30), shell("c", "true", 10)))
    monkeypatch.setattr(check, "described", lambda device: {"device": device})
    check.main(["--device=cpu", "--minutes=1", f"--output={tmp_path}"])
    limits = [part["limit"] for part in parts_of(tmp_path).values()]
    assert limits == [pytest.approx(20, abs=1), pytest.approx(45, abs=2), pytest.approx(60, abs=3)]


def test_parts_without_their_data_or_programs_say_so(tmp_path: Path, binaries: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    done = run(binaries, "--device=cpu", "--parts", "g", f"--output={tmp_path}", DIMRED_FASHION=nowhere)
    assert done.returncode == 1
    assert parts_of(tmp_path)["g"]["why"] == "demo: needs Fashion-MNIST; set DIMRED_FASHION to its folder"
    done = run(binaries, "--device=cpu", f"--output={tmp_path}", DIMRED_BUILD=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith(f"gpu_check: cannot start {tmp_path}/bin/dimred: ")


@pytest.mark.parametrize("option", ["--device=gpu", "--minutes=0", "--minutes=nan", "--parts=z"])
def test_bad_options_are_refused(tmp_path: Path, capsys, option: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        check.main([option, f"--output={tmp_path / 'out'}"])
    assert option.split("=")[0] in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def is_alive(process: int) -> bool:
    """A zombie is not."""
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and ") Z " not in stat.read_text()


def test_a_group_ends_with_what_it_has_started(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    stubborn = "trap '' TERM; (trap '' TERM; exec sleep 30) & echo $!; wait"
    for command, limit, code in ((stubborn, 0.3, None), ("exec sleep 30 & echo $!; exit 7", 20, 7)):
        start = time.monotonic()
        assert check.run_limited(["sh", "-c", command], log, limit, dict(os.environ)) == code
        assert time.monotonic() - start < 10
        left = int(log.read_text().splitlines()[-1])
        while is_alive(left) and time.monotonic() - start < 10:  # well below its 30 s
            time.sleep(0.01)
        assert not is_alive(left)
    assert log.read_text().startswith("before\n")


def test_a_bar_is_held_against_every_round() -> None:
    assert check.verdict([0.85, 0.9, 5.0], 0.85) == "yes"
    assert check.verdict([0.8, 0.84, 0.849], 0.85) == "NO"
    assert check.verdict([0.8, 0.9, 5.0], 0.85) == "undecided"


@pytest.fixture
def measured(monkeypatch) -> dict[str, tuple[list[float], float | None]]:
    """The figures that are recorded, whose epochs of ours take 2 s, 1 s with fused kernels, 4 s without graphs."""
    found: dict[str, tuple[list[float], float | None]] = {}

    def epoch(stage: str, folder: Path, **options: object) -> float:
        return (
            4.0 if options.get("cuda_graphs") == "false" else 1.0 if options.get("device_algebra") == "fused" else 2.0
        )

    monkeypatch.setattr(figures, "ON_CUDA", True)
    monkeypatch.setattr(figures, "trained", lambda *_, **options: None)
    monkeypatch.setattr(figures, "last_epoch", epoch)
    monkeypatch.setattr(figures, "record", lambda name, values, bar=None: found.update({name: (list(values), bar)}))
    return found


def test_what_saves_half_of_the_time_saves_half(measured, tmp_path: Path) -> None:
    figures.choices(tmp_path)
    assert {name.partition(":")[0]: found for name, found in measured.items()} == {
        "fused kernels": ([0.5] * 5, 0.1),
        "CUDA graphs": ([0.5] * 5, 0.1),
    }


def test_a_slow_peer_has_a_high_ratio(measured, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(figures, "plain_epochs", lambda options: lambda: 14.0)
    figures.PARTS["convnet"](tmp_path)
    assert [measured[name] for name in measured if "PyTorch" in name] == [([7.0] * 3, 6)]


def test_algebra_as_fast_as_a_copy_is_all_of_its_bandwidth(measured, monkeypatch, tmp_path: Path) -> None:
    turns = {"dtype": "float32", "algebra": "aten", "copy": [2.0], "copy_bytes": 8}
    turns |= {"project": [1.0], "project_bytes": 4, "line": [4.0], "line_bytes": 4}
    monkeypatch.setattr(figures, "run", lambda *_: programs.Done(json.dumps([turns, turns | {"dtype": "bfloat16"}]), 0))
    figures.algebra(tmp_path)
    assert list(measured.values()) == [([1.0], 0.85), ([0.25], 0.85), ([1.0], None), ([0.25], None)]


def test_an_epoch_is_the_last_of_the_raw_weights(monkeypatch, tmp_path: Path) -> None:
    curve = "weights,epoch,seconds\nraw,0,0\nraw,1,5\naverage,1,5\nraw,2,7.5\naverage,2,9\n"
    monkeypatch.setattr(figures, "trained", lambda stage, folder, **_: (folder / "curve.csv").write_text(curve))
    assert figures.last_epoch("stage2", tmp_path) == 2.5


@without_device
@driver_stub.needs_a_compiler
@pytest.mark.parametrize(
    ("version", "code", "says"),
    [
        (
            11040,
            0,
            "The NVIDIA driver on your system is too old (found version 11040); torch needs a driver for CUDA 13.0",
        ),
        (13000, 802, "Error 802: system not yet initialized"),
        (13000, 100, "libcuda.so.1 is there, but the driver shows no device"),
    ],
)
def test_a_driver_that_cannot_be_used_is_said_in_one_line(
    tmp_path: Path, fails, monkeypatch, version: int, code: int, says: str
) -> None:
    """A library in the driver's place, which answers as an old, a broken and an empty one."""
    driver_stub.make(tmp_path, version, code)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    command = ["stage1", "--dataset=mock", "--mock_shape=1,28,28", "--model=convnet", "--output", tmp_path / "run"]
    line = fails(1, *command, "--device=cuda")
    assert "no CUDA device was found for --device cuda: " in line
    assert says in line
    if code == 0:
        line = fails(1, *command, "--device=auto")
        assert line.rstrip().endswith("; give --device cpu to run without it")
    assert not (tmp_path / "run").exists()


@without_device
@driver_stub.needs_a_compiler
def test_the_cuda_library_loads_where_a_driver_is(tmp_path: Path, binaries: Path) -> None:
    """It loads with torch's CUDA libraries, and both sides mean the same by our functions."""
    driver_stub.make(tmp_path, 13000, driver_stub.NO_DEVICE)
    given = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = completed([binaries / "cuda_test"], env=given)
    assert done.returncode == 0, done.stdout
