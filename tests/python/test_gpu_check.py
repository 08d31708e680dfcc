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
from conftest import REPOSITORY
from fashion import few

GPU = REPOSITORY / "experiments" / "benchmarks" / "gpu"
sys.path.insert(0, str(GPU))
import check  # noqa: E402
import figures  # noqa: E402
import processes  # noqa: E402
import programs  # noqa: E402
import rounds  # noqa: E402
import timeline  # noqa: E402
from processes import cut_middle, run_limited  # noqa: E402

NEEDS_CUDA = "needs a CUDA device"
without_device = pytest.mark.skipif(not programs.why_no_device("cuda"), reason="there is a device")


def run(script: str, binaries: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs a script on the build under test, with few images and one core."""
    given = (
        os.environ | {"DIMRED_BUILD": str(binaries.parent), "DIMRED_FASHION": str(few()), "OMP_NUM_THREADS": "1"} | more
    )
    return subprocess.run(
        [sys.executable, GPU / script, *words], env=given, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def checked(tmp_path_factory, binaries: Path) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The whole check on this processor."""
    folder = tmp_path_factory.mktemp("check") / "out"
    return run("check.py", binaries, "--device=cpu", f"--output={folder}"), folder


def parts_of(folder: Path) -> dict[str, dict]:
    """The parts of a check by their letters."""
    return {part["part"]: part for part in json.loads((folder / "gpu_check.json").read_text())["parts"]}


def test_every_part_that_can_runs_on_a_processor_and_the_others_say_what_they_need(checked) -> None:
    done, folder = checked
    assert done.returncode == 0, (
        done.stdout + done.stderr + (folder / "a-c.log").read_text() + (folder / "h-j.log").read_text()
    )
    parts = parts_of(folder)
    assert list(parts) == list("abcdefghij")
    results = {letter: (part["result"], part["why"]) for letter, part in parts.items()}
    for letter in "bdegi":
        assert results[letter] == ("ok", ""), results
    for letter in "afh":  # in part: tests that need a device, torch.compile
        assert results[letter][0] == "ok in part", results
        assert results[letter][1] == NEEDS_CUDA
    for letter in "cj":
        assert results[letter] == ("not run", NEEDS_CUDA), results


def test_figures_are_finite_and_nothing_is_judged_on_a_processor(checked) -> None:
    done, folder = checked
    found = [figure for part in parts_of(folder).values() for figure in part["figures"]]
    assert {figure["part"] for figure in found} == {"algebra", "convnet", "resnet20", "large", "demo"}
    assert all(figure["values"] and all(map(math.isfinite, figure["values"])) for figure in found)
    assert {figure["reached"] for figure in found} == {None}
    for figure in found:
        assert any(line.startswith(figure["part"]) and figure["name"] in line for line in done.stdout.splitlines())


def test_what_comes_back_is_few_files_and_the_whole_output(checked) -> None:
    _, folder = checked
    assert sorted(path.name for path in folder.iterdir()) == ["a-c.log", "d-g.log", "gpu_check.json", "h-j.log"]
    assert (
        "DeviceKernels.FusedProjectOnce" in (folder / "a-c.log").read_text()
    )  # what the programs print, of tests that pass, too
    assert "==== (g) the demo" in (folder / "d-g.log").read_text()


@without_device
@pytest.mark.parametrize(("script", "name"), [("check.py", "gpu_check"), ("timeline.py", "gpu_profile")])
def test_without_a_device_one_line_says_so_and_nothing_is_written(
    tmp_path: Path, binaries: Path, script: str, name: str
) -> None:
    done = run(script, binaries, f"--output={tmp_path / 'out'}")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith(f"{name}: needs the device cuda, received none: ")
    assert not any(tmp_path.iterdir())


@without_device
def test_without_a_device_its_tests_are_counted(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        str(REPOSITORY / "tests" / "device"),
    ]
    given = os.environ | {"DIMRED_RESULTS": str(tmp_path / "results"), "DIMRED_DEVICE": "cuda"}
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    results = [json.loads(line) for line in (tmp_path / "results").read_text().splitlines()]
    assert done.returncode == 0, done.stdout
    assert len(results) > 15
    assert {result["outcome"] for result in results} == {"skipped"}
    assert all(result["why"].startswith(NEEDS_CUDA) for result in results)


def shell(letter: str, text: str, **more: float) -> check.Part:
    """A part that runs a script, whose results go to $DIMRED_RESULTS."""
    return check.Part(letter, f"the part {letter}", "all.log", 10, lambda _: ["sh", "-c", text], **more)


def test_a_part_that_fails_or_hangs_ends_none_of_the_others(tmp_path: Path, monkeypatch, capsys) -> None:
    passed = """echo '{"test": "t", "outcome": "passed", "seconds": 0, "why": ""}' >>"$DIMRED_RESULTS"; echo said"""
    skipped = passed.replace("passed", "skipped").replace('"why": ""', f'"why": "{NEEDS_CUDA}"')
    failed = passed.replace("passed", "failed").replace('"why": ""', '"why": "1 is not 2"')
    monkeypatch.setattr(
        check,
        "PARTS",
        (
            shell("a", f"{failed}; exit 1"),
            shell("b", f"{passed}; sleep 60 & sleep 60", most=1),
            shell("c", "kill -9 $$"),
            shell("d", "exit 1"),
            shell("e", f"{passed}; {skipped}"),
            shell("f", skipped),
            shell("g", passed),
        ),
    )
    monkeypatch.setattr(check, "described", lambda device: {"device": device})
    assert check.main(["--device=cpu", f"--output={tmp_path}"]) == 1
    found = {letter: (part["result"], part["why"]) for letter, part in parts_of(tmp_path).items()}
    assert found == {
        "a": ("failed", "t: 1 is not 2"),
        "b": ("timed out", "stopped after 1 s"),
        "c": ("failed", "exit code -9"),
        "d": ("failed", "exit code 1"),
        "e": ("ok in part", NEEDS_CUDA),
        "f": ("not run", NEEDS_CUDA),
        "g": ("ok", ""),
    }
    assert parts_of(tmp_path)["b"]["tests"][0]["outcome"] == "passed"  # what it had done is there
    assert (tmp_path / "all.log").read_text().count("said") == 6
    assert "stopped after 1 s" in capsys.readouterr().out


def test_time_that_a_part_leaves_goes_to_those_behind_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(check, "PARTS", (shell("a", "true", most=5), shell("b", "true"), shell("c", "true")))
    monkeypatch.setattr(check, "described", lambda device: {"device": device})
    check.main(["--device=cpu", "--minutes=1", f"--output={tmp_path}"])
    limits = [part["limit"] for part in parts_of(tmp_path).values()]
    assert limits[0] == 5
    assert limits[1] == pytest.approx(30, abs=1)
    assert limits[2] == pytest.approx(60, abs=2)


def test_parts_without_their_data_or_programs_say_so(tmp_path: Path, binaries: Path) -> None:
    done = run(
        "check.py",
        binaries,
        "--device=cpu",
        "--parts",
        "g",
        f"--output={tmp_path}",
        DIMRED_FASHION=str(tmp_path / "nowhere"),
    )
    assert done.returncode == 1
    assert parts_of(tmp_path)["g"]["why"] == "demo: Fashion-MNIST is not here; DIMRED_FASHION names its folder"
    done = run("check.py", binaries, "--device=cpu", f"--output={tmp_path}", DIMRED_BUILD=str(tmp_path))
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


def test_a_group_ends_with_what_it_has_started(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.1)
    log, alive = tmp_path / "log", tmp_path / "alive"
    log.write_bytes(b"before\n")
    start = time.monotonic()
    ended = run_limited(
        ["sh", "-c", f"trap '' TERM; (trap '' TERM; sleep 30; touch {alive}) & echo here; wait"], log, 0.3
    )
    assert ended.code is None
    assert 0.3 < time.monotonic() - start < 10
    assert log.read_text() == "before\nhere\n"
    ended = run_limited(["sh", "-c", "exec sleep 30 & echo $!; exit 7"], log, 20)
    assert ended.code == 7
    left = int(log.read_text().splitlines()[-1])
    deadline = time.monotonic() + 10  # well below its 30 s
    while is_alive(left) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(left)


def test_a_long_log_keeps_its_begin_and_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"of another part\n" + b"a" * 500 + b"b" * 500)
    cut_middle(log, 16, 100)
    assert log.read_bytes() == b"of another part\n" + b"a" * 50 + b"\n[... 900 bytes were left out ...]\n" + b"b" * 50
    cut_middle(log, 16, 1000)
    assert len(log.read_bytes()) == 16 + 100 + 35


def test_a_bar_is_held_against_the_median() -> None:
    assert rounds.Figure("p", "f", [0.8, 0.9, 5.0], at_least=0.85).reached
    assert not rounds.Figure("p", "f", [0.8, 0.84, 5.0], at_least=0.85).reached
    assert rounds.Figure("p", "f", [1.45], at_most=1.45).reached
    assert rounds.Figure("p", "f", [1.0]).reached is None
    assert rounds.Figure("p", "f", [0.8, 0.9, 5.0], "x", 0.85).row(True) == [
        "p",
        "f",
        "0.9 (0.8 to 5) x",
        ">= 0.85",
        "yes",
    ]


def test_turns_rotate_a_failed_peer_drops_out_and_ours_does_not() -> None:
    order: list[str] = []

    def contestant(name: str, value: float | None = None):
        def call() -> float:
            order.append(name)
            if value is None:
                raise RuntimeError("of a kind")
            return value

        return call

    timing = rounds.Timing("cpu", Path(), math.inf)
    found = timing.rounds("p", 2, {"dimred": contestant("dimred", 2.0), "PyTorch": contestant("PyTorch", 4.0)})
    assert order == ["dimred", "PyTorch", "PyTorch", "dimred"]
    assert rounds.ratios(found["PyTorch"], found["dimred"]) == [2.0, 2.0]
    found = timing.rounds(
        "p", 2, {"dimred": contestant("dimred", 2.0), "PyTorch": contestant("PyTorch")}, may_fail=["PyTorch"]
    )
    assert found == timing.turns["p"] == {"dimred": [2.0, 2.0], "PyTorch": []}
    assert timing.missing == ["p, PyTorch: of a kind"]
    with pytest.raises(RuntimeError, match="of a kind"):
        timing.rounds("p", 2, {"dimred": contestant("dimred")})


def test_a_choice_keeps_what_surely_gains_ten_per_cent() -> None:
    # scipy.stats.t.interval(0.95, 4, loc=0.126, scale=stats.sem(...)) of scipy 1.16
    assert rounds.interval([0.10, 0.12, 0.16, 0.11, 0.14]) == pytest.approx((0.0960968, 0.1559032), rel=1e-4)
    keeps = rounds.choice("it", [1.0] * 5, [0.80, 0.81, 0.79, 0.80, 0.82])
    assert keeps["verdict"] == "keeps at 10 %"
    assert rounds.describe(keeps).startswith("it: saves 18.2 to 21.0 % of the time (5 rounds): keeps")
    assert rounds.choice("it", [1.0] * 5, [0.96, 0.97, 0.99, 1.01, 0.98])["verdict"] == "goes at 10 %"
    assert rounds.choice("it", [1.0] * 5, [0.80, 0.95, 0.99, 0.85, 0.90])["verdict"] == "undecided at 10 %"
    alone = rounds.choice("it", [1.0], [0.5])
    assert (alone["verdict"], alone["interval"]) == ("undecided at 10 %", [None, None])
    assert rounds.describe(alone) == "it: undecided at 10 %, 1 round"


def test_the_algebras_part_of_a_step_is_taken_from_two_parts() -> None:
    outcomes = [
        check.Outcome(
            "d",
            "",
            turns={"algebra, aten, P in float32": {"project": [0.001, 0.002, 0.001], "line": [0.001] * 3, "copy": []}},
        ),
        check.Outcome("f", "", turns={"large": {"dimred": [0.1, 0.2]}}),
    ]
    assert check.share_of_a_step(outcomes)["values"] == [2.0, 1.0]
    assert check.share_of_a_step(outcomes[:1]) is None


def event(category: str, name: str, start: float, length: float) -> dict:
    """An event of Chrome's format, in microseconds."""
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length}


def test_a_timeline_says_how_long_the_device_was_busy_and_the_host_waited() -> None:
    trace = {
        "traceEvents": [
            event("cpu_op", "aten::mm", 0, 500),
            event("cuda_runtime", "cudaLaunchKernel", 10, 20),
            event("cuda_runtime", "cudaGraphLaunch", 40, 20),
            event("cuda_runtime", "cudaStreamSynchronize", 100, 900),
            event("kernel", "gemm", 100, 300),
            event("kernel", "gemm", 350, 150),
            event("gpu_memcpy", "Memcpy", 600, 100),
            event("user_annotation", "optimizer step", 0, 50),
            event("Trace", "whole", 0, 9999),
            {"ph": "M", "name": "x"},
        ]
    }
    found = timeline.summary(trace)
    assert found["step_ms"] == 1.0
    assert found["device_busy_ms"] == pytest.approx(0.5)  # 100 to 500, 600 to 700
    assert (found["kernels"], found["launches"], found["host_waits_ms"]) == (2, 2, 0.9)
    assert found["longest"][0] == {"name": "gemm", "count": 2, "ms": pytest.approx(0.45)}
    assert "idle 0.50 ms" in timeline.table_of("convnet", "stage1", found)


def test_the_timeline_of_both_stages_on_a_processor(tmp_path: Path, binaries: Path) -> None:
    done = run("timeline.py", binaries, "--device=cpu", "--networks", "convnet", f"--output={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "convnet_stage1.json.gz",
        "convnet_stage2.json.gz",
        "gpu_profile.json",
    ]
    report = json.loads((tmp_path / "gpu_profile.json").read_text())
    assert report["missing"] == [f"ncu: not run: {NEEDS_CUDA}"]
    for stage in ("stage1", "stage2"):
        found = report["networks"]["convnet"][stage]
        assert found["step_ms"] > 0
        assert any("convolution" in row["name"] for row in found["longest"])


def test_ncus_table_is_read_among_what_the_program_prints() -> None:
    text = (
        '==PROF== Connected\n{"seconds": 1}\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
        '"0","project_tiles(Products)","gpu__time_duration.sum","us","12.5"\n==PROF== Disconnected\n'
    )
    assert timeline.ncu_rows(text) == [
        {"kernel": "project_tiles(Products)", "metric": "gpu__time_duration.sum", "value": "12.5", "unit": "us"}
    ]
    assert timeline.ncu_rows("==ERROR== no permission") == []


def test_resnet50_is_torchvisions() -> None:
    import torch
    from resnet50 import ResNet50
    from torchvision import models

    torch.manual_seed(3)
    theirs = models.get_model("resnet50", weights=None, num_classes=7)
    ours = ResNet50(3, 7)
    assert [(n, p.shape) for n, p in ours.named_parameters()] == [(n, p.shape) for n, p in theirs.named_parameters()]
    ours.load_state_dict(theirs.state_dict())
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(ours.eval()(images), theirs.eval()(images))


def test_crops_hold_what_the_padded_image_holds() -> None:
    import torch
    from peers import cropped_and_flipped

    torch.manual_seed(0)
    images = torch.arange(2 * 3 * 8 * 8, dtype=torch.float32).view(2, 3, 8, 8) + 1
    wide = torch.nn.functional.pad(images, (4, 4, 4, 4))
    for image, cut in zip(wide, cropped_and_flipped(images), strict=True):
        places = [image[:, y : y + 8, x : x + 8] for y in range(9) for x in range(9)]
        assert sum(torch.equal(cut, one) or torch.equal(cut, one.flip(2)) for one in places) >= 1


def test_sizes_of_a_device_are_those_of_the_goals() -> None:
    full = figures.FULL
    assert (full.large, full.batch, full.side, full.components, full.columns) == ("resnet50", 256, 224, 32, 25_557_032)


@without_device
@driver_stub.needs_a_compiler
@pytest.mark.parametrize(
    ("version", "code", "says"),
    [
        (11040, 0, "The NVIDIA driver on your system is too old (found version 11040); torch needs one for CUDA 13.0"),
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
    done = subprocess.run([binaries / "cuda_test"], env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
