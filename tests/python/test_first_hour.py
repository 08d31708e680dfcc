"""What somebody types in a first hour, and what the commands answer."""

from __future__ import annotations

import json
import os
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
from PIL import Image

SMALL = ["--train_samples=256", "--test_samples=100", "--threads=1", "--model=lenet", f"--data={few()}"]


@pytest.fixture(scope="module")
def run(tmp_path_factory, execute) -> Path:
    """A finished stage-1 run of 2 epochs with 6 snapshots; nobody writes into it."""
    folder = tmp_path_factory.mktemp("first") / "run1"
    said = execute("dimred", "stage1", *SMALL, "--epochs=2", "--snapshots_per_epoch=3", "--output", folder)
    assert "6 snapshots are enough for up to 5 components" in said
    return folder


def answer(binaries: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The outcome of a command that may fail."""
    return completed([binaries / "dimred", *arguments])


def appears(file: Path) -> None:
    """Waits for it."""
    begin = time.monotonic()
    while not file.exists():
        assert time.monotonic() - begin < 60, file
        time.sleep(0.05)


def waits() -> dict[str, str]:
    """This environment without a wait policy of OpenMP."""
    return {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}


def environment_of(process: subprocess.Popen) -> dict[str, str]:
    """Which the trainer has that the program became."""
    found = Path(f"/proc/{process.pid}/environ").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in found if pair)


def photographs(folder: Path) -> Path:
    """Two classes of JPEG files of differing sizes, in train/ and test/."""
    generator = np.random.default_rng(1)
    for part, count in (("train", 8), ("test", 4)):
        for label in ("cat", "dog"):
            (folder / part / label).mkdir(parents=True)
            for i in range(count):
                pixels = generator.integers(0, 255, (40 + 3 * i, 60 - 2 * i, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / part / label / f"{i}.jpg")
    return folder


def test_the_pca_takes_a_run_and_as_many_components_as_there_can_be(run: Path, tmp_path: Path, execute, fails) -> None:
    said = execute("dimred", "pca", run, "--output", tmp_path / "pca_mat.npy")
    assert "W 6 x " in said
    assert np.load(tmp_path / "pca_mat.npy", mmap_mode="r").shape[0] == 5
    line = fails(2, "pca", run, "--components=6", "--output", tmp_path / "six.npy")
    assert "needs more snapshots than components, received 6 snapshots and k = 6" in line


def test_stage2_takes_as_many_components_and_says_so(run: Path, tmp_path: Path, binaries) -> None:
    command = ["stage2", "--checkpoint", run, "--epochs=1", "--threads=1", "--output", tmp_path / "run2"]
    done = answer(binaries, *command)
    assert done.returncode == 0, done.stderr
    assert "5 components, because there are 6 snapshots; the preset uses 32 components" in done.stdout
    assert "4 steps are few for stage 2" in done.stdout
    assert "n_component = 5" in (tmp_path / "run2" / "config.toml").read_text()
    assert "larger --batch_size" not in done.stdout + done.stderr  # the opposite of what 4 steps want
    again = answer(binaries, *command)
    assert again.returncode == 0, again.stderr
    assert "finished already, at epoch 1, step 4 of" in again.stdout


def test_the_weights_of_the_start_stay(run: Path, tmp_path: Path, execute) -> None:
    execute("dimred", "stage2 --start=last --epochs=1 --threads=1", checkpoint=run, output=tmp_path / "run2")
    with h5py.File(tmp_path / "run2" / "start.h5") as start, h5py.File(tmp_path / "run2" / "final.h5") as final:
        newest = sorted((run / "snapshots").iterdir())[-1]
        with h5py.File(newest) as last:
            assert np.array_equal(start["weights"][:], last["weights"][:])
        assert not np.array_equal(start["weights"][:], final["weights"][:])
    whole = json.loads((tmp_path / "run2" / "manifest.json").read_text())
    assert "start.h5" in json.dumps(whole)


@pytest.fixture(scope="module")
def high(tmp_path_factory, execute) -> Path:
    """A stage-1 run that stopped while its rate was high."""
    folder = tmp_path_factory.mktemp("first") / "high"
    execute("dimred", "stage1", *SMALL, "--epochs=2", "--total_epochs=3", "--output", folder)
    return folder


@pytest.mark.parametrize(
    ("start", "remedy"),
    [
        ("run", "stage 2 cannot gain much, because stage 1 ended at a learning rate of 0"),
        ("high", "a larger --batch_size, fewer --epochs or another --preset may help"),
    ],
)
def test_an_end_below_the_start_is_said_with_the_remedy(
    start: str, remedy: str, request: pytest.FixtureRequest, tmp_path: Path, binaries: Path
) -> None:
    harm = ["--preset=sgd", "--learning_rate=30", "--recalibrate_batchnorm=false", "--epochs=1", "--threads=1"]
    checkpoint = request.getfixturevalue(start)
    done = answer(binaries, "stage2", "--checkpoint", checkpoint, *harm, "--output", tmp_path / "run2")
    assert done.returncode == 0, done.stderr
    said = r"stage 2 ended at an accuracy of [\d.]+ %, below the [\d.]+ % at the start; "
    assert re.search(said + r"the weights of the start are in .*start\.h5; " + remedy, done.stderr)
    assert ("--batch_size" in done.stderr) == (start == "high")


def test_epochs_whose_searches_all_fail_are_said_once(run: Path, tmp_path: Path, binaries) -> None:
    nearly_linear = ["--sigma=0.9999", "--trials=1"]  # no step of a convex loss decreases it that much
    words = cli("stage2 --epochs=2 --threads=1", *nearly_linear, checkpoint=run, output=tmp_path / "run2")
    done = answer(binaries, *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("no line search of this epoch found a lower loss") == 1


def test_stage2_takes_an_array_of_snapshots(run: Path, tmp_path: Path, execute) -> None:
    rows = []
    for file in sorted((run / "snapshots").iterdir()):
        with h5py.File(file) as snapshot:
            rows.append(snapshot["weights"][:])
    np.save(tmp_path / "w.npy", np.stack(rows))
    command = cli("stage2", run, "--epochs=0 --threads=1", snapshots=tmp_path / "w.npy", output=tmp_path / "run2")
    said = execute("dimred", *command)
    assert (
        "5 components, because there are 6 snapshots" in said
        and "start = last, because " in said
        and "has no snapshot_*.h5" in said
    )


def test_predict_takes_the_newest_version_of_an_export(run: Path, tmp_path: Path, execute) -> None:
    for _ in range(2):
        execute("dimred", "export", run, "--output", tmp_path / "export")
    shutil.copytree(tmp_path / "export" / "2", tmp_path / "export" / "10")
    (tmp_path / "export" / "2" / "signature.json").write_text("{}")
    Image.fromarray(np.zeros((28, 28), np.uint8)).save(tmp_path / "image.png")
    assert "%" in execute("dimred", "predict", tmp_path / "export", tmp_path / "image.png")


def test_more_epochs_than_the_schedule_has_are_refused_with_the_way_on(
    run: Path, fails, execute, tmp_path: Path
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    more = [*SMALL, "--epochs=3", "--snapshots_per_epoch=3", "--output", copy]
    line = fails(2, "stage1", *more)
    assert "has total_epochs = 2, received 3; the schedule of this run ends with the rate 0" in line
    assert "so epochs after 2 would change nothing; for more epochs, choose another --output" in line
    assert "for fewer, give --total_epochs 2" in line
    assert "epoch   3" in execute("dimred", "stage1", *more, "--total_epochs=2")


@pytest.mark.parametrize(
    ("option", "ours"),
    [
        ("--lr=0.1", "--learning_rate"),
        ("--wd=0", "--weight_decay"),
        ("--max_epochs=3", "--epochs"),
        ("-b=64", "--batch_size"),
        ("--gpus=1", "--device"),
        ("--opt=sgd", "--optimizer"),
        ("--ckpt_path=x", "--resume_from"),
        ("--amp", "--precision"),
    ],
)
def test_names_of_other_trainers_are_answered_by_ours(option: str, ours: str, fails) -> None:
    assert f"did you mean {ours}?" in fails(2, "stage1", option)


@pytest.mark.parametrize(("theirs", "ours"), [("train", "stage1"), ("fit", "stage1"), ("test", "evaluate")])
def test_commands_of_other_programs_are_answered_by_ours(theirs: str, ours: str, fails) -> None:
    assert f"did you mean {ours}?" in fails(2, theirs)


def test_adam_learns_by_pytorchs_rate(tmp_path: Path, execute) -> None:
    execute("dimred", "stage1", few(), *SMALL[:-1], "--optimizer=adam", "--output", tmp_path / "run")
    assert "learning_rate = 0.001" in (tmp_path / "run" / "config.toml").read_text()


def test_help_is_short_unless_all_is_asked_for(execute) -> None:
    short, whole = execute("dimred", "stage1", "--help"), execute("dimred", "stage1", "--help", "all")
    assert len(short.splitlines()) <= 50 < 250 < len(whole.splitlines())
    assert "--learning_rate" in short and "--help all" in short and "--lars_epsilon" not in short
    assert "--lars_epsilon" in whole


def test_bash_completes_commands_options_and_values(execute, tmp_path: Path) -> None:
    script = tmp_path / "dimred.bash"
    script.write_text(execute("dimred", "completion"))

    def completed(*words: str) -> list[str]:
        line = f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}"
        asked = f'source {script}; {line}; _dimred; echo "${{COMPREPLY[@]}}"'
        return subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True).stdout.split()

    assert completed("dimred", "sta") == ["stage1", "stage2"]
    assert completed("dimred", "data", "con") == ["convert"]
    assert "--learning_rate" in completed("dimred", "stage1", "--lear")
    assert completed("dimred", "stage2", "--preset_typo", "--upd") == ["--update_rule"]
    assert set(completed("dimred", "pca", "--kind", "")) == {"pca", "span", "random", "shuffled"}
    assert completed("dimred", "data", "pack", "--short") == ["--short_side"]


def test_photographs_are_cut_as_the_network_takes_them(tmp_path: Path, execute) -> None:
    data = photographs(tmp_path / "photographs")
    command = ["stage1", "--data", data, "--model=resnet20", "--threads=1", "--output", tmp_path / "run"]
    said = execute("dimred", *command)
    assert (
        "the images differ in size, so this run uses --preprocessing_name imagenet --image_size 32, "
        "the usual settings of resnet20" in said
    )
    config = (tmp_path / "run" / "config.toml").read_text()
    assert 'preprocessing_name = "imagenet"' in config and "image_size = 32" in config
    assert "finished already, at epoch 1, step 1 of" in execute("dimred", *command)
    assert "test " in execute("dimred", "evaluate", tmp_path / "run")


def test_images_of_one_size_are_not_cut_where_they_are_not_kept(tmp_path: Path, fails) -> None:
    options = ["--datasets_use_caching=false", "--threads=1", "--output", tmp_path / "run"]
    assert "needs datasets_use_caching = true, or a preprocessing_name with a crop" in fails(
        2, "stage1", "--data", constant(tmp_path / "data"), *options
    )


def test_images_of_one_size_are_taken_as_they_are(run: Path) -> None:
    assert 'preprocessing_name = "none"' in (run / "config.toml").read_text()


def test_snapshots_that_do_not_fit_are_asked_for_first(tmp_path: Path, binaries) -> None:
    folder = tmp_path / "run"
    free = shutil.disk_usage(tmp_path).free
    huge = cli(*SMALL, "--snapshots_per_epoch=4", keep_snapshots=10**9, epochs=free // 10**6, output=folder)
    refused = answer(binaries, "stage1", *huge)
    assert refused.returncode == 2 and "give --yes" in refused.stderr
    assert not folder.exists()
    with subprocess.Popen([binaries / "dimred", "stage1", *huge, "--yes"], stdout=subprocess.DEVNULL) as process:
        appears(folder / "curve.csv")
        process.kill()
    few_steps = answer(binaries, "stage1", *huge[:-1], "--stop_at_step=1", "--output", tmp_path / "short")
    assert few_steps.returncode == 0, few_steps.stderr


def test_a_run_folder_that_vanishes_ends_the_run_and_stays_away(tmp_path: Path, binaries) -> None:
    folder = tmp_path / "run"
    command = [binaries / "dimred", "stage1", *SMALL, "--epochs=2000", "--output", folder]
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=waits() | {"OMP_WAIT_POLICY": "active"},
    ) as process:
        appears(folder / "curve.csv")
        assert "GOMP_SPINCOUNT" not in environment_of(process)  # what the user has chosen stays
        shutil.move(folder, tmp_path / "moved")
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert f"the run folder {folder} is gone" in errors
    assert not folder.exists()


def test_evaluating_a_run_without_a_state_names_its_process(tmp_path: Path, binaries, fails) -> None:
    folder = tmp_path / "run"
    command = [binaries / "dimred", "stage1", *SMALL, "--epochs=2000", "--checkpoint_every=2000", "--output", folder]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=waits()) as process:
        appears(folder / "curve.csv")
        assert environment_of(process)["GOMP_SPINCOUNT"] == "10000"  # threads sleep soon at barriers
        line = fails(2, "evaluate", folder)
        process.kill()
    assert f"has no state yet; process {process.pid} is training in this folder" in line


def constant(folder: Path) -> Path:
    """Two classes of black images."""
    for part in ("train", "test"):
        for label in ("a", "b"):
            (folder / part / label).mkdir(parents=True)
            for i in range(4):
                Image.fromarray(np.zeros((28, 28), np.uint8)).save(folder / part / label / f"{i}.png")
    return folder


def pages(folder: Path) -> Path:
    """HTML in the place of images."""
    constant(folder)
    for file in folder.rglob("*.png"):
        file.write_text("<!DOCTYPE html><html>404</html>")
    return folder


def archive(folder: Path) -> Path:
    """A file that should have been unpacked."""
    folder.mkdir()
    (folder / "flowers.tar").write_bytes(bytes(1024))
    return folder / "flowers.tar"


@pytest.mark.parametrize(
    ("make", "code", "says"),
    [
        (constant, 2, "a channel has one constant value in all training images"),
        (pages, 1, "which is an HTML page"),
        (archive, 2, "is an archive; unpack the archive"),
    ],
)
def test_data_that_are_none_are_named(make, code: int, says: str, tmp_path: Path, fails) -> None:
    line = fails(code, "stage1", "--data", make(tmp_path / "data"), "--threads=1", "--output", tmp_path / "run")
    assert says in line
    assert not re.search("[0-9a-f]{32}", line)


TINY = ["--train_samples=32", "--test_samples=50", "--threads=1", "--model=lenet", f"--data={few()}"]


def rate_of(folder: Path) -> str:
    """The learning rate as the run's config.toml has it."""
    found = re.search(r"^learning_rate = (.*)$", (folder / "config.toml").read_text(), re.M)
    assert found is not None, folder
    return found[1]


def test_the_default_rate_goes_with_a_small_batch(tmp_path: Path, execute) -> None:
    small = ["stage1", *TINY, "--batch_size=16"]
    said = execute("dimred", *small, "--stop_at_step=1", "--output", tmp_path / "new")
    assert "no snapshot yet: epoch 1 writes the first" in said
    assert "learning_rate = 0.025: the default of 0.1 was scaled to the batch size, 16 instead of 64;" in said
    assert rate_of(tmp_path / "new") == "0.025"
    # What there was before keeps the rate that it had.
    execute("dimred", *small, "--learning_rate=0.1", "--output", tmp_path / "old")
    again = execute("dimred", *small, "--output", tmp_path / "old")
    assert "finished already" in again and "was scaled to the batch" not in again
    assert rate_of(tmp_path / "old") == "0.1"
    for earlier, rate in (("new", "0.025"), ("old", "0.1")):
        more = ["--epochs=2", "--resume_from", tmp_path / earlier, "--output", tmp_path / f"{earlier}_on"]
        execute("dimred", *small, *more)
        assert rate_of(tmp_path / f"{earlier}_on") == rate


def test_chance_and_too_many_threads_are_said_with_the_remedy(tmp_path: Path, binaries) -> None:
    threads = len(os.sched_getaffinity(0)) + 1
    still = ["--learning_rate=1e-12", f"--threads={threads}", "--output", tmp_path / "run"]
    done = answer(binaries, "stage1", *TINY[:2], *TINY[3:], *still)
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"epoch 1 ended at [\d.]+ %, no better than guessing among 10 classes.*--learning_rate \(now 1e-12\)",
        done.stdout,
    )
    assert f"warning: {threads} threads share {threads - 1} core" in done.stderr and "--threads 0" in done.stderr


def test_a_run_whose_data_are_gone_predicts_and_exports(tmp_path: Path, execute, fails) -> None:
    data, image, run = constant(tmp_path / "data"), tmp_path / "image.png", tmp_path / "run"
    for i, file in enumerate(sorted(data.rglob("*.png"))):
        pixels = np.random.default_rng(i).integers(0, 255, (28, 28), dtype=np.uint8)
        Image.fromarray(pixels).save(file)
    shutil.copy(data / "test" / "a" / "0.png", image)
    execute("dimred", "stage1", data, "--model=lenet", "--threads=1", "--batch_size=4", "--output", run)
    before = execute("dimred", "predict", run, image, "--threads=1").splitlines()[-1]
    (tmp_path / "data").rename(tmp_path / "moved")
    said = execute("dimred", "predict", run, image, "--threads=1")
    assert f"the run's data is no longer at {data}" in said and said.splitlines()[-1] == before
    assert "no test accuracy" in execute("dimred", "export", run, "--threads=1", "--output", tmp_path / "export")
    signature = json.loads((tmp_path / "export" / "1" / "signature.json").read_text())
    assert signature["classes"] == ["a", "b"]
    assert execute("dimred", "predict", tmp_path / "export", image, "--threads=1").splitlines()[-1] == before
    gone = f"the run's data is no longer at {data}; give the new place with --data PATH"
    assert gone in fails(2, "evaluate", run)
    assert gone in fails(2, "stage2", run, "--output", tmp_path / "run2")
    assert "test " in execute("dimred", "evaluate", run, "--data", tmp_path / "moved", "--threads=1")


def test_a_folder_of_the_other_stage_is_named(run: Path, fails) -> None:
    line = fails(2, "stage2", "--checkpoint", run, "--pca_mat=x.npy", "--n_component=5", "--output", run)
    assert f"{run} is a run of stage1; choose another --output for stage2" in line


def test_a_value_that_nobody_typed_says_where_it_is_from(run: Path, tmp_path: Path, binaries) -> None:
    done = answer(binaries, "evaluate", run, "--data", constant(tmp_path / "data"), "--threads=1")
    assert done.returncode == 2
    assert "train_samples must not exceed the 8 samples of" in done.stderr
    assert re.search(r"received 256; train_samples = 256 comes from .*run1/config\.toml", done.stderr)
