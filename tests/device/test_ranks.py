"""Several ranks on one device, and one rank over NCCL."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from programs import BIN, data, environment, options_of, rows_of, run, train

COMMON = {
    "model": "convnet",
    "train_samples": 320,
    "test_samples": 64,
    "global_batch_size": 32,
    "epochs": 1,
    "seed": 1,
    "quiet": "true",
    "learning_rate": 0.02,
}


def data_options() -> dict[str, object]:
    """Fashion-MNIST, or random images of its shape."""
    folder = data("fashion")
    return {"data": folder} if folder else {"dataset": "mock", "mock_shape": "1,28,28"}


def on_ranks(count: int, *words: object) -> None:
    """Runs `dimred` on several ranks of this machine, as a launcher does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(BIN / "dimred"), *map(str, words)]
    print("$", *command, f"on {count} ranks", flush=True)
    ranks = [
        subprocess.Popen(
            command,
            env=environment()
            | {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(count),
                "LOCAL_WORLD_SIZE": str(count),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            },
        )
        for rank in range(count)
    ]
    try:
        assert [rank.wait(60) for rank in ranks] == [0] * count
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def losses(folder: Path) -> list[float]:
    """The curve's."""
    return [
        float(row["train_loss"])
        for row in rows_of(folder / "curve.csv")
        if row["weights"] == "raw" and row["train_loss"]
    ]


def test_two_ranks_on_one_device_over_gloo_train_as_one(device: str, tmp_path: Path) -> None:
    one = "cpu" if device == "cpu" else device if ":" in device else "cuda:0"
    common = COMMON | data_options() | {"device": one}
    train("stage1", tmp_path / "alone", **common, snapshots_per_epoch=5)
    on_ranks(2, "stage1", f"--output={tmp_path / 'pair'}", *options_of(**common, snapshots_per_epoch=5, backend="gloo"))
    assert losses(tmp_path / "pair") == pytest.approx(losses(tmp_path / "alone"), rel=1e-4)
    matrix = ("--components=4", "--output", tmp_path / "pca_mat.npy")
    run("dimred", "pca", "--snapshots", tmp_path / "alone" / "snapshots", *matrix)
    second = {key: value for key, value in common.items() if key != "learning_rate"}
    second |= {"checkpoint": tmp_path / "alone", "pca_mat": tmp_path / "pca_mat.npy"}
    train("stage2", tmp_path / "alone2", **second)
    on_ranks(2, "stage2", f"--output={tmp_path / 'pair2'}", *options_of(**second, backend="gloo"))
    assert losses(tmp_path / "pair2") == pytest.approx(losses(tmp_path / "alone2"), rel=1e-3)


def test_collectives_of_one_rank_over_nccl(cuda: str) -> None:
    done = run("distributed_test", "--gtest_filter=DeviceNccl*", seconds=60)
    assert "[  PASSED  ]" in done.output
    assert "[  SKIPPED ]" not in done.output
