"""The check for GPU machines as a whole, tiny, on a processor; its options and its exit codes."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import REPOSITORY
from fashion import few

sys.path.insert(0, str(REPOSITORY / "benchmarks"))
from device_check.sizes import TINY  # noqa: E402

PROGRAM = [sys.executable, str(REPOSITORY / "benchmarks" / "gpu_check.py")]


def environment(binaries: Path) -> dict[str, str]:
    """Of the build under test, on few images and one core."""
    return os.environ | {"DIMRED_BUILD": str(binaries.parent), "DIMRED_FASHION": str(few()), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory, binaries: Path) -> SimpleNamespace:
    """All parts, tiny, on a processor."""
    folder = tmp_path_factory.mktemp("gpu_check")
    command = [*PROGRAM, "--device=cpu", "--quick", f"--output={folder}"]
    done = subprocess.run(command, env=environment(binaries), capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return SimpleNamespace(folder=folder, output=done.stdout, told=json.loads((folder / "gpu_check.json").read_text()))


def test_all_parts_run_on_a_processor_and_nothing_is_judged_there(whole) -> None:
    parts = {part["name"]: part for part in whole.told["parts"]}
    assert list(parts) == ["tests", "algebra", "agreement", "convnet", "resnet20", "stage1", "stage2", "demo", "accuracy", "pca"]
    assert {part["outcome"] for part in parts.values()} == {"done"}
    assert all(part["figures"] for part in parts.values())
    figures = [figure for part in parts.values() for figure in part["figures"]]
    assert {figure["reached"] for figure in figures} == {None}
    assert all(math.isfinite(value) for figure in figures for value in figure["values"])
    assert whole.told["device"]["device"] == "cpu" and not whole.told["judged"]
    assert whole.told["reached"] == whole.told["not_reached"] == 0 < whole.told["not_judged"]


def test_the_table_has_a_line_for_each_figure_and_for_what_is_missing(whole) -> None:
    lines = whole.output.splitlines()
    for part in whole.told["parts"]:
        for figure in part["figures"]:
            assert any(line.startswith(part["name"]) and figure["name"] in line for line in lines), figure["name"]
        for one in part["left_out"]:
            assert f"  {part['name']}: without {one['what']}: {one['why']}" in lines


def test_the_tests_are_counted_though_none_finds_a_device(whole) -> None:
    (tests,) = (part for part in whole.told["parts"] if part["name"] == "tests")
    assert [(f["name"], f["median"]) for f in tests["figures"]] == [("device tests that run", 0)]
    ((count, unit),) = (one["what"].split() for one in tests["left_out"])
    assert int(count) > 0 and unit == "tests"


def test_parts_that_were_asked_for_and_skipped_are_not_good(tmp_path: Path, binaries: Path) -> None:
    given = environment(binaries) | {"DIMRED_FASHION": str(tmp_path / "nowhere")}
    for words, skipped in ((["--minutes=0.001", "--parts", "tests", "algebra"], "tests skipped, algebra skipped"),
                           (["--parts", "demo"], "demo skipped")):  # fmt: skip
        command = [*PROGRAM, "--device=cpu", f"--output={tmp_path / 'out'}", *words]
        done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"gpu_check: not all is good: {skipped}")


def test_both_sides_of_the_agreement_start_alike_and_differ_by_rounding_alone(whole) -> None:
    (agreement,) = (part for part in whole.told["parts"] if part["name"] == "agreement")
    assert [figure["name"].split(":")[0] for figure in agreement["figures"]] == ["convnet, stage 1", "convnet, stage 2"]
    for figure in agreement["figures"]:
        assert len(figure["rounds"]) == TINY.steps
        assert figure["median"] < 1e-5  # sums in other orders: a few units of float32's 6e-8


def test_what_was_written_besides_the_result_is_removed(whole) -> None:
    assert [path.name for path in whole.folder.iterdir()] == ["gpu_check.json"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_without_a_device_it_says_so_in_one_line(tmp_path: Path, binaries: Path) -> None:
    command = [*PROGRAM, f"--output={tmp_path}"]
    done = subprocess.run(command, env=environment(binaries), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("gpu_check: needs the device cuda, received none: ")


def test_a_build_that_is_not_there_is_named(tmp_path: Path) -> None:
    command = [*PROGRAM, "--device=cpu", f"--output={tmp_path / 'out'}"]
    given = os.environ | {"DIMRED_BUILD": str(tmp_path)}
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (1, "gpu_check: this build has no dimred\n")


@pytest.mark.parametrize("option", ["--device=gpu", "--minutes=0", "--minutes=nan", "--parts=none"])
def test_bad_options_are_refused(tmp_path: Path, option: str) -> None:
    done = subprocess.run([*PROGRAM, option], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and option.split("=")[0] in done.stderr
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--output", "--scratch"])
def test_folders_that_cannot_be_made_are_named(tmp_path: Path, option: str) -> None:
    (tmp_path / "file").write_text("mine")
    for folder, why in ((tmp_path / "file", "File exists"), (Path("/proc/nothere"), "No such file or directory")):
        command = [*PROGRAM, "--device=cpu", f"--output={tmp_path / 'out'}", f"{option}={folder}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        says = f"gpu_check: {option} needs a folder that can be written, received {folder}: {why}\n"
        assert (done.returncode, done.stderr) == (1, says)


def test_an_interrupt_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dimred").write_text(f"#!/bin/sh\ntouch {tmp_path / 'begun'}\nexec sleep 60\n")
    (tmp_path / "bin" / "dimred").chmod(0o755)
    command = [*PROGRAM, "--device=cpu", f"--output={tmp_path / 'out'}"]
    given = os.environ | {"DIMRED_BUILD": str(tmp_path)}
    process = subprocess.Popen(command, env=given, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert (process.communicate(timeout=20)[1], process.returncode) == ("gpu_check: interrupted\n", 130)
    assert not any((tmp_path / "out").iterdir())
