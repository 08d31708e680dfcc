"""`dimred inspect --landscape`: the surface against weights made by hand, the path against NumPy."""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from cli import cli
from dimred_twins import build
from fashion import few
from ranks import run_ranks
from safetensors.torch import save_file

SMALL = cli("--train_samples=300 --test_samples=100 --batch_size=50 --threads=1 --learning_rate=0.05", data=few())
WHOLE_TEST_SET = ["--set=test", "--samples=0", "--threads=1"]


def weights_of(snapshot: Path) -> np.ndarray:
    """Flat, in the file's order."""
    with h5py.File(snapshot) as h5:
        return h5["weights"][:].astype(np.float64)


@pytest.fixture(scope="module")
def run(tmp_path_factory, execute) -> Path:
    """Three snapshots, which the two components of their PCA hold exactly, and a later run's path."""
    run = tmp_path_factory.mktemp("landscape") / "one"
    execute("dimred", "stage1", *SMALL, "--epochs=1", "--snapshots_per_epoch=3", "--output", run)
    execute("dimred", "pca", run / "snapshots", "--components=2", "--output", run.parent / "p.npy")
    return run


@pytest.fixture(scope="module")
def landscape(run: Path, execute):
    """Runs the command; the surface and the path as tables."""

    def call(output: Path, *options: object) -> tuple[pd.DataFrame, pd.DataFrame]:
        execute("dimred", "inspect", *options, landscape=run, pca_mat=run.parent / "p.npy", output=output)
        return pd.read_csv(output), pd.read_csv(output.with_name(f"{output.stem}_path.csv"))

    return call


def loss_of(execute, weights: Path, *options: object) -> float:
    """The test loss that evaluate prints, four digits behind the point."""
    return float(re.search(r"^test +loss ([\d.]+)", execute("dimred", "evaluate", weights, *options), re.M)[1])


def test_the_path_is_projected_and_the_surface_meets_it(run: Path, tmp_path: Path, landscape, execute) -> None:
    _, path = landscape(tmp_path / "first.csv", *WHOLE_TEST_SET, "--grid=2,2")
    snapshots = [weights_of(file) for file in sorted((run / "snapshots").glob("*.h5"))]
    basis = np.load(run.parent / "p.npy").astype(np.float64)
    assert list(path.step) == [2, 4, 6]  # the state at step 6 is the last snapshot
    assert list(path.epoch) == [1, 1, 1]
    expected = np.array([basis @ (w - snapshots[-1]) for w in snapshots])
    length = np.linalg.norm(expected)
    np.testing.assert_allclose(path[["a", "b"]], expected, atol=1e-6 * length)  # P is float32
    assert (path.distance_from_plane < 1e-5 * length).all()
    first = sorted((run / "snapshots").glob("*.h5"))[0]
    assert path.loss[0] == pytest.approx(loss_of(execute, first), abs=6e-5)
    # A grid whose corners are the first two snapshots' coordinates.
    low, high = path[["a", "b"]][:2].min(), path[["a", "b"]][:2].max()
    surface, again = landscape(
        tmp_path / "second.csv",
        *WHOLE_TEST_SET,
        "--grid=2,2",
        f"--a_range={float(low.a)!r},{float(high.a)!r}",
        f"--b_range={float(low.b)!r},{float(high.b)!r}",
    )
    pd.testing.assert_frame_equal(path, again)
    for point in path[:2].itertuples():
        there = surface[(surface.a == point.a) & (surface.b == point.b)]
        # The projection moves weights by 1e-6 of the path; float32 sums.
        assert there.loss.item() == pytest.approx(point.loss, rel=1e-4)
        assert there.accuracy.item() == pytest.approx(point.accuracy, abs=0.011)


def test_a_point_of_the_surface_is_the_loss_of_those_weights(run: Path, tmp_path: Path, landscape, execute) -> None:
    surface, _ = landscape(
        tmp_path / "s.csv", *WHOLE_TEST_SET, "--grid=3,2", "--components=2,1", "--a_range=-0.4,0.8", "--b_range=0.5,1.5"
    )
    assert list(surface.a) == pytest.approx([-0.4, 0.2, 0.8] * 2)
    assert list(surface.b) == [0.5] * 3 + [1.5] * 3
    basis = np.load(run.parent / "p.npy").astype(np.float64)
    center = weights_of(sorted((run / "snapshots").glob("*.h5"))[-1])
    network = build("convnet", channels=1, height=28, width=28, classes=10)
    point = surface.iloc[2]
    weights = center + point.a * basis[1] + point.b * basis[0]
    torch.nn.utils.vector_to_parameters(torch.from_numpy(weights.astype(np.float32)), network.parameters())
    save_file({k: v.contiguous() for k, v in network.state_dict().items()}, tmp_path / "w.safetensors")
    words = cli("--model=convnet --test_samples=100 --train_samples=300", data=few())
    expected = loss_of(execute, tmp_path / "w.safetensors", *words)
    assert point.loss == pytest.approx(expected, abs=6e-5 + 1e-5 * expected)


def test_batchnorm_is_recalibrated_or_kept(tmp_path: Path, execute) -> None:
    """At the center the surface is what evaluate says: of the mean recalibrated, of the last as saved."""
    run, matrix = tmp_path / "one", tmp_path / "p.npy"
    small = cli("--train_samples=128 --test_samples=64 --batch_size=32 --threads=1 --model=resnet20", data=few())
    execute("dimred", "stage1", *small, "--epochs=1", "--snapshots_per_epoch=3", "--output", run)
    execute("dimred", "pca", run / "snapshots", "--components=2", "--output", matrix)

    def center_loss(*options: object) -> float:
        output = tmp_path / "s.csv"
        execute(
            "dimred",
            "inspect --overwrite --grid=1,1 --a_range=-1,1 --b_range=-1,1",
            *WHOLE_TEST_SET,
            "--batch_size=32",
            *options,
            landscape=run,
            pca_mat=matrix,
            output=output,
        )
        return pd.read_csv(output).loss.item()

    kept = loss_of(execute, run, "--threads=1")
    mean = loss_of(execute, run / "snapshots", "--batch_size=32", "--threads=1")
    assert center_loss("--batchnorm=keep") == pytest.approx(kept, abs=6e-5)
    assert center_loss("--center=mean", "--batchnorm_batches=99") == pytest.approx(mean, abs=6e-5)
    assert center_loss("--batchnorm_batches=1") != pytest.approx(kept, abs=1e-3)


def test_ranks_share_the_grid_and_more_runs_are_projected(run: Path, tmp_path: Path, landscape, binaries) -> None:
    options = cli("--grid=3,3 --samples=60 --threads=1", paths=f"{run}/snapshots,{run}/checkpoints/state_00000006")
    surface, path = landscape(tmp_path / "one.csv", *options)
    assert path.source.nunique() == 3
    assert len(path) == 3 + 3 + 1
    assert surface.a.min() < path.a.min() <= 0 <= path.a.max() < surface.a.max()
    done = run_ranks(
        binaries / "dimred",
        ["inspect", "--landscape", run, "--pca_mat", run.parent / "p.npy", "--output", tmp_path / "two.csv", *options],
        2,
    )
    assert done.codes == [0, 0], done.errors
    assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert (tmp_path / "two_path.csv").read_bytes() == (tmp_path / "one_path.csv").read_bytes()


def test_weights_alone_name_the_defaults_that_stand_in(run: Path, tmp_path: Path, execute) -> None:
    loose = tmp_path / "loose.safetensors"
    execute("dimred", "convert", next((run / "snapshots").glob("*.h5")), "--output", loose)
    words = cli("--grid=1,1 --a_range=-1,1 --b_range=-1,1 --samples=20 --threads=1", pca_mat=run.parent / "p.npy")
    said = execute("dimred", "inspect", "--landscape", loose, *words, "--output", tmp_path / "s.csv")
    assert f"no run folder records the network of {loose}, so this is the default network, convnet" in said
    assert f"no run folder records the training data of {loose}, so normalisation, classes and samples come" in said
    said = execute("dimred", "inspect", "--landscape", run, *words, "--output", tmp_path / "t.csv")
    assert "no run folder" not in said


def test_what_cannot_be_drawn_is_refused(run: Path, tmp_path: Path, fails) -> None:
    def refused(*options: object) -> str:
        return fails(2, "inspect", "--landscape", run, "--output", tmp_path / "s.csv", *options)

    matrix = ["--pca_mat", run.parent / "p.npy"]
    assert "needs --pca_mat" in refused()
    assert "rows in [1, 2], received 3" in refused(*matrix, "--components=1,3")
    assert "components: needs" in refused(*matrix, "--components=1,1e300")
    assert "no such file or folder" in refused(*matrix, "--paths", tmp_path / "nowhere")
    for paths in ("a,,b", ",a", "a,"):
        assert f"needs a path on both sides of each comma, received {paths}" in refused(*matrix, f"--paths={paths}")
    assert "--label_smoothing: unknown option" in refused(*matrix, "--label_smoothing=0.1")
    assert "margin has no effect: it needs a_range" in refused(*matrix, "--a_range=0,1", "--b_range=0,1", "--margin=1")
    assert "seed has no effect: it needs samples > 0" in refused(*matrix, "--seed=3", "--samples=0", "--batchnorm=keep")
    (tmp_path / "s_path.csv").write_text("mine")
    assert "exists already" in refused(*matrix)
    assert [file.name for file in tmp_path.iterdir()] == ["s_path.csv"]
    state = next((run / "checkpoints").iterdir())
    assert "do not leave the center along a" in fails(
        2, "inspect", "--landscape", state, *matrix, "--output", tmp_path / "t.csv", "--samples=10"
    )
