"""Both stages, the PCA and evaluate on several ranks of this machine: results, resume on another number."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from cli import cli, rows
from fashion import few
from ranks import SMALL, distance, ended, refused, run_ranks, started, vectors


@pytest.fixture(scope="module")
def runs(tmp_path_factory, dimred: Path):
    """Stage 1 and stage 2 on 1, 2 and 3 ranks with the same global batch; made when first asked for."""
    folder = tmp_path_factory.mktemp("ranks")

    def run(stage: str, ranks: int) -> Path:
        output = folder / f"{stage}_{ranks}"
        if not output.exists():
            options = ["--epochs=1"]
            if stage == "stage2":
                options = ["--epochs=1", "--n_component=5", "--checkpoint", run("stage1", 1)]
            small = [
                option for option in SMALL if stage == "stage1" or ("learning" not in option and "snap" not in option)
            ]
            done = run_ranks(dimred, [stage, *small, *options, "--output", output], ranks)
            assert done.codes == [0] * ranks, done.errors
            assert done.output[1:] == [""] * (ranks - 1)
        return output

    return run


@pytest.mark.parametrize("ranks", [2, 3])
def test_stage1_is_the_same_on_any_number_of_ranks(ranks: int, runs) -> None:
    """25 steps without BatchNorm: sums in another order alone. (A ReLU or a maximum that rounding turns
    over is a jump in the gradient; at this learning rate none does.)"""
    one, several = vectors(runs("stage1", 1)), vectors(runs("stage1", ranks))
    assert distance(one["weights"], several["weights"]) < 1e-5
    for before, now in zip(rows(runs("stage1", 1)), rows(runs("stage1", ranks)), strict=True):
        assert float(now["train_loss"]) == pytest.approx(float(before["train_loss"]), rel=1e-5)
        assert now["images"] == before["images"]
        assert now["test_accuracy"] == before["test_accuracy"]  # no image of these lies on the border of two classes
        assert int(now["wire_bytes"]) > 0


@pytest.mark.parametrize("ranks", [3])
def test_stage2_is_the_same_on_any_number_of_ranks(ranks: int, runs) -> None:
    """25 steps: line searches take the same trials unless rounding decides one."""
    one, several = runs("stage2", 1), runs("stage2", ranks)
    assert np.abs(np.load(one / "pca_mat.npy") - np.load(several / "pca_mat.npy")).max() < 1e-6
    weights = [vectors(run)["weights"] for run in (one, several)]
    assert distance(*weights) < 1e-3


def test_the_same_ranks_give_the_same_bits(runs, tmp_path: Path, dimred: Path) -> None:
    first = runs("stage1", 3)
    again = tmp_path / "again"
    assert run_ranks(dimred, ["stage1", *SMALL, "--epochs=1", "--output", again], 3).codes == [0, 0, 0]
    assert {k: v.tobytes() for k, v in vectors(first).items()} == {k: v.tobytes() for k, v in vectors(again).items()}
    assert rows(first) == rows(again)


@pytest.mark.parametrize("stage", ["stage1", "stage2"])
def test_a_run_goes_on_with_another_number_of_ranks(stage: str, runs, tmp_path: Path, dimred: Path) -> None:
    """An epoch by 3 ranks, then 14 steps by 1, 2 or again 3 of them."""
    fewer = [option for option in SMALL if "samples" not in option] + ["--train_samples=840", "--test_samples=100"]
    options = (
        [stage, *fewer, "--total_epochs=2"]
        if stage == "stage1"
        else cli(
            stage, "--preset=robust --global_batch_size=60 --threads=1 --n_component=5", checkpoint=runs("stage1", 1)
        )
    )
    begun = tmp_path / "begun"
    assert run_ranks(dimred, [*options, "--epochs=1", "--output", begun], 3).codes == [0, 0, 0]
    ends = {}
    for ranks in (1, 2, 3):
        run = tmp_path / str(ranks)
        shutil.copytree(begun, run)
        done = run_ranks(dimred, [*options, "--epochs=2", "--output", run], ranks)
        assert done.codes == [0] * ranks, done.errors
        assert "continuing at epoch 1" in done.output[0]
        ends[ranks] = vectors(run)
    for ranks in (1, 2):
        for name in ("weights", "momentum" if stage == "stage1" else "residual_momentum"):
            assert distance(ends[3][name], ends[ranks][name]) < (1e-3 if name == "weights" else 5e-2)


@pytest.mark.parametrize("policy", ["averaged", "rank0", "synchronized"])
def test_batchnorm_policies(policy: str, tmp_path: Path, dimred: Path) -> None:
    """Synchronised statistics make BatchNorm independent of the ranks; 101 samples leave the last batch
    of 1 to one rank."""
    small = cli(
        "--train_samples=101 --test_samples=50 --global_batch_size=20 --threads=1 --model=resnet20",
        "--learning_rate=0.01 --epochs=1",
        batchnorm_statistics=policy,
        data=few(),
    )
    for ranks in (1, 2):
        done = run_ranks(dimred, ["stage1", *small, "--output", tmp_path / str(ranks)], ranks)
        assert done.codes == [0] * ranks, done.errors
    one, two = vectors(tmp_path / "1"), vectors(tmp_path / "2")
    apart = distance(one["buffers"], two["buffers"])
    assert apart < 5e-3 if policy == "synchronized" else 5e-3 < apart < 0.5


def test_gradient_accumulation_changes_only_rounding(runs, tmp_path: Path, dimred: Path) -> None:
    run = tmp_path / "run"
    done = run_ranks(dimred, ["stage1", *SMALL, "--epochs=1", "--gradient_accumulation=4", "--output", run], 2)
    assert done.codes == [0, 0], done.errors
    assert distance(vectors(runs("stage1", 1))["weights"], vectors(run)["weights"]) < 1e-5


def test_pca_of_several_ranks(runs, tmp_path: Path, dimred: Path) -> None:
    """One matrix of three processes; every rank reads its own columns."""
    snapshots = runs("stage1", 1) / "snapshots"
    for ranks in (1, 3):
        done = run_ranks(dimred, ["pca", snapshots, "--components=5", "--output", tmp_path / f"p{ranks}.npy"], ranks)
        assert done.codes == [0] * ranks, done.errors
        assert done.output[1:] == [""] * (ranks - 1)
    assert np.abs(np.load(tmp_path / "p1.npy") - np.load(tmp_path / "p3.npy")).max() < 1e-6
    done = run_ranks(dimred, ["pca", snapshots, "--components=99", "--output", tmp_path / "q.npy"], 3)
    refused(done, 2, "needs more snapshots than components")
    assert not list(tmp_path.glob("q.*"))


def test_evaluate_is_spread_over_ranks(runs, dimred: Path) -> None:
    """298 samples on 3 ranks, none dropped or counted twice."""
    printed = [run_ranks(dimred, ["evaluate", runs("stage1", 1), "--threads=1"], ranks) for ranks in (1, 3)]
    assert printed[0].output[0] == printed[1].output[0]
    assert "(298 samples)" in printed[1].output[0]


def test_ranks_with_another_matrix(runs, tmp_path: Path, dimred: Path) -> None:
    """Each host may have its own file of that name."""
    basis = np.load(runs("stage2", 1) / "pca_mat.npy")
    for rank, matrix in enumerate((basis, basis[::-1])):
        (tmp_path / str(rank)).mkdir()
        np.save(tmp_path / str(rank) / "p.npy", matrix)
    common = cli(
        "stage2 --global_batch_size=60 --n_component=5 --epochs=1 --pca_mat=/proc/self/cwd/p.npy",
        checkpoint=runs("stage1", 1),
        output=tmp_path / "run",
    )
    with started(dimred, common, 2, folders=[tmp_path / "0", tmp_path / "1"]) as processes:
        done = ended(processes)
    refused(done, 2, "ranks disagree in the projection matrix: ")
