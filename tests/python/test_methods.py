"""Methods, starts, budgets and averages of stage 2 as commands on a subset of Fashion-MNIST."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from cli import cli, rows, rows_in
from compared_runs import interrupted
from fashion import few
from ranks import run_ranks

STAGE1 = cli(
    "--train_samples=800 --test_samples=100 --validation_fraction=0.2 --epochs=4 --batch_size=64",
    "--threads=1 --learning_rate=0.05 --snapshots_per_epoch=5",
    data=few(),
)
STEPS = 10  # of an epoch: 640 samples in batches of 64
PLAIN = ["--batch_size=64", "--threads=1"]
COMMON = ["--n_component=6", *PLAIN]
WITHOUT_SUBSPACE = ("sgd", "swa", "ema", "schedule-free")
PRESETS = """
    robust robust-mean mindspore-latest mindspore-first dldr psgd twa sgd swa ema schedule-free
""".split()

CONSTANTS = {
    "mindspore-latest": ["rho = 0.55", 'start = "last"'],
    "mindspore-first": ["rho = 0.55", 'start = "last"'],
    "dldr": ["rho = 0.4", 'start = "first"'],
}


@pytest.fixture(scope="module")
def start(tmp_path_factory, execute) -> Path:
    """A finished stage-1 run, shared; nobody writes into it."""
    run = tmp_path_factory.mktemp("methods") / "stage1"
    execute("dimred", "stage1", *STAGE1, "--output", run)
    return run


def weights(file: Path) -> np.ndarray:
    """The weights of a snapshot."""
    with h5py.File(file) as h5:
        return h5["weights"][:]


def spent(row: dict[str, str]) -> float:
    """What a row has spent, in epochs of plain SGD."""
    return (int(row["forward_passes"]) + 2 * int(row["backward_passes"])) / (3 * STEPS)


def test_curves_name_another_method_than_the_presets(start: Path, tmp_path: Path, execute) -> None:
    options = [*COMMON, "--epochs=0", "--checkpoint", start]
    execute("dimred", "stage2", *options, "--method=psgd", "--output", tmp_path / "psgd")
    execute("dimred", "stage2", *options, "--preset=robust", "--method=quasi-newton", "--output", tmp_path / "robust")
    assert {row["method"] for row in rows(tmp_path / "psgd")} == {"psgd"}
    assert {row["method"] for row in rows(tmp_path / "robust")} == {"robust"}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_spends_its_budget_and_no_more(preset: str, start: Path, tmp_path: Path, execute) -> None:
    run = tmp_path / "run"
    # The published rates are for networks with BatchNorm.
    rate = ["--learning_rate=0.05"] if preset in ("psgd", "twa") else []
    # With the three trials that are published its searches end on a loss that is higher, and it soon reaches NaN.
    rate += ["--trials=12"] if preset == "mindspore-first" else []
    common = PLAIN if preset in WITHOUT_SUBSPACE else COMMON
    options = [*common, *rate, f"--preset={preset}", "--budget=0.4", "--checkpoint", start]
    execute("dimred", "stage2", *options, "--output", run)
    config = (run / "config.toml").read_text()
    assert all(line in config for line in CONSTANTS.get(preset, []))
    curve = rows(run)
    assert {row["method"] for row in curve} == {preset}
    last = curve[-1]
    search = preset in ("robust", "robust-mean", "mindspore-latest", "mindspore-first", "dldr")
    most = (3 + 20 if search else 3) / (3 * STEPS)  # a step more than it had left
    assert 0.4 <= spent(last) < 0.4 + most
    assert float(last["test_loss"]) < 3
    if not search:
        assert int(last["step"]) == math.ceil(0.4 * STEPS)
        assert float(last["epoch"]) == pytest.approx(0.4)
    kinds = [row["weights"] for row in curve]
    first = "mean" if preset in ("twa", "robust-mean") else "raw"
    ends = {"swa": ["raw", "mean"], "ema": ["raw", "ema"], "schedule-free": ["raw", "mean"]}.get(preset, ["raw"])
    assert kinds == [first, *ends]
    read = int(last["basis_bytes_read"])
    if preset in WITHOUT_SUBSPACE:
        assert read == 0 and not (run / "pca_mat.npy").exists()
    else:  # twice a step; in memory rows begin and end on 64 bytes, parameter by parameter
        matrix = np.load(run / "pca_mat.npy", mmap_mode="r").nbytes
        assert matrix <= read / (2 * int(last["step"])) < 1.02 * matrix


def test_a_start_without_a_step_is_what_its_name_says(start: Path, tmp_path: Path, execute) -> None:
    files = sorted((start / "snapshots").glob("*.h5"))
    latest = np.mean([weights(file).astype(np.float64) for file in files[-3:]], axis=0)
    common = ["--preset=sgd", "--epochs=0", "--threads=1", "--checkpoint", start]
    execute("dimred", "stage2", *common, "--start=mean", "--start_latest=3", "--output", tmp_path / "mean")
    assert np.array_equal(weights(tmp_path / "mean" / "final.h5"), latest.astype(np.float32))
    (row,) = rows(tmp_path / "mean")
    assert row["weights"] == "mean" and row["forward_passes"] == "0"
    execute("dimred", "stage2", *common, "--start=first", "--output", tmp_path / "first")
    assert np.array_equal(weights(tmp_path / "first" / "final.h5"), weights(files[0]))


def test_a_presets_mean_is_of_what_snapshots_there_are(start: Path, tmp_path: Path, execute, fails) -> None:
    files = sorted((start / "snapshots").glob("*.h5"))
    common = ["stage2", "--n_component=2", "--threads=1", "--epochs=0"]

    def begun(name: str, *options: str | Path) -> tuple[str, np.ndarray]:
        said = execute("dimred", *common, *options, "--output", tmp_path / name)
        return said, weights(tmp_path / name / "final.h5")

    def mean(chosen: list[Path]) -> np.ndarray:
        return np.mean([weights(file).astype(np.float64) for file in chosen], axis=0).astype(np.float32)

    said, got = begun("ten", "--checkpoint", start)
    assert "start = " not in said and np.array_equal(got, mean(files[-10:]))
    said, got = begun("all", "--checkpoint", start, "--start=mean")
    assert np.array_equal(got, mean(files))
    assert np.array_equal(
        begun("every", "--checkpoint", start, "--start_latest=0")[1], mean(files)
    )  # a 0 that is asked for is no default
    listed = tmp_path / "some.txt"
    listed.write_text("".join(f"{file}\n" for file in files[-5:]))
    said, got = begun("five", "--checkpoint", start, "--snapshots", listed)
    assert "start = mean, because only 5 snapshots exist; " in said
    assert "the preset starts from the mean of the latest 10 snapshots" in said
    assert np.array_equal(got, mean(files[-5:]))
    listed.write_text("".join(f"{file}\n" for file in files[:5]))
    said, got = begun("early", "--checkpoint", start, "--snapshots", listed)
    assert "start = last, because the latest 5 reach back into the first half of the run" in said and np.array_equal(
        got, weights(files[-1])
    )
    said, got = begun("one", "--checkpoint", files[4])
    assert "start = last, because the checkpoint is a single set of weights" in said
    assert np.array_equal(got, weights(files[4]))
    empty = tmp_path / "empty"
    empty.mkdir()
    options = ["--checkpoint", start, "--pca_mat", tmp_path / "ten" / "pca_mat.npy"]
    said, got = begun("none", *options, "--snapshots", empty)
    assert "start = last, because " in said and "has no snapshot_*.h5" in said
    assert np.array_equal(got, weights(files[-1]))
    nowhere = [*options, "--snapshots", tmp_path / "nowhere"]
    assert "--snapshots does not exist: " in fails(2, *common, *nowhere, "--output", tmp_path / "wanted")
    assert "does not exist" in fails(2, *common, "--start=mean", *nowhere, "--output", tmp_path / "wanted")


def test_the_soup_that_left_names_its_last_revision(start: Path, tmp_path: Path, fails) -> None:
    line = fails(2, "stage2", "--checkpoint", start, "--start=soup", "--output", tmp_path / "run")
    assert "--start: dimred no longer has the choice soup; the last revision with this choice is 8b694755" in line
    assert not (tmp_path / "run").exists()


def test_a_run_goes_on_without_the_snapshots_that_it_began_with(start: Path, tmp_path: Path, execute) -> None:
    files = shutil.copytree(start / "snapshots", tmp_path / "snapshots")
    common = cli("stage2", *COMMON, "--preset=robust --start=mean --start_latest=3", checkpoint=start, snapshots=files)
    assert "start: " in execute("dimred", *common, "--epochs=2", "--output", tmp_path / "whole")
    execute("dimred", *common, "--epochs=1", "--output", tmp_path / "run")
    shutil.rmtree(files)
    assert "start: " not in execute("dimred", *common, "--epochs=2", "--output", tmp_path / "run")
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")
    assert np.array_equal(weights(tmp_path / "run" / "final.h5"), weights(tmp_path / "whole" / "final.h5"))


def test_a_preset_and_its_start_stay_those_that_the_run_began_with(start: Path, tmp_path: Path, execute, fails) -> None:
    stage1 = Path(shutil.copytree(start, tmp_path / "stage1"))
    files = sorted((stage1 / "snapshots").glob("*.h5"))
    begun = {"robust-mean": [], "robust": ["--preset=robust"]}
    for name, options in begun.items():
        execute("dimred", "stage2", *COMMON, *options, "--epochs=1", checkpoint=stage1, output=tmp_path / name)
    for file in files[:-4]:  # the latest ten are no longer there, nor is the matrix's source
        file.unlink()
    for name, options in begun.items():
        said = execute(
            "dimred", "stage2", *COMMON, *options, "--epochs=1", "--checkpoint", stage1, "--output", tmp_path / name
        )
        assert f"preset {name}: " in said and "start = " not in said and "finished already, at epoch 1, step 10" in said
    other = ["--start=last", "--output", tmp_path / "robust-mean"]
    assert 'has start = "mean", received "last"' in fails(2, "stage2", *COMMON, "--epochs=1", *other, checkpoint=stage1)


def test_what_nothing_falls_over_may_go_on_longer(start: Path, tmp_path: Path, execute) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    options = ["stage2", *PLAIN, "--preset=schedule-free", "--checkpoint", start]
    for epochs, output in ((1, run), (2, run), (2, whole)):
        execute("dimred", *options, f"--epochs={epochs}", "--output", output)
    assert np.array_equal(weights(run / "final.h5"), weights(whole / "final.h5"))


def test_two_steps_of_schedule_free_sgd_are_known_ones(start: Path, tmp_path: Path, execute) -> None:
    """x_2 = (z_1 + z_2) / 2, and y_1 = z_1: the mean of the iterates of plain SGD at the published rate, 1 / (1 - beta)
    of ours."""
    common = ["stage2", "--batch_size=320", "--threads=1", "--epochs=1", "--checkpoint", start]  # 2 steps
    execute("dimred", *common, "--preset=schedule-free", "--learning_rate=0.03", "--output", tmp_path / "free")
    execute("dimred", *common, "--preset=swa", "--momentum=0", "--learning_rate=0.3", "--output", tmp_path / "mean")
    free, mean = (weights(tmp_path / name / "final.h5") for name in ("free", "mean"))
    moved = np.linalg.norm(mean - weights(tmp_path / "mean" / "start.h5"))
    assert (
        np.linalg.norm(free - mean) < 1e-3 * moved
    )  # rounding that (1 - beta) enlarges, and maxima of pools that it decides


SCHEDULED = {
    "psgd": cli(
        "--preset=psgd --learning_rate=0.1 --schedule=cosine --alpha=0.02 --alpha_schedule=linear",
        "--average=uniform --average_from=0.3 --weight_decay=1e-4",
    ),
    "sgd": ["--preset=ema", "--schedule=linear", "--average_from=0"],
    "schedule-free": cli(
        "--preset=schedule-free --learning_rate=0.01"
    ),  # at the preset's rate rounding grows ten thousandfold
    "layers": ["--basis_blocks=layers"],
    "same": ["--curvature=same", "--sam_radius=0.02", "--alpha_schedule=linear"],
}


@pytest.mark.parametrize("name", ["psgd", "sgd", "schedule-free", "same"])
def test_a_stopped_run_comes_to_the_same_end(name: str, start: Path, tmp_path: Path, binaries, execute) -> None:
    epochs = 2 if name == "same" else 3  # those of the others are over in a moment
    common = PLAIN if name in WITHOUT_SUBSPACE else COMMON
    options = ["stage2", *common, *SCHEDULED[name], f"--epochs={epochs}", f"--checkpoint={start}"]
    execute("dimred", *options, "--output", tmp_path / "whole")
    run = tmp_path / "run"
    assert interrupted([str(binaries / "dimred"), *options, f"--output={run}"], 15, run) == 143
    assert "continuing at epoch" in execute("dimred", *options, "--output", run)
    assert rows(run) == rows(tmp_path / "whole")
    assert (run / "steps.csv").read_text() == (tmp_path / "whole" / "steps.csv").read_text()
    assert np.array_equal(weights(run / "final.h5"), weights(tmp_path / "whole" / "final.h5"))


def test_another_update_rule_descends_in_another_way(start: Path, tmp_path: Path, execute, fails) -> None:
    steps = {}
    options = ["stage2", *COMMON, "--epochs=1", "--checkpoint", start]
    for rule in ("bfgs", "sr1"):
        execute("dimred", *options, f"--update_rule={rule}", "--output", tmp_path / rule)
        steps[rule] = rows_in(tmp_path / rule / "steps.csv")
    assert steps["sr1"][0]["loss"] == steps["bfgs"][0]["loss"]
    assert steps["sr1"][-1]["loss"] != steps["bfgs"][-1]["loss"]
    assert {row["update"] for row in steps["sr1"]} >= {"none", "updated"}
    assert float(rows(tmp_path / "sr1")[-1]["test_loss"]) < float(rows(tmp_path / "sr1")[0]["test_loss"])
    assert "update_rule" in fails(2, *options, "--update_rule=bfgs", "--output", tmp_path / "sr1")


def test_another_preset_beside_a_runs_configuration_is_that_preset(
    start: Path, tmp_path: Path, execute, dimred: Path
) -> None:
    """The file has every value of the first preset; a comparison would take them for the second one's."""
    options = [*COMMON, "--epochs=1", "--checkpoint", start]
    execute("dimred", "stage2", *options, "--output", tmp_path / "first")
    execute("dimred", "stage2", *options, "--preset=dldr", "--output", tmp_path / "dldr")
    repeated = ["--config", tmp_path / "first" / "config.toml", "--preset=dldr", "--output", tmp_path / "other"]
    execute("dimred", "stage2", *repeated)
    other, dldr = (rows_in(tmp_path / name / "steps.csv") for name in ("other", "dldr"))
    assert [row["loss"] for row in other] == [row["loss"] for row in dldr]
    assert rows(tmp_path / "other")[-1]["method"] == "dldr"
    done = run_ranks(dimred, ["stage2", *repeated[:3], "--output", tmp_path / "ranks"], 2)
    assert [text.count("--preset replaces preset") for text in done.errors] == [1, 0]


def test_a_schedule_keeps_its_length(start: Path, tmp_path: Path, execute, fails) -> None:
    options = ["stage2", *PLAIN, "--preset=sgd", "--checkpoint", start, "--output", tmp_path / "run"]
    execute("dimred", *options, "--epochs=1")
    assert "this run's learning-rate schedule has length 1 (epochs or passes)" in fails(2, *options, "--epochs=2")


@pytest.mark.parametrize("name", ["psgd", "sgd", "schedule-free", "same", "layers"])
def test_methods_are_the_same_on_several_ranks(name: str, start: Path, tmp_path: Path, dimred: Path) -> None:
    options = cli(
        "stage2",
        *([] if name in WITHOUT_SUBSPACE else ["--n_component=6"]),
        "--global_batch_size=63 --threads=1",
        *SCHEDULED[name],
        "--epochs=1",
        checkpoint=start,
    )
    ends, losses = {}, {}
    for ranks in (1, 3):
        run = tmp_path / str(ranks)
        done = run_ranks(dimred, [*options, "--output", run], ranks)
        assert done.codes == [0] * ranks, done.errors
        ends[ranks] = weights(run / "final.h5")
        losses[ranks] = [float(row["loss"]) for row in rows_in(run / "steps.csv")]
    assert losses[1][:3] == pytest.approx(losses[3][:3], rel=1e-6)
    assert losses[1][3] == pytest.approx(
        losses[3][3], rel=3e-6
    )  # each step amplifies the rounding of sums in another order
    if name in ("layers", "same"):
        return  # a search that rounding decides the other way, or sixty curvatures: it grows within ten steps
    difference = np.linalg.norm(ends[1] - ends[3]) / np.linalg.norm(ends[1])
    assert difference < 1e-5  # sums in another order, ten steps


def test_the_matrix_made_inside_is_that_of_the_pca_command(start: Path, tmp_path: Path, execute) -> None:
    for kind in ("span", "random", "shuffled"):
        seed = kind != "span"
        made = tmp_path / f"{kind}.npy"
        execute(
            "dimred",
            "pca",
            *(["--seed=7"] if seed else []),
            "--components=6 --snapshot_from=2",
            kind=kind,
            snapshots=start / "snapshots",
            output=made,
        )
        run = tmp_path / kind
        options = [*COMMON, f"--basis={kind}", "--snapshot_from=2", "--budget=0.1"]
        options += ["--basis_seed=7"] if seed else []
        execute("dimred", "stage2", *options, "--checkpoint", start, "--output", run)
        assert np.array_equal(np.load(made), np.load(run / "pca_mat.npy")), kind


@pytest.mark.parametrize("length", ["--epochs=2", "--budget=0.2"])
def test_what_diverges_ends_with_an_error(length: str, start: Path, tmp_path: Path, fails) -> None:
    """Ten steps in a row of a long run, or the last of a short one; the second start says the same."""
    options = cli(*PLAIN, "--preset=sgd --learning_rate=1e6", length, checkpoint=start, output=tmp_path / "run")
    for _ in range(2):
        said = fails(1, "stage2", *options)
        assert re.search(r"the loss or the gradient of the last \d+ steps? is not finite", said)
    assert '"outcome": "failed"' in (tmp_path / "run" / "manifest.json").read_text()


GIVEN = {
    "--basis=random": "basis has no effect: it needs pca_mat to be unset",
    "--snapshot_skip=1": "snapshot_skip has no effect: it needs pca_mat to be unset and basis other than none",
    "--preset=sgd": "preset sgd has no subspace; leave out --pca_mat",
}


@pytest.mark.parametrize("option", GIVEN)
def test_a_given_matrix_takes_no_options_of_a_new_one(option: str, start: Path, tmp_path: Path, fails) -> None:
    np.save(tmp_path / "p.npy", np.eye(6, 93322, dtype=np.float32))
    line = fails(2, "stage2", option, checkpoint=start, pca_mat=tmp_path / "p.npy", output=tmp_path / "run")
    assert GIVEN[option] in line
    assert not (tmp_path / "run").exists()


BAD = {
    "--method=psgd --basis=none": "method = psgd needs a basis",
    "--preset=robust --start_latest=3": "start_latest needs start = mean",
    "--basis_seed=3": "basis_seed has no effect: it needs pca_mat to be unset and basis = random or shuffled",
    "--preset=sgd --n_component=3": "n_component has no effect: it needs basis other than none",
    "--preset=sgd --basis_dtype=bfloat16": "basis_dtype has no effect: it needs basis other than none",
    "--preset=swa --snapshot_from=2": "snapshot_from has no effect",
    "--start=mean --start_latest=99": "start_latest must not exceed the 20 snapshots",
    "--preset=swag": "did you mean swa?",
    "--average_from=1": "average_from",
    "--budget=-1": "budget",
}


@pytest.mark.parametrize("words", BAD)
def test_what_cannot_be_is_refused(words: str, start: Path, tmp_path: Path, fails) -> None:
    assert BAD[words] in fails(2, "stage2", *words.split(), "--checkpoint", start, "--output", tmp_path / "run")
    assert not (tmp_path / "run").exists()
