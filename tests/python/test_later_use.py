"""What a run's later use depends on: its config.toml and its snapshots, gone or not what they were."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from cli import cli, completed
from fashion import few

SMALL = cli(
    "--train_samples=256 --test_samples=100 --batch_size=64 --threads=1 --pad=2 --total_epochs=3",
    "--snapshots_per_epoch=3",
    data=few(),
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, execute) -> Path:
    """A small finished stage-1 run."""
    folder = tmp_path_factory.mktemp("later") / "stage1"
    execute("dimred", "stage1", *SMALL, "--epochs=2", "--output", folder)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def scores(printed: str) -> str:
    return "".join(line for line in printed.splitlines() if line.startswith("test"))


FAULTS = {
    "missing": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:30]),
    "blanked": lambda file: file.write_bytes(b" " * file.stat().st_size),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_configuration_that_is_not_whole_is_refused_by_name(fault: str, run: Path, fails) -> None:
    FAULTS[fault](run / "config.toml")
    for target in (run, run / "snapshots" / "snapshot_00000008.h5"):
        assert f"{run / 'config.toml'} is " in fails(1, "evaluate", target)


def test_no_command_goes_on_without_the_configuration(run: Path, tmp_path: Path, fails) -> None:
    (run / "config.toml").write_text("")
    image = tmp_path / "x.png"
    image.write_bytes(b"")
    for command in (
        ["export", run],
        ["predict", run, image],
        ["stage2", "--checkpoint", run, "--output", tmp_path / "out"],
        ["stage1", "--resume_from", run, "--epochs=3", "--output", tmp_path / "out"],
        ["stage1", *SMALL, "--epochs=2", "--output", run],
        ["inspect", "--landscape", run, "--pca_mat", image, "--output", tmp_path / "l.csv"],
    ):
        assert f"{run / 'config.toml'} is damaged" in fails(1, *command), command
    assert not (tmp_path / "out").exists()
    assert not (run / "export").exists()


def test_a_configuration_of_another_run_is_refused(run: Path, tmp_path: Path, execute, fails) -> None:
    other = [option.replace("pad=2", "pad=0") for option in SMALL] + ["--epochs=1"]
    execute("dimred", "stage1", *other, "--output", tmp_path / "other")
    shutil.copy(tmp_path / "other" / "config.toml", run / "config.toml")
    assert ": the run had pad = 2, but config.toml has 0" in fails(1, "evaluate", run)
    assert "the run had pad = 2" in fails(1, "stage1", *other, "--output", run)


def test_states_and_snapshots_say_themselves_what_they_need(run: Path, tmp_path: Path, execute) -> None:
    expected = scores(execute("dimred", "evaluate", run))
    for name in ("snapshots/snapshot_00000008.h5", "checkpoints/state_00000008"):
        copy = tmp_path / "elsewhere" / Path(name).name
        copy.parent.mkdir(exist_ok=True)
        (shutil.copytree if (run / name).is_dir() else shutil.copy)(run / name, copy)
        assert scores(execute("dimred", "evaluate", copy)) == expected
        assert re.search(r"^ +pad +2$", execute("dimred", "inspect", copy), re.MULTILINE)
    with h5py.File(tmp_path / "elsewhere" / "snapshot_00000008.h5") as file:
        assert "class_names" in file["run"][()].decode()


def test_the_normalisation_of_the_training_stays(run: Path, tmp_path: Path, execute) -> None:
    assert "in training, the value was [" not in execute("dimred", "evaluate", run, "--train_samples=100")
    execute("dimred", "export", run, "--output", tmp_path / "all")
    execute("dimred", "export", run, "--train_samples=100", "--output", tmp_path / "few")
    texts = [(tmp_path / name / "1/signature.json").read_text() for name in ("all", "few")]
    of_both = [json.loads(text)["preprocessing"]["mean"] for text in texts]
    assert of_both[0] == of_both[1]


def test_snapshots_that_are_gone_are_named(run: Path, tmp_path: Path, binaries, execute, fails) -> None:
    lost = run / "snapshots" / "snapshot_00000003.h5"
    lost.unlink()
    report = "5 of 6 snapshots in"
    words = ["--components=3", "--output", tmp_path / "p.npy"]
    assert report in fails(1, "pca", run / "snapshots", *words)
    assert report in fails(1, "evaluate", run / "snapshots")
    assert report in fails(1, "stage2", "--checkpoint", run, "--n_component=3", "--output", tmp_path / "two")
    looked = completed([binaries / "dimred", "inspect", run])
    assert looked.returncode == 1
    assert report in looked.stdout and lost.name in looked.stdout
    resumed = completed([binaries / "dimred", "stage1", *SMALL, "--epochs=3", "--output", run])
    assert resumed.returncode == 0 and report in resumed.stderr
    # The snapshots that are left count where a list says so.
    left = sorted((run / "snapshots").iterdir())[:5]
    (tmp_path / "list.txt").write_text("".join(f"{file}\n" for file in left))
    execute("dimred", "pca", tmp_path / "list.txt", *words)
    assert np.load(tmp_path / "p.npy").shape[0] == 3
    assert "mean of 5 snapshots" in execute("dimred", "evaluate", tmp_path / "list.txt")
    execute(
        "dimred",
        "stage2 --n_component=3 --preset=mindspore-latest --epochs=1",
        checkpoint=run,
        snapshots=tmp_path / "list.txt",
        output=tmp_path / "two",
    )


def test_snapshots_that_the_run_deletes_itself_are_not_missed(tmp_path: Path, execute) -> None:
    words = [*SMALL, "--keep_snapshots=4", "--output", tmp_path / "run"]
    execute("dimred", "stage1", *words, "--epochs=2")
    execute("dimred", "inspect", tmp_path / "run")
    execute("dimred", "stage1", *words, "--epochs=3")
    execute("dimred", "inspect", tmp_path / "run")
    assert len(list((tmp_path / "run" / "snapshots").iterdir())) == 4


@pytest.mark.parametrize("name", ["curve.csv", "checkpoints/state_00000004", "checkpoints", "snapshots"])
def test_inspect_misses_what_a_finished_run_had(name: str, run: Path, execute, binaries) -> None:
    execute("dimred", "inspect", run)
    part = run / name
    shutil.rmtree(part) if part.is_dir() else part.unlink()
    looked = completed([binaries / "dimred", "inspect", run])
    assert looked.returncode == 1
    assert name.split("/")[-1] in looked.stdout


def test_weights_and_a_curve_in_anothers_place_are_named(run: Path, tmp_path: Path, execute, fails, binaries) -> None:
    boosted = tmp_path / "boosted"
    execute("dimred", "stage2 --epochs=1 --threads=1 --n_component=2", checkpoint=run, output=boosted)
    execute("dimred", "inspect", boosted)
    shutil.copyfile(boosted / "start.h5", boosted / "final.h5")
    for command in ("evaluate", "inspect"):
        assert "final.h5 is damaged or from another run" in fails(1, command, boosted / "final.h5")
    curve = run / "curve.csv"
    curve.write_text(curve.read_text().replace(",0.", ",1.", 1))
    looked = completed([binaries / "dimred", "inspect", run])
    assert looked.returncode == 1
    assert "DAMAGED: the file is not what the run wrote" in looked.stdout


def test_weights_that_a_run_which_goes_on_will_write_again_are_not_held_against_the_old(
    run: Path, tmp_path: Path, execute, binaries
) -> None:
    boosted = tmp_path / "boosted"
    command = cli("stage2 --preset=robust --threads=1 --n_component=2", checkpoint=run, output=boosted)  # may go on
    execute("dimred", *command, "--epochs=1")
    manifest = boosted / "manifest.json"
    assert sorted(json.loads(manifest.read_text())["weights"]) == ["final.h5", "start.h5"]
    going = subprocess.Popen([binaries / "dimred", *command, "--epochs=1000"], stdout=subprocess.PIPE, text=True)
    try:
        while json.loads(manifest.read_text())["outcome"] != "running":
            assert going.poll() is None
            time.sleep(0.01)
        going.kill()
    finally:
        going.communicate()
    assert "weights" not in json.loads(manifest.read_text())


def identities(snapshots: Path) -> set[str]:
    """The runs that a folder's snapshots name."""
    found = set()
    for path in snapshots.glob("*.h5"):
        with h5py.File(path) as file:
            found.add(json.loads(file["run"][()])["run"]["identity"])
    return found


def test_two_runs_of_one_folder_are_said_or_refused(finished: Path, tmp_path: Path, execute, fails) -> None:
    """A resumed run is one; a twin of it, which takes the same course, too; another seed or rate is another."""
    stopped = ["stage1", *SMALL, "--epochs=2", "--output", tmp_path / "stopped"]
    execute("dimred", *stopped, "--stop_at_step=3")
    execute("dimred", *stopped)
    assert identities(tmp_path / "stopped/snapshots") == identities(finished / "snapshots")
    for name, option in (("seed", "--seed=2"), ("rate", "--learning_rate=0.01")):
        execute("dimred", "stage1", *SMALL, "--epochs=2", option, "--output", tmp_path / name)
        assert identities(tmp_path / name / "snapshots").isdisjoint(identities(finished / "snapshots"))
    both = tmp_path / "both"
    shutil.copytree(finished / "snapshots", both)
    for path in (tmp_path / "seed/snapshots").glob("*.h5"):
        shutil.copy(path, both / path.name.replace("snapshot_0", "snapshot_1"))
    of_each = len(list((finished / "snapshots").iterdir()))
    said = f"the checkpoints are of 2 runs: {of_each} of run A (seed 1), {of_each} of run B (seed 2)"
    assert said in execute("dimred", "merge", both, "--output", tmp_path / "merged")
    assert said in execute("dimred", "evaluate", both)
    stage2 = ["stage2", "--checkpoint", finished, "--snapshots", both, "--output", tmp_path / "out"]
    for command in (
        ["pca", both, "--output", tmp_path / "p.npy"],
        ["inspect", "--trajectory", both],
        stage2,
        [*stage2, "--basis=random", "--start=mean"],
    ):
        assert f"needs the snapshots of one run, received {of_each} of run A (seed 1) such as" in fails(2, *command)
