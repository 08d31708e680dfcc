"""dimred.runs: what it reads and what it refuses."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from fashion import few
from run_folders import row, write_run

from dimred.runs import (
    BadRun,
    Damaged,
    NotARun,
    OtherVersion,
    Unfinished,
    coordinates,
    explained_variance_ratio,
    gram_matrix,
    outcome,
    random_walk_ratio,
    read_basis,
    read_gram,
    read_landscape,
    read_run,
    read_runs,
    read_snapshots,
    read_weights,
)


@pytest.fixture(scope="session")
def trained(tmp_path_factory, execute) -> Path:
    """A folder with a real stage-1 run of 12 snapshots, a matrix of it and a stage-2 run."""
    folder = tmp_path_factory.mktemp("trained")
    small = ["--train_samples=320", "--test_samples=100", "--validation_fraction=0.2", "--threads=1", f"--data={few()}"]
    execute("dimred", "stage1", *small, "--epochs=3", "--snapshots_per_epoch=4", "--output", folder / "stage1")
    execute("dimred", "pca --components=4", snapshots=folder / "stage1/snapshots", output=folder / "pca_mat.npy")
    execute(
        "dimred",
        "stage2 --epochs=1 --threads=1",
        checkpoint=folder / "stage1",
        pca_mat=folder / "pca_mat.npy",
        output=folder / "stage2",
    )
    return folder


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    """The same, to be damaged."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def flip(file: Path, place: int) -> None:
    """Changes one bit of a file."""
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


def test_a_whole_folder_is_read(trained: Path) -> None:
    one, two = read_runs([trained / "stage1", trained / "stage2"], finished=True)
    assert two.parent is one
    assert list(two.curve["epoch"]) == [3, 4]
    assert len(two.steps) == two.steps_per_epoch == 4  # 256 samples in batches of 64
    assert one.costs()["spent"] == 3
    costs = two.costs()
    assert costs["spent"] == (costs["forward_passes"] + 2 * costs["backward_passes"]) / 12
    assert costs["basis_bytes_read"] >= 4 * 2 * read_basis(trained / "pca_mat.npy").rows.nbytes
    assert two.config["preset"] == "robust-mean"


def test_snapshots_and_matrices_agree_with_each_other(trained: Path) -> None:
    snapshots = read_snapshots(trained / "stage1")
    assert list(snapshots["epoch"]) == [1] * 4 + [2] * 4 + [3] * 4
    weights = np.stack([read_weights(file) for file in snapshots["path"]])
    gram = gram_matrix(list(snapshots["path"]))
    basis = read_basis(trained / "pca_mat.npy", digest=True)
    assert basis.kind == "pca"
    # Both sum float32 squares in float64; P itself has float32's 24 bits.
    assert explained_variance_ratio(gram)[:4] == pytest.approx(basis.sidecar["explained_variance_ratio"], rel=1e-6)
    assert random_walk_ratio(12, 4) == pytest.approx(basis.sidecar["random_walk_ratio"], rel=1e-12)
    projected = np.abs((weights - weights.mean(axis=0)).astype(float) @ basis.rows.T.astype(float))
    assert np.abs(coordinates(gram, 4)) == pytest.approx(projected, abs=1e-5)


def damages(folder: Path) -> dict[str, BadRun]:
    """What may befall a folder -> the error that it must become."""
    curve = folder / "stage2" / "curve.csv"
    return {
        "a bit of the curve": (lambda: flip(curve, 250), Damaged),
        "the curve's end": (lambda: curve.write_bytes(curve.read_bytes()[:-20]), Damaged),
        "a row too few": (lambda: curve.write_text("\n".join(curve.read_text().splitlines()[:2]) + "\n"), Damaged),
        "the last row": (lambda: cut_last_row(folder / "stage2"), Damaged),
        "no curve": (curve.unlink, NotARun),
        "a column": (lambda: curve.write_text(curve.read_text().replace("weights", "w")), Damaged),
        "not text": (lambda: curve.write_bytes(b"\xff\xfe\n"), Damaged),
        "the options": (lambda: flip(folder / "stage2/config.toml", 300), Damaged),
        "the manifest": (lambda: (folder / "stage2/manifest.json").write_text('{"outcome":'), Damaged),
        "another version": (lambda: change(folder, "versions", {"dimred": "9.1"}), OtherVersion),
        "interrupted": (lambda: change(folder, "outcome", "interrupted"), Unfinished),
    }


def cut_last_row(run: Path) -> None:
    """At the end of a line, and no state is left that saw it."""
    shutil.rmtree(run / "checkpoints")
    curve = run / "curve.csv"
    curve.write_text("".join(curve.read_text().splitlines(keepends=True)[:-1]))


def change(folder: Path, key: str, value: object) -> None:
    """Edits the manifest."""
    file = folder / "stage2/manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))


@pytest.mark.parametrize("damage", damages(Path()))
def test_a_folder_that_is_not_whole_is_refused_by_name(damage: str, copy: Path) -> None:
    harm, error = damages(copy)[damage]
    harm()
    with pytest.raises(error, match=str(copy / "stage2")):
        read_run(copy / "stage2", finished=True)
    assert outcome(copy / "stage2")[0] == error.outcome


def test_an_interrupted_run_can_be_looked_at(tmp_path: Path) -> None:
    """The half line that a kill left is no row, and no damage either."""
    run = write_run(tmp_path / "run", [row(1, 0.5), row(2, 0.6)], outcome="running")
    (run / "curve.csv").write_text((run / "curve.csv").read_text() + "stage1,sgd,raw,3,0.")
    assert list(read_run(run).curve["epoch"]) == [1, 2]
    assert outcome(run)[0] == "unfinished"


def test_damaged_snapshots_and_matrices_are_refused(copy: Path) -> None:
    snapshot, matrix = copy / "stage1/snapshots/snapshot_00000001.h5", copy / "pca_mat.npy"
    snapshot = sorted(snapshot.parent.iterdir())[0]
    for place in (5000, 600):  # a weight, the head
        flip(snapshot, place)
        with pytest.raises(Damaged, match=snapshot.name):
            read_weights(snapshot)
        flip(snapshot, place)
    read_weights(snapshot)
    flip(matrix, 4000)
    read_basis(matrix)
    with pytest.raises(Damaged, match=matrix.name):
        read_basis(matrix, digest=True)
    sidecar = matrix.with_suffix(".json")
    text = sidecar.read_text()
    sidecar.write_text(text.replace('"snapshots": 12', '"snapshots": 13'))
    with pytest.raises(Damaged, match="checksum"):
        read_basis(matrix)
    sidecar.write_text(text.replace("dimred-pca 1", "dimred-pca 2"))
    with pytest.raises(OtherVersion, match="dimred-pca 2"):
        read_basis(matrix)
    with h5py.File(copy / "foreign.h5", "w") as h5:
        h5["weights"] = np.zeros(3)
    with pytest.raises(NotARun):
        read_weights(copy / "foreign.h5")
    np.save(copy / "gram.npy", np.arange(6.0).reshape(2, 3))
    with pytest.raises(Damaged, match="not a Gram matrix"):
        read_gram(copy / "gram.npy")


@pytest.mark.parametrize("kind", ["soft", "external link", "external data", "virtual"])
def test_snapshots_are_read_from_their_own_file_alone(kind: str, copy: Path) -> None:
    file, pipe = sorted((copy / "stage1/snapshots").iterdir())[0], copy / "pipe"
    os.mkfifo(pipe)
    with h5py.File(file, "r+") as h5:
        h5["other"] = h5.pop("weights")
        if kind == "soft":
            h5["weights"] = h5py.SoftLink("/other")
        elif kind == "external link":
            h5["weights"] = h5py.ExternalLink(pipe, "weights")
        elif kind == "external data":
            h5.create_dataset("weights", (4,), "f4", external=[(pipe, 0, 16)])
        else:
            layout = h5py.VirtualLayout((4,), "f4", (None,))
            layout[: h5py.h5s.UNLIMITED] = h5py.VirtualSource(pipe, "weights", (4,), "f4", (None,))[
                : h5py.h5s.UNLIMITED
            ]
            h5.create_virtual_dataset("weights", layout)
    with pytest.raises(Damaged, match="outside the file"):
        read_weights(file, digest=False)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(NotARun, match="is not a file"):
        read_weights(file)


RESULTS = {
    "raw": ([("raw", 2)], "", "raw"),
    "recalibrated": ([("raw", 2), ("recalibrated", 2)], "", "recalibrated"),
    "average": ([("raw", 2), ("recalibrated", 2), ("ema", 2)], 'average = "ema"\n', "ema"),
    "mean": ([("raw", 2), ("mean", 2)], '[Stage]\naverage = "uniform"\n', "mean"),
    "no average asked for": ([("raw", 2), ("mean", 2)], 'average = "none"\n', "raw"),
    "start alone": ([("mean", 0)], "epochs = 0\n", "mean"),
    "older recalibration": ([("recalibrated", 1), ("raw", 2)], "", "raw"),
}


@pytest.mark.parametrize("case", RESULTS)
def test_the_result_is_of_the_weights_that_the_run_was_for(case: str, tmp_path: Path) -> None:
    rows, config, weights = RESULTS[case]
    run = read_run(write_run(tmp_path / "run", [row(e, 0.5, weights=w) for w, e in rows], config))
    assert run.result()["weights"] == weights


def test_a_continued_run_has_its_own_costs_only(tmp_path: Path) -> None:
    def passes(epoch: int) -> dict[str, object]:
        return row(epoch, 0.5, step=10 * epoch, backward_passes=10 * epoch)

    first = write_run(tmp_path / "one", [passes(1), passes(2)])
    second = write_run(tmp_path / "two", [passes(3), passes(4)], f'resume_from = "{first}"\n')
    _, run = read_runs([first, second])
    assert run.costs()["spent"] == 2
    assert run.costs()["images"] == 200
    assert list(run.own()["epoch"]) == [1, 2]


def test_recalibration_is_a_cost_but_not_of_the_budget(tmp_path: Path) -> None:
    rows = [
        row(1, 0.5, step=10, backward_passes=10),
        row(1, 0.6, step=10, backward_passes=10, forward_passes=20, weights="recalibrated"),
    ]
    costs = read_run(write_run(tmp_path / "run", rows)).costs()
    assert (costs["spent"], costs["forward_passes"]) == (1, 20)


def test_half_a_validation_set_is_no_epoch_of_the_training_set(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", [row(1, 0.5, step=100, backward_passes=100)], global_batch_size=64)
    config = f'checkpoint = "{one}"\ntrain_on = "validation"\n'
    rows = [row(1, 0.5, stage="stage2", step=10, backward_passes=10)]
    two = write_run(tmp_path / "two", rows, config, global_batch_size=32)
    assert read_runs([one, two])[1].costs()["spent"] == pytest.approx(10 / 200)
    assert math.isnan(read_run(two).costs()["spent"])


def test_a_soup_has_passes_without_a_step(tmp_path: Path) -> None:
    """30 batches of 200 images, where an epoch of stage 1 is 10 of 100: 2 forward epochs of 5 batches x 3."""
    one = write_run(tmp_path / "one", [row(3, 0.8, step=30)], global_batch_size=100)
    soup = [row(0, 0.8, weights="mean", stage="stage2", step=0, forward_passes=30, backward_passes=0)]
    two = write_run(tmp_path / "two", soup, f'checkpoint = "{one}"\nstart = "soup"\n', global_batch_size=200)
    assert read_runs([one, two])[1].costs()["spent"] == 2


def test_a_copied_run_starts_from_the_copy(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a" / "one", [row(1, 0.8)], f'output = "{tmp_path}/a/one"\n')
    two = f'checkpoint = "{one}"\noutput = "{tmp_path}/a/two"\n'
    write_run(tmp_path / "a" / "two", [row(1, 0.8, stage="stage2")], two)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    runs = read_runs([tmp_path / "b" / "one", tmp_path / "b" / "two"])
    assert runs[1].parent is runs[0]
    assert runs[1].start_epoch == 1
    other = write_run(tmp_path / "c" / "two", [row(1, 0.8, stage="stage2")], two.replace("a/two", "c/two"))
    write_run(tmp_path / "c" / "one", [row(1, 0.8)])  # beside it, but not where it began
    assert read_runs([one, other])[1].parent.folder == one


STARTS = {  # of stage 2, by name -> the epoch of stage 1 where its curve begins
    "": 3,
    "snapshots/snapshot_00000020.h5": 2,
    "snapshots/snapshot_00000015.h5": 2,  # within the second epoch
    "checkpoints/state_00000010": 1,
    "snapshots/snapshot_00000040.h5": 3,  # of steps that the curve does not know
    "final.h5": 3,
}


@pytest.mark.parametrize("start", STARTS)
def test_a_run_begins_at_the_epoch_of_its_snapshot(start: str, tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", [row(epoch, 0.8, step=10 * epoch) for epoch in (1, 2, 3)])
    rows = [row(epoch, 0.8, stage="stage2", step=10 * epoch) for epoch in (0, 1)]
    two = write_run(tmp_path / "two", rows, f'checkpoint = "{one / start}"\nstart = "last"\n')
    three = write_run(tmp_path / "three", rows, f'checkpoint = "{one / start}"\nstart = "mean"\n')
    by_snapshot, by_mean = read_runs([one, two, three])[1:]
    assert list(by_snapshot.curve["epoch"]) == [STARTS[start], STARTS[start] + 1]
    assert list(by_snapshot.own()["epoch"]) == [0, 1]
    assert by_mean.start_epoch == 3  # of the snapshots up to the end


def test_the_order_of_runs_does_not_move_them(tmp_path: Path) -> None:
    """Stage 2 from stage 2 from stage 1, whose state is epoch 1 of the second one."""
    one = write_run(tmp_path / "one", [row(epoch, 0.8, step=10 * epoch) for epoch in (1, 2, 3)])
    rows = [row(epoch, 0.8, stage="stage2", step=10 * epoch, backward_passes=10 * epoch) for epoch in (0, 1, 2)]
    two = write_run(tmp_path / "two", rows, f'checkpoint = "{one}"\n')
    three = write_run(tmp_path / "three", rows, f'checkpoint = "{two}/checkpoints/state_00000010"\n')
    four = write_run(tmp_path / "four", rows[:1], f'checkpoint = "{two / "start.h5"}"\n')
    for folders in ((one, two, three, four), (four, three, two, one), (three, one, four, two)):
        found = {run.name: run for run in read_runs(folders)}
        assert {name: run.start_epoch for name, run in found.items()} == {"one": 0, "two": 3, "three": 4, "four": 3}
        assert list(found["three"].curve["epoch"]) == [4, 5, 6] and found["three"].parent is found["two"]
        assert list(found) == [folder.name for folder in folders]


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / seed / "stage1", [row(1, 0.5)]) for seed in ("seed_1", "seed_2")]
    assert [run.name for run in read_runs(folders)] == ["seed_1/stage1", "seed_2/stage1"]


def test_landscape_is_a_grid(tmp_path: Path) -> None:
    file = tmp_path / "landscape.csv"
    file.write_text("a,b,loss,accuracy\n0,0,1,.1\n1,0,2,.2\n0,5,3,.3\n1,5,4,.4\n")
    (tmp_path / "landscape_path.csv").write_text("epoch,a,b\n1,0,0\n2,.5,1\n")
    surface = read_landscape(file)
    assert surface.loss.tolist() == [[1, 2], [3, 4]]
    assert list(surface.b) == [0, 5]
    assert len(surface.path) == 2
    file.write_text("a,b,loss,accuracy\n0,0,1,.1\n1,0,2,.2\n0,5,3,.3\n")
    with pytest.raises(Damaged, match="not a grid"):
        read_landscape(file)
