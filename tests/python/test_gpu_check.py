"""The check for GPU machines, tiny, on a processor: its tests, its figures, its options and its exit codes."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import REPOSITORY
from fashion import few
from torchvision import models

sys.path.insert(0, str(REPOSITORY / "experiments" / "benchmarks"))
import device  # noqa: E402
from resnet50 import ResNet50  # noqa: E402

SCRIPT = [sys.executable, str(REPOSITORY / "experiments" / "benchmarks" / "device.py")]
TESTS = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(REPOSITORY / "tests" / "device")]


def run(command: list[str], binaries: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Of the build under test, on few images and one core."""
    given = os.environ | {"DIMRED_BUILD": str(binaries.parent), "DIMRED_FASHION": str(few()), "OMP_NUM_THREADS": "1"} | more
    return subprocess.run([*command, *words], env=given, capture_output=True, text=True, timeout=500, check=False)


def test_all_parts_have_figures_on_a_processor_and_nothing_is_judged_there(tmp_path: Path, binaries: Path) -> None:
    done = run(SCRIPT, binaries, "--device=cpu", f"--output={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "device.json").read_text())
    assert {figure["part"] for figure in report["figures"]} == {part.__name__ for part in device.PARTS}
    assert all(math.isfinite(value) for figure in report["figures"] for value in figure["values"])
    assert not report["judged"] and {figure["reached"] for figure in report["figures"]} == {None} and not report["missing"]
    for figure in report["figures"]:
        assert any(line.startswith(figure["part"]) and figure["name"] in line for line in done.stdout.splitlines())
    assert [path.name for path in tmp_path.iterdir()] == ["device.json"]


def test_the_tests_of_a_device_hold_on_a_processor(binaries: Path) -> None:
    done = run(TESTS, binaries, DIMRED_DEVICE="cpu")
    assert done.returncode == 0, done.stdout
    assert "failed" not in done.stdout and " passed" in done.stdout  # two orders of summing agree; programs find no device
    assert "tests found no device" in done.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_without_a_device_tests_are_counted_and_figures_refused(tmp_path: Path, binaries: Path) -> None:
    done = run(TESTS, binaries)
    assert done.returncode == 0 and "9 skipped" in done.stdout and "no CUDA device" in done.stdout, done.stdout
    done = run(SCRIPT, binaries, f"--output={tmp_path}")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("device: needs the device cuda, received none: ")


def test_parts_that_have_no_figures_are_named(tmp_path: Path, binaries: Path) -> None:
    done = run(SCRIPT, binaries, "--device=cpu", "--parts", "demo", f"--output={tmp_path}", DIMRED_FASHION=str(tmp_path / "nowhere"))
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "device: these parts have no figures: demo")
    assert "not measured: demo: Fashion-MNIST is not here" in done.stdout
    done = run(SCRIPT, binaries, "--device=cpu", f"--output={tmp_path}", DIMRED_BUILD=str(tmp_path))
    assert done.returncode == 1 and done.stderr.startswith(f"device: cannot start {tmp_path}/bin/dimred: ")


@pytest.mark.parametrize("option", ["--device=gpu", "--minutes=0", "--minutes=nan", "--parts=none"])
def test_bad_options_are_refused(tmp_path: Path, binaries: Path, option: str) -> None:
    done = run(SCRIPT, binaries, option, f"--output={tmp_path / 'out'}")
    assert done.returncode == 2 and option.split("=")[0] in done.stderr and not any(tmp_path.iterdir())


def test_a_bar_is_held_against_the_median() -> None:
    assert device.Figure("p", "f", [0.8, 0.9, 5.0], at_least=0.85).reached
    assert not device.Figure("p", "f", [0.8, 0.84, 5.0], at_least=0.85).reached
    assert device.Figure("p", "f", [1.45], at_most=1.45).reached
    assert device.Figure("p", "f", [1.0]).reached is None
    assert device.Figure("p", "f", [0.8, 0.9, 5.0], "x", 0.85).row(True) == ["p", "f", "0.9 (0.8 to 5) x", ">= 0.85", "yes"]


def test_turns_rotate_a_failed_peer_drops_out_and_ours_does_not() -> None:
    order: list[str] = []

    def contestant(name: str, value: float | None = None):
        def call() -> float:
            order.append(name)
            if value is None:
                raise RuntimeError("of a kind")
            return value

        return call

    timing = device.Timing(torch.device("cpu"), device.QUICK, Path(), math.inf)
    found = timing.rounds("p", {"dimred": contestant("dimred", 2.0), "PyTorch": contestant("PyTorch", 4.0)})
    assert order == ["dimred", "PyTorch", "PyTorch", "dimred"] and device.ratios(found["PyTorch"], found["dimred"]) == [2.0, 2.0]
    found = timing.rounds("p", {"dimred": contestant("dimred", 2.0), "PyTorch": contestant("PyTorch")})
    assert found == {"dimred": [2.0, 2.0], "PyTorch": []} and timing.missing == ["p, PyTorch: of a kind"]
    with pytest.raises(RuntimeError, match="of a kind"):
        timing.rounds("p", {"dimred": contestant("dimred")})


def test_resnet50_is_torchvisions() -> None:
    torch.manual_seed(3)
    theirs = models.get_model("resnet50", weights=None, num_classes=7)
    ours = ResNet50(3, 7)
    assert [(n, p.shape) for n, p in ours.named_parameters()] == [(n, p.shape) for n, p in theirs.named_parameters()]
    ours.load_state_dict(theirs.state_dict())
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(ours.eval()(images), theirs.eval()(images))


def test_crops_hold_what_the_padded_image_holds() -> None:
    torch.manual_seed(0)
    images = torch.arange(2 * 3 * 8 * 8, dtype=torch.float32).view(2, 3, 8, 8) + 1
    wide = torch.nn.functional.pad(images, (4, 4, 4, 4))
    for image, cut in zip(wide, device.cropped_and_flipped(images), strict=True):
        places = [image[:, y : y + 8, x : x + 8] for y in range(9) for x in range(9)]
        assert sum(torch.equal(cut, one) or torch.equal(cut, one.flip(2)) for one in places) >= 1
