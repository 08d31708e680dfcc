"""A run that is killed and started again has the bits of one that was not."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import DEVICE
from programs import BIN, data, environment, options_of, rows_of, run, train

COMMON = {
    "model": "convnet",
    "test_samples": 64,
    "batch_size": 16,
    "epochs": 3,
    "seed": 1,
    "quiet": "true",
    "checkpoint_every": 1,
    "snapshots_per_epoch": 2,
}


def options_for(device: str) -> dict[str, object]:
    """A run of some seconds."""
    folder = data("fashion")
    images = {"data": folder} if folder else {"dataset": "mock", "mock_shape": "1,28,28"}
    few = {"threads": 1, "train_samples": 320} if device == "cpu" else {"train_samples": 25_600}
    return COMMON | images | few | {"device": device}


def killed_after_a_state(command: list[str], folder: Path) -> None:
    """Starts a run and ends it by kill -9 when its first state is there."""
    with (folder.parent / "killed.log").open("w") as log:
        process = subprocess.Popen(command, env=environment(), stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while (
            process.poll() is None and time.monotonic() < deadline and not list(folder.glob("checkpoints/*/state.json"))
        ):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait(10) == -signal.SIGKILL, (folder.parent / "killed.log").read_text()


def content(folder: Path) -> dict[str, str]:
    """Digests of the vectors of the newest state."""
    state = max(folder.glob("checkpoints/*/state.json"), key=lambda path: path.parent.name).parent
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(state.iterdir())
        if file.suffix != ".json"
    }


def curve(folder: Path) -> list[dict[str, str]]:
    """Without its times."""
    return [
        {k: v for k, v in row.items() if k not in ("seconds", "data_wait_seconds")}
        for row in rows_of(folder / "curve.csv")
    ]


@pytest.mark.parametrize("stage", ["stage2"] if DEVICE == "cpu" else ["stage1", "stage2"])
def test_kill_9_and_a_second_start_change_no_bit(stage: str, device: str, tmp_path: Path) -> None:
    options = options_for(device) | {"learning_rate": 0.02}
    if stage == "stage2":
        start = tmp_path / "start"
        train("stage1", start, **(options | {"epochs": 1, "snapshots_per_epoch": 8}))
        run(
            "dimred", "pca", "--snapshots", start / "snapshots", "--components", 6, "--output", tmp_path / "pca_mat.npy"
        )
        options = {
            k: v for k, v in options.items() if k not in ("learning_rate", "snapshots_per_epoch", "checkpoint_every")
        }
        options |= {"checkpoint": start, "pca_mat": tmp_path / "pca_mat.npy"}
    train(stage, tmp_path / "whole", **options)
    killed = tmp_path / "killed"
    killed_after_a_state([str(BIN / "dimred"), stage, f"--output={killed}", *options_of(**options)], killed)
    assert len(curve(killed)) < len(curve(tmp_path / "whole"))
    train(stage, killed, **options)
    assert curve(killed) == curve(tmp_path / "whole")
    assert content(killed) == content(tmp_path / "whole")
