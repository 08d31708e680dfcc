"""Training that starts from other weights, and of which a part is frozen, through both stages."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from cli import cli, rows
from dimred_twins import build
from fashion import few
from ranks import run_ranks
from safetensors.torch import load_file, save_file
from torch import nn

DATA = ["--train_samples=640", "--test_samples=300", f"--data={few()}"]
SMALL = [*DATA, "--batch_size=64", "--threads=1", "--learning_rate=0.02", "--snapshots_per_epoch=4", "--quiet"]
HEAD = ["--checkpoint_exclude_patterns=logits", "--trainable_include_patterns=logits"]


def state(run: Path) -> dict[str, bytes]:
    newest = sorted((run / "checkpoints").iterdir())[-1]
    return {file.name: file.read_bytes() for file in newest.iterdir() if file.suffix != ".json"}


def tensors(snapshot: Path) -> dict[str, torch.Tensor]:
    """The tensors of the network that a snapshot holds, by name."""
    found = {}
    with h5py.File(snapshot) as file:
        table = json.loads(bytes(file["layout"][:]).decode() if file["layout"].shape else file["layout"][()])
        for part, vector in (("parameters", "weights"), ("buffers", "buffers"), ("counters", "counters")):
            values, offset = file[vector][:], 0
            for row in table[part]:
                size = int(np.prod(row["shape"]))
                found[row["name"]] = torch.tensor(values[offset : offset + size]).reshape(row["shape"])
                offset += size
            assert offset == len(values)
    return found


def last_snapshot(run: Path) -> Path:
    return sorted((run / "snapshots").glob("*.h5"))[-1]


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    return ours.keys() <= theirs.keys() and all(torch.equal(value, theirs[key]) for key, value in ours.items())


def backbone(classes: int) -> dict[str, torch.Tensor]:
    """A resnet20 with running statistics of its own."""
    torch.manual_seed(classes)
    twin = build("resnet20", 1, 28, 28, classes)
    for module in twin.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            module.num_batches_tracked.fill_(5)
    return twin.state_dict()


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> Path:
    """Weights for five classes."""
    file = tmp_path_factory.mktemp("other") / "five.pt"
    torch.save(backbone(5), file)
    return file


@pytest.fixture(scope="module")
def frozen(other: Path, execute) -> Path:
    """A run of which only the last layer trains."""
    run = other.parent / "frozen"
    execute("dimred", "stage1", *SMALL, "--epochs=2 --model=resnet20", *HEAD, initialize_from=other, output=run)
    return run


def test_only_what_trains_is_in_snapshots_and_the_rest_never_moves(frozen: Path, other: Path) -> None:
    theirs = torch.load(other, weights_only=True)
    kept = load_file(frozen / "frozen.safetensors")
    assert same(kept, theirs)
    assert kept.keys() == {k for k in theirs if not k.startswith("fc.") and not k.endswith("num_batches_tracked")}
    with h5py.File(last_snapshot(frozen)) as file:
        assert len(file["weights"]) == 64 * 10 + 10 and len(file["buffers"]) == 0
    manifest = json.loads((frozen / "manifest.json").read_text())
    assert manifest["parameters"] == 650 and manifest["frozen_values"] == sum(v.numel() for v in kept.values())
    report = json.loads((frozen / "initialization.json").read_text())
    assert report["excluded"] == ["fc.weight", "fc.bias"] and report["format"] == "PyTorch"
    assert report["unused"] == [key for key in theirs if key.endswith("num_batches_tracked")]  # counts of frozen layers
    assert set(report["loaded"]) == kept.keys()


def test_the_whole_network_says_the_same(frozen: Path, tmp_path: Path, execute) -> None:
    """Frozen and trained parts in one file, evaluated as a network of which nothing is frozen."""
    parts = load_file(frozen / "frozen.safetensors") | tensors(last_snapshot(frozen))
    save_file(parts, tmp_path / "whole.safetensors")
    whole = execute("dimred", "evaluate", tmp_path / "whole.safetensors", "--model=resnet20", *DATA)
    part = execute("dimred", "evaluate", frozen)
    assert whole.splitlines()[-1] == part.splitlines()[-1]
    assert f"{100 * float(rows(frozen)[-1]['test_accuracy']):.2f} %" in part
    trained = ["--model=resnet20", *DATA, "--trainable_include_patterns=logits"]
    foreign = execute("dimred", "evaluate", tmp_path / "whole.safetensors", *trained)
    assert foreign.splitlines()[-1] == part.splitlines()[-1]
    # A file of other weights is all its own, also where it lies in the folder of a run with a frozen part.
    doubled = {key: 2 * value if key == "conv1.weight" else value for key, value in parts.items()}
    answers = set()
    for folder in (tmp_path, frozen):
        save_file(doubled, folder / "mine.safetensors")
        answers.add(execute("dimred", "evaluate", folder / "mine.safetensors", *trained).splitlines()[-1])
    (frozen / "mine.safetensors").unlink()
    assert len(answers) == 1 and answers != {part.splitlines()[-1]}


def test_a_resume_is_bit_exact_and_needs_the_file_no_more(frozen: Path, other: Path, tmp_path: Path, execute) -> None:
    file, run = tmp_path / "five.pt", tmp_path / "run"
    file.write_bytes(other.read_bytes())
    words = "--model=resnet20 --schedule=cosine --total_epochs=2"
    command = cli("stage1", *SMALL, *HEAD, words, initialize_from=file, output=run)
    execute("dimred", *command[:-1], "--epochs=2", "--output", tmp_path / "once")
    execute("dimred", *command, "--epochs=1")
    file.write_bytes(b"gone")
    execute("dimred", *command, "--epochs=2")
    assert state(run) == state(tmp_path / "once") and rows(run) == rows(tmp_path / "once")
    assert (run / "frozen.safetensors").read_bytes() == (frozen / "frozen.safetensors").read_bytes()


def test_stage2_descends_in_what_trains(frozen: Path, tmp_path: Path, execute, fails) -> None:
    run = tmp_path / "two"
    words = cli("stage2 --start=last --epochs=1 --n_component=5 --batch_size=64 --threads=1 --quiet", checkpoint=frozen)
    execute("dimred", *words, "--output", run)
    assert np.load(run / "pca_mat.npy").shape == (5, 650)
    assert (run / "frozen.safetensors").read_bytes() == (frozen / "frozen.safetensors").read_bytes()
    accuracy = f"{100 * float(rows(run)[-1]['test_accuracy']):.2f} %"
    assert accuracy in execute("dimred", "evaluate", run)
    shutil.rmtree(run / "checkpoints")  # it saves room, and the run's name still means final.h5
    report = execute("dimred", "evaluate", run)
    assert accuracy in report and "mean of" not in report
    assert rows(run)[0]["test_loss"] == rows(frozen)[-1]["test_loss"]
    assert float(rows(run)[-1]["train_loss"]) < float(rows(frozen)[-1]["train_loss"])
    line = fails(2, *words, "--trainable_include_patterns=fc.bias", "--output", tmp_path / "three")
    assert "fc.weight" in line
    # Other frozen values than those that the weights were trained with.
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("config.toml", "manifest.json", "checkpoints", "snapshots"):
        (moved / name).symlink_to(frozen / name)
    values = load_file(frozen / "frozen.safetensors")
    values["conv1.weight"][0, 0, 0, 0] += 1e-6
    save_file(values, moved / "frozen.safetensors")
    words[-1] = f"--checkpoint={moved}"
    assert "was trained with other frozen parameters (digest " in fails(2, *words, "--output", tmp_path / "three")
    (moved / "frozen.safetensors").unlink()
    assert "frozen.safetensors" in fails(2, *words, "--output", tmp_path / "three")
    assert not (tmp_path / "three").exists()


@pytest.fixture(scope="module")
def whole(tmp_path_factory, execute) -> Path:
    """A run of which nothing is frozen."""
    run = tmp_path_factory.mktemp("whole") / "run"
    execute("dimred", "stage1", *SMALL, "--epochs=1", "--model=resnet20", "--output", run)
    return run


@pytest.mark.parametrize("origin", ["run", "state", "snapshot", "snapshots", "frozen run"])
def test_our_own_weights_are_a_start(origin: str, frozen: Path, whole: Path, tmp_path: Path, execute) -> None:
    """The run makes a step; its file names the part of the start that is frozen."""
    first = frozen if origin == "frozen run" else whole
    path = {
        "state": next((first / "checkpoints").iterdir()),
        "snapshot": last_snapshot(first),
        "snapshots": first / "snapshots",
    }.get(origin, first)
    expected = tensors(last_snapshot(first)) | (
        load_file(first / "frozen.safetensors") if origin == "frozen run" else {}
    )
    second = tmp_path / "second"
    words = "--epochs=1 --model=resnet20 --trainable_exclude_patterns=^layer,^conv1,bn1 --stop_at_step=1"
    execute("dimred", "stage1", *SMALL, words, initialize_from=path, output=second)
    kept = load_file(second / "frozen.safetensors")
    assert same(kept, expected) and "layer3.2.bn2.running_var" in kept and "conv1.weight" in kept
    report = json.loads((second / "initialization.json").read_text())
    assert set(report["loaded"]) >= expected.keys() - {k for k in expected if k.endswith("num_batches_tracked")}
    assert report["excluded"] == [] and report["format"] == "dimred"


def test_ranks_start_and_stay_together(other: Path, frozen: Path, tmp_path: Path, dimred: Path) -> None:
    run = tmp_path / "ranks"
    words = [word for word in SMALL if "batch_size" not in word]
    done = run_ranks(
        dimred,
        cli("stage1", *words, "--batch_size=32 --epochs=2 --model=resnet20", *HEAD, initialize_from=other, output=run),
        2,
    )
    assert done.codes == [0, 0], done.errors
    assert (run / "frozen.safetensors").read_bytes() == (frozen / "frozen.safetensors").read_bytes()
    one, two = (tensors(last_snapshot(folder))["fc.weight"].numpy() for folder in (frozen, run))
    assert np.abs(one - two).max() < 1e-5 * np.abs(one).max() + 1e-6  # another order of sums


def test_what_cannot_be_is_refused(other: Path, frozen: Path, tmp_path: Path, fails) -> None:
    def report(*words: str, model: str = "resnet20") -> str:
        line = fails(2, "stage1", *SMALL, "--epochs=1", f"--model={model}", *words, f"--output={tmp_path / 'run'}")
        assert not (tmp_path / "run").exists()
        return line

    line = report(f"--initialize_from={other}")
    assert "fc.weight: expected [10,64], received [5,64]" in line and "fc.bias: expected [10], received [5]" in line
    assert "2 tensors differ" in line and "--checkpoint_exclude_patterns" in line
    assert "received none" in report(f"--initialize_from={other}", model="convnet")
    assert "did you mean layer1.0.conv1.weight?" in report(
        f"--initialize_from={other}", "--checkpoint_exclude_patterns=layer1.0.conv1.wieght"
    )
    assert "did you mean logits?" in report("--trainable_include_patterns=logts")
    assert "no parameter to train" in report("--trainable_exclude_patterns=.")
    assert "checkpoint_exclude_patterns has no effect: it needs initialize_from" in report(
        "--checkpoint_exclude_patterns=logits"
    )
    assert "received both" in report(f"--initialize_from={other}", f"--resume_from={frozen}")
    assert "/nowhere" in report("--initialize_from=/nowhere")
    line = fails(
        2, "stage1", *SMALL, "--epochs=3 --model=resnet20", *HEAD, initialize_from=f"{other}.other", output=frozen
    )
    assert "another configuration" in line and "initialize_from" in line


def test_frozen_without_weights_says_so(tmp_path: Path, execute, binaries) -> None:
    command = cli(
        binaries / "dimred", "stage1", *SMALL, "--epochs=1 --trainable_include_patterns=logits", output=tmp_path / "run"
    )
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "the random values of the new network" in done.stderr
    # Random features are the seed's, of which another run keeps the same.
    assert load_file(tmp_path / "run" / "frozen.safetensors")["conv1.weight"].abs().max() > 0
