"""What later commands make of a run: its own normalisation, end, classes and held-out samples, whatever changed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from cli import cli, completed, rows
from PIL import Image
from safetensors.torch import load_file

FAST = cli("--batch_size=4 --threads=1 --learning_rate=0.05")


def noise(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (20, 20, 3), dtype=np.uint8))


def put_classes(root: Path, *classes: str) -> Path:
    """Six training and six test images of each class, all of noise."""
    for number, (split, name) in enumerate((split, name) for split in ("train", "test") for name in classes):
        (root / split / name).mkdir(parents=True)
        for i in range(6):
            noise(6 * number + i).save(root / split / name / f"{i}.png")
    return root


def put_shades(folder: Path, name: str, shade: int, count: int) -> None:
    """More images of one grey, which move the mean of the training set."""
    for i in range(count):
        Image.new("RGB", (20, 20), (shade, shade, shade)).save(folder / "train" / name / f"more{i}.png")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, execute: Callable[..., str]) -> Path:
    """p, a folder of two classes, and run, two epochs of eight on it."""
    folder = tmp_path_factory.mktemp("weights")
    put_classes(folder / "p", "a", "b")
    options = cli("--epochs=2 --total_epochs=8 --seed=4 --snapshots_per_epoch=3", data=folder / "p")
    execute("dimred", "stage1", *options, *FAST, "--output", folder / "run")
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may change; the run's data are still those of `made`."""
    return shutil.copytree(made, tmp_path / "place")


def own_run(execute: Callable[..., str], place: Path, *options: str, epochs: int = 2) -> Path:
    """A run on the copied data."""
    given = cli("--total_epochs=8", *options, epochs=epochs, data=place / "p", output=place / "own")
    execute("dimred", "stage1", *FAST, *given)
    return place / "own"


def all_text(dimred: Path, *words: object) -> str:
    """What a command that succeeds says, its warnings too."""
    done = completed([dimred, *words])
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def guesses(said: str) -> list[str]:
    """The lines of an answer with a probability, without the image's name."""
    return [line.split(maxsplit=1)[1] for line in said.splitlines() if " % " in line and ".png" in line]


def test_images_added_after_the_training_do_not_change_what_a_run_answers(place: Path, execute) -> None:
    run = own_run(execute, place)
    image = place / "p" / "test" / "a" / "0.png"
    before = guesses(execute("dimred", "predict", run, image))
    scores = re.findall(r"^test .*", execute("dimred", "evaluate", run), re.MULTILINE)
    execute("dimred", "export", run)
    assert len(before) == 1 and len(scores) == 1
    put_shades(place / "p", "b", 0, 60)
    assert guesses(execute("dimred", "predict", run, image)) == before
    # A flag reads the changed data; a state answers for itself.
    for words in ([run, "--data", place / "p"], [next((run / "checkpoints").iterdir())]):
        assert guesses(execute("dimred", "predict", *words, image)) == before, words
    assert guesses(execute("dimred", "predict", run / "export" / "1", image)) == before
    said = execute("dimred", "evaluate", run)
    assert re.findall(r"^test .*", said, re.MULTILINE) == scores
    assert "the train set has other samples" in said and "inputs have the mean" not in said
    trained = json.loads((run / "manifest.json").read_text())["mean"]
    execute("dimred", "export", run, "--train_samples=30")
    assert json.loads((run / "export" / "2" / "signature.json").read_text())["preprocessing"]["mean"] == trained


def test_copied_snapshots_answer_with_the_normalisation_of_their_training(place: Path, execute) -> None:
    snapshots = own_run(execute, place) / "snapshots"
    copied = shutil.copytree(snapshots, place / "copied")
    execute("dimred", "export", snapshots.parent, "--output", place / "export")
    (place / "all.txt").write_text("".join(f"{file}\n" for file in sorted(copied.glob("*.h5"))))
    put_shades(place / "p", "b", 0, 60)
    given = cli("--recalibrate_batchnorm=false --batch_size=4 --threads=1 --precision=float32", data=place / "p")

    def answers(*sources: Path) -> set[str]:
        return {
            " ".join(re.findall(r"^test .*", execute("dimred", "evaluate", source, *given), re.MULTILINE))
            for source in sources
        }

    assert len(answers(snapshots, copied, copied / "*.h5", place / "all.txt")) == 1
    assert len(answers(snapshots.parent, place / "export" / "1")) == 1
    assert "no run folder records" not in execute("dimred", "evaluate", copied / "*.h5", *given)


def test_a_runs_folder_means_the_runs_end_although_an_export_lies_in_it(place: Path, execute) -> None:
    run = own_run(execute, place, epochs=1)
    execute("dimred", "export", run, "--output", run)
    own_run(execute, place, epochs=6)
    image = place / "p" / "test" / "a" / "0.png"
    said = execute("dimred", "predict", run, image)
    state = max((run / "checkpoints").iterdir())
    assert f"state of {run} (step {int(state.name[6:])})" in said
    assert guesses(said) == guesses(execute("dimred", "predict", state, image))
    assert guesses(said) != guesses(execute("dimred", "predict", run / "1", image))


def test_a_continued_run_says_which_options_are_not_those_of_the_first(made: Path, tmp_path: Path, execute) -> None:
    said = execute(
        "dimred", "stage1", "--resume_from", made / "run", "--batch_size=4", "--epochs=3", "--output", tmp_path / "run"
    )
    [line] = [line for line in said.splitlines() if line.startswith("unlike the run of")]
    config = (tmp_path / "run" / "config.toml").read_text()
    rate = re.search(r"^learning_rate = (.*)$", config, re.MULTILINE)[1]
    for text in (f"learning_rate = {rate} (was 0.05)", "seed = 1 (was 4)", "snapshots_per_epoch = 1 (was 3)"):
        assert text in line
    assert "total_epochs = 3" in line and "(was 8" in line
    assert "data" not in line and "output" not in line and "epochs = 3 (was 2" not in line
    assert "(was unset)" not in line and not re.search(r"= (\S+?)(\.0)? \(was \1\)", line)


def test_samples_that_the_weights_were_trained_on_are_no_validation_set(
    place: Path, made: Path, execute, fails
) -> None:
    trained_on = "the validation set would have samples that the weights were trained on"
    for words in (
        ["evaluate", made / "run", "--fit_temperature", "--validation_fraction=0.3"],
        ["evaluate", made / "run" / "snapshots", "--validation_fraction=0.3"],
        ["stage2", made / "run", "--preset=sgd", "--epochs=1", "--validation_fraction=0.3", "--output", place / "two"],
    ):
        line = fails(2, *words)
        assert trained_on in line and "the run held out no samples" in line, words
    resumed = ["--resume_from", made / "run", "--epochs=3", "--batch_size=4", "--validation_fraction=0.3"]
    assert trained_on in fails(2, "stage1", *resumed, "--output", place / "three")
    assert not (place / "two").exists() and not (place / "three").exists()
    run = own_run(execute, place, "--validation_fraction=0.25")
    for option in ("--validation_fraction=0.5", "--split_seed=9", "--train_samples=8"):
        line = fails(2, "evaluate", run, option)
        assert trained_on in line and "; give --validation_fraction 0 for no validation set" in line, option
    assert "test" in execute("dimred", "evaluate", run, "--train_samples=8", "--validation_fraction=0")
    # A command that scores no validation set takes any samples.
    execute("dimred", "predict", run, place / "p" / "test" / "a" / "0.png", "--train_samples=8")
    # Smaller parts are held out, too, and so are samples of other data.
    for words in (["--validation_fraction=0.1"], ["--fit_temperature"]):
        assert "validation" in execute("dimred", "evaluate", run, *words)
    other = put_classes(place / "other", "a", "b")
    put_shades(other, "a", 9, 1)
    assert "validation" in execute("dimred", "evaluate", run, "--data", other, "--validation_fraction=0.5")


def test_held_out_samples_chosen_by_a_file_or_for_weights_without_a_record_are_compared(
    place: Path, execute, fails
) -> None:
    trained_on = "the validation set would have samples that the weights were trained on"
    run = own_run(execute, place, "--validation_fraction=0.25", "--snapshots_per_epoch=2")
    execute("dimred", "pca", run / "snapshots", "--components=2", "--output", place / "p.npy")
    execute("dimred", "export", run)
    snapshot = next((run / "snapshots").glob("*.h5"))
    execute("dimred", "convert", snapshot, "--output", run / "converted")
    two = ["--preset=sgd", "--epochs=1", "--output", place / "two"]
    plane = ["--pca_mat", place / "p.npy", "--grid=1,1", "--a_range=-1,1", "--b_range=-1,1", "--set=validation"]
    for name, seed in (("same", 1), ("other", 9)):
        (place / f"{name}.toml").write_text(f"split_seed = {seed}\n")
    config = ["--config", place / "other.toml"]
    for words in (
        ["evaluate", run, *config],
        ["stage2", run, *two, *config],
        ["stage1", "--resume_from", run, "--epochs=3", "--batch_size=4", *config, "--output", place / "three"],
        ["evaluate", run / "export" / "1", "--split_seed=9"],
        ["evaluate", run / "converted", "--split_seed=9"],
        ["stage2", run / "export" / "1", *two, "--split_seed=9"],
        ["inspect", "--landscape", run, *plane, "--split_seed=9", "--output", place / "s.csv"],
    ):
        assert trained_on in fails(2, *words), words
    assert not (place / "two").exists() and not (place / "three").exists() and not (place / "s.csv").exists()
    for words in ([run, "--config", place / "same.toml"], [run / "export" / "1"], [run / "converted"]):
        said = execute("dimred", "evaluate", *words)
        assert "validation" in said and "trained on" not in said, words
    execute("dimred", "inspect", "--landscape", run, *plane, "--output", place / "s.csv")


def test_a_start_that_has_seen_the_validation_set_is_said(place: Path, execute, dimred: Path) -> None:
    run = own_run(execute, place, "--validation_fraction=0.25", epochs=1).rename(place / "held")
    other = own_run(execute, place, "--seed=3", epochs=1)
    seen = "has samples that the weights were trained on: the run held out no samples"
    weights = max((other / "snapshots").glob("*.h5"))
    file = ["--preset=sgd", "--epochs=1", "--start=file", "--start_file", weights]
    assert seen in all_text(dimred, "stage2", run, *file, "--output", place / "two")
    data = cli("--epochs=1 --validation_fraction=0.25", data=place / "p")
    for start, said in ((other, True), (run, False), (other / "snapshots", True)):
        words = [*FAST, *data, "--initialize_from", start, "--output", place / f"from_{start.parent.name}_{start.name}"]
        assert (seen in all_text(dimred, "stage1", *words)) == said, start


def test_runs_of_a_mean_that_held_out_other_samples_are_said(place: Path, execute, fails) -> None:
    """The first run's record chooses the validation set; a flag chooses for each of them."""
    runs = {}
    for name, options in {
        "same": ["--validation_fraction=0.25", "--split_seed=1", "--seed=2"],
        "own": ["--validation_fraction=0.25", "--split_seed=1", "--seed=3"],
        "other": ["--validation_fraction=0.25", "--split_seed=9", "--seed=3"],
        "none": ["--seed=4"],
    }.items():
        runs[name] = own_run(execute, place, *options, epochs=1).rename(place / f"run_{name}")

    def listed(*names: str) -> Path:
        (place / "vv.txt").write_text("".join(f"{max((runs[name] / 'snapshots').glob('*.h5'))}\n" for name in names))
        return place / "vv.txt"

    trained_on = "has samples that some of the averaged weights were trained on: one of the runs held out"
    for names, held_out in (
        (("own", "other"), "samples with validation_fraction = 0.25, split_seed = 9"),
        (("other", "own"), "samples with validation_fraction = 0.25, split_seed = 1"),
        (("own", "none"), "no samples"),
    ):
        assert f"{trained_on} {held_out}" in execute("dimred", "evaluate", listed(*names)), names
        line = fails(2, "evaluate", listed(*names), "--validation_fraction=0.1")
        assert f"trained on: the run held out {held_out}" in line, names
    assert trained_on not in execute("dimred", "evaluate", listed("own", "other"), "--validation_fraction=0")
    assert trained_on not in execute("dimred", "evaluate", listed("own", "same"))


def test_a_mean_is_not_of_raw_and_averaged_weights(made: Path, tmp_path: Path, execute, fails) -> None:
    run = made / "run"
    execute("dimred", "convert", max((run / "snapshots").glob("*.h5")), output=tmp_path / "plain.safetensors")
    weights = load_file(tmp_path / "plain.safetensors")
    for name in ("model", "model_ema"):
        torch.save({name: weights}, tmp_path / f"{name}.pt")
    (tmp_path / "both.txt").write_text("model.pt\nmodel_ema.pt\n")
    line = fails(2, "evaluate", tmp_path / "both.txt", *cli("--model=convnet", data=made / "p"))
    assert "[weights] needs weights of one kind" in line


def test_a_temperature_at_the_end_of_the_search_is_said_to_be_one(tmp_path: Path, execute) -> None:
    for split in ("train", "test"):
        for name, shade in (("a", 0), ("b", 255)):
            (tmp_path / "p" / split / name).mkdir(parents=True)
            for i in range(8):
                Image.new("RGB", (20, 20), (shade, shade, shade)).save(tmp_path / "p" / split / name / f"{i}.png")
    options = cli("--epochs=10 --validation_fraction=0.25", data=tmp_path / "p", output=tmp_path / "run")
    execute("dimred", "stage1", *FAST, *options)
    said = execute("dimred", "evaluate", tmp_path / "run", "--fit_temperature")
    assert "temperature 0.0100, which is an end of the search from 0.01 to 100" in said
    assert "lowest" not in said


def test_batchnorm_is_estimated_again_for_any_weights_if_the_option_asks(made: Path, tmp_path: Path, execute) -> None:
    options = cli("--epochs=1 --model=resnet20", data=made / "p", output=tmp_path / "run")
    execute("dimred", "stage1", *FAST, *options)
    plain = execute("dimred", "evaluate", tmp_path / "run")
    again = execute("dimred", "evaluate", tmp_path / "run", "--recalibrate_batchnorm=true")
    assert ", BatchNorm recalibrated" in again and "recalibrated" not in plain
    assert again.splitlines()[-1] != plain.splitlines()[-1]


def test_flags_of_training_images_need_weights_that_are_estimated_again(made: Path, execute, fails) -> None:
    for option in ("--pad=2", "--flip", "--seed=5", "--colour_jitter=.1,.1,.1"):
        name = option.lstrip("-").split("=")[0]
        assert f"{name} has no effect: it needs weights whose BatchNorm" in fails(2, "evaluate", made / "run", option)
        execute("dimred", "evaluate", made / "run" / "snapshots", option)


def test_the_last_layer_of_other_classes_is_said(made: Path, tmp_path: Path, dimred: Path) -> None:
    other = put_classes(tmp_path / "q", "a", "y")
    start = cli("--epochs=1", data=other, initialize_from=made / "run")
    warning = "the loaded last layer was trained for other classes: label 1 was b and is now y"
    assert warning in all_text(dimred, "stage1", *FAST, *start, "--output", tmp_path / "one")


def test_the_newest_state_that_is_gone_is_noticed(place: Path, execute) -> None:
    run = own_run(execute, place)
    states = sorted((run / "checkpoints").iterdir())
    step, older = (int(state.name[6:]) for state in (states[-1], states[-2]))
    assert "curve.csv" not in execute("dimred", "evaluate", run)
    shutil.rmtree(states[-1])
    said = execute("dimred", "evaluate", run)
    assert f"(step {older})" in said
    assert f"goes on to step {step}, but the newest state there is of step {older}" in said


def test_a_finished_run_without_its_states_does_not_begin_anew(place: Path, execute, fails) -> None:
    run = own_run(execute, place)
    shutil.rmtree(run / "checkpoints")
    kept, manifest = rows(run), (run / "manifest.json").read_bytes()
    words = cli("--total_epochs=8 --epochs=2", data=place / "p", output=run)
    assert "has no state, but manifest.json lists checkpoints/state_" in fails(2, "stage1", *FAST, *words)
    assert rows(run) == kept
    assert (run / "manifest.json").read_bytes() == manifest


def test_a_configuration_of_a_moved_run_says_where_it_writes(place: Path, execute, dimred: Path) -> None:
    run = own_run(execute, place, epochs=1)
    run.rename(place / "moved")
    said = all_text(dimred, "stage1", "--config", place / "moved" / "config.toml")
    assert f"give --output {place / 'moved'}" in said
    said = all_text(dimred, "stage1", "--config", run / "config.toml")
    assert "give --output" not in said


def test_a_class_added_after_the_training_is_named(place: Path, execute, fails) -> None:
    run = own_run(execute, place, "--snapshots_per_epoch=2")
    image = place / "p" / "test" / "a" / "0.png"
    before = guesses(execute("dimred", "predict", run, image))
    for split in ("train", "test"):
        shutil.copytree(place / "p" / split / "a", place / "p" / split / "c")
    assert guesses(execute("dimred", "predict", run, image)) == before
    for words in (
        ["evaluate", run],
        ["evaluate", run / "snapshots"],
        ["stage2", run, "--preset=sgd", "--output", place / "two"],
        [
            "stage1",
            *FAST,
            *cli("--epochs=3 --total_epochs=8 --snapshots_per_epoch=2", data=place / "p"),
            "--output",
            run,
        ],
    ):
        assert "label 2 was none and is now c (2 classes before, 3 now)" in fails(2, *words), words


def test_the_default_network_is_named_where_nothing_else_is(made: Path, tmp_path: Path, execute) -> None:
    execute("dimred", "merge", made / "run", "--output", tmp_path / "m")
    said = execute("dimred", "evaluate", tmp_path / "m", "--data", made / "p")
    assert f"no run folder records the network of {tmp_path / 'm'}, so this is the default network, convnet" in said
    said = execute("dimred", "evaluate", tmp_path / "m", "--data", made / "p", "--model=convnet")
    assert "default network" not in said


def test_another_test_set_is_not_called_other_training_data(made: Path, execute) -> None:
    said = execute("dimred", "evaluate", made / "run", "--test_data", made / "p" / "train")
    assert "this is not the test set of the run: " in said
    assert "trained on" not in said


def test_a_switch_takes_no_yes_as_a_word_of_its_own(made: Path, tmp_path: Path, fails) -> None:
    for words in (["stage1", "--data", made / "p", "--flip", "yes"], ["stage1", "--flip", "on"]):
        assert f"--flip: needs true or false, received {words[-1]}" in fails(2, *words, "--output", tmp_path / "run")


def test_a_number_above_the_largest_is_refused_with_the_largest(made: Path, tmp_path: Path, fails) -> None:
    line = fails(2, "stage1", "--data", made / "p", f"--seed={2**63}", "--output", tmp_path / "run")
    assert f"--seed: needs a whole number <= {2**63 - 1}, received {2**63}" in line


def test_deleted_snapshots_are_not_counted(place: Path, execute) -> None:
    run = own_run(execute, place, "--snapshots_per_epoch=1")
    shutil.rmtree(run / "snapshots")
    own_run(execute, place, "--snapshots_per_epoch=1", epochs=3)
    said = execute("dimred", "stage1", *FAST, *cli("--snapshots_per_epoch=1 --total_epochs=8"), data=place / "p",
                   epochs=4, output=run)  # fmt: skip
    assert "2 snapshots are enough for up to 1 component" in said


def test_a_folder_of_classes_is_shown_by_another_command(made: Path, fails) -> None:
    assert "dimred data inspect" in fails(2, "inspect", made / "p")
