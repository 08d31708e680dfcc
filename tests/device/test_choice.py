"""Which device a run takes, and what it says where it cannot have one: one line, exit code 1, and no run folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import DEVICE
from programs import options_of, run

TINY = {
    "dataset": "mock",
    "mock_shape": "1,28,28",
    "model": "convnet",
    "train_samples": 16,
    "test_samples": 4,
    "batch_size": 8,
    "epochs": 1,
    "snapshots_per_epoch": 0,
    "quiet": "true",
}
HIDDEN = {"wrong": "junk,7"} | ({} if DEVICE == "cpu" else {"empty": ""})


def device_of(folder: Path) -> str:
    """That a run was on."""
    return json.loads((folder / "manifest.json").read_text())["device"]


def refused(folder: Path, **options: object) -> str:
    """The one line of a run that has to be refused, which leaves nothing."""
    variables = {key: options.pop(key) for key in ["CUDA_VISIBLE_DEVICES"] if key in options}
    done = run("dimred", "stage1", f"--output={folder}", *options_of(**(TINY | options)), fail=False, **variables)
    assert done.code == 1
    assert len(done.error.splitlines()) == 1, done.error
    assert not folder.exists() or not any(path.is_file() for path in folder.rglob("*"))
    return done.error


@pytest.mark.parametrize("hidden", HIDDEN)
def test_auto_takes_the_processor_where_the_devices_are_hidden(hidden: str, device: str, tmp_path: Path) -> None:
    done = run(
        "dimred",
        "stage1",
        f"--output={tmp_path / 'run'}",
        *options_of(**TINY, device="auto"),
        CUDA_VISIBLE_DEVICES=HIDDEN[hidden],
    )
    assert done.error == ""
    assert device_of(tmp_path / "run") == "cpu"


def test_auto_takes_the_first_device(device: str, tmp_path: Path) -> None:
    run(
        "dimred",
        "stage1",
        f"--output={tmp_path / 'run'}",
        *options_of(**TINY, device="auto"),
        CUDA_VISIBLE_DEVICES=None,
    )
    assert device_of(tmp_path / "run") == ("cpu" if device == "cpu" else "cuda:0")


@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_hidden_device_is_said_to_be_hidden(hidden: str, device: str, tmp_path: Path) -> None:
    line = refused(tmp_path / "run", device="cuda", CUDA_VISIBLE_DEVICES=HIDDEN[hidden])
    assert "no CUDA device was found for --device cuda: " in line
    assert device == "cpu" or "CUDA_VISIBLE_DEVICES" in line


def test_an_ordinal_that_does_not_exist_is_named(cuda: str, tmp_path: Path) -> None:
    line = refused(tmp_path / "run", device="cuda:99")
    assert "the CUDA device number 99 does not exist; the number of devices is " in line


def test_a_full_device_names_batch_size_and_what_would_fit(cuda: str, tmp_path: Path) -> None:
    done = run(
        "dimred",
        "stage1",
        f"--output={tmp_path / 'run'}",
        *options_of(
            **(TINY | {"model": "resnet50", "mock_shape": "3,224,224", "batch_size": 8192, "train_samples": 8192}),
            device=cuda,
        ),
        fail=False,
    )
    assert done.code == 1
    assert len(done.error.splitlines()) == 1, done.error
    most = re.search(r"a pass has 8192 samples, but at most (\d+) can fit; lower --batch_size", done.error)
    assert most, done.error
    assert 0 < int(most[1]) < 8192
    assert not (tmp_path / "run" / "checkpoints").exists()
