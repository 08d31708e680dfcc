"""The program starts on the device, finds its libraries and trains."""

from __future__ import annotations

import json
from pathlib import Path

from programs import run, train


def test_the_device_is_described(cuda: str) -> None:
    """For the log: card, driver, memory."""
    import subprocess

    print(subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=30, check=False).stdout)


def test_a_short_run_ends_well_there(device: str, tmp_path: Path) -> None:
    assert run("dimred", "--version").output.startswith("dimred ")
    folder = tmp_path / "run"
    train(
        "stage1",
        folder,
        device=device,
        dataset="mock",
        mock_shape="1,28,28",
        model="convnet",
        train_samples=80,
        test_samples=8,
        batch_size=8,
        epochs=1,
        snapshots_per_epoch=0,
    )
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["outcome"] == "finished"
    assert manifest["device"].partition(":")[0] == device.partition(":")[0]
