"""Folders of checkpoints: which files and folders are members, and what their names say."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from cli import completed
from safetensors.torch import load_file, save_file

import dimred


def tensors(i: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(i)
    return {"a": torch.randn(4, generator=generator) + i, "b": torch.randn(3, generator=generator) + i}


def saved(file: Path, i: int) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".safetensors":
        save_file(tensors(i), file)
    else:
        torch.save(tensors(i), file)
    return file


@pytest.mark.parametrize(
    "name", ["epoch{}.safetensors", "epoch={}-step={}00.ckpt", "e/epoch_{}/model.safetensors", "checkpoint_{}_{}000.pt"]
)
def test_a_range_counts_the_epochs_that_the_names_say(name: str, tmp_path: Path, execute, fails) -> None:
    for epoch in (1, 2, 3, 10, 11, 12):
        saved(tmp_path / "s" / name.format(epoch, epoch), epoch)
    folder = tmp_path / "s/e" if name.startswith("e/") else tmp_path / "s"
    output = tmp_path / "p.npy"
    words = ("--snapshots", folder, "--components", 1, "--output", output)
    execute("dimred", "pca", *words, snapshot_from=3, snapshot_to=11)
    chosen = [saved(tmp_path / f"chosen/w{i}.safetensors", i) for i in (3, 10, 11)]
    execute("dimred", "pca", "--snapshots", chosen[0].parent, "--components", 1, "--output", tmp_path / "q.npy")
    assert np.array_equal(np.load(output), np.load(tmp_path / "q.npy"))
    assert "choose within epochs 1 to 12" in fails(2, "pca", *words, "--overwrite", snapshot_from=13)


def said(binaries: Path, *words: object) -> tuple[int, str]:
    done = completed([binaries / "dimred", *words])
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("command", ["merge", "pca"])
def test_checkpoints_whose_weights_lie_deeper_are_no_silent_loss(command: str, tmp_path: Path, binaries: Path) -> None:
    run = tmp_path / "run"
    for i, name in enumerate(("step_100/model", "step_200/model", "export_a", "export_b")):
        saved(run / name / "model.safetensors", i)
    source = (run,) if command == "merge" else ("--snapshots", run)
    code, errors = said(binaries, command, *source, "--output", tmp_path / "o.npy")
    assert code == 2
    assert "the weights of 'step_100' lie deeper, in its folder 'model'" in errors
    saved(tmp_path / "one/merged/model.safetensors", 1)
    saved(tmp_path / "one/checkpoint-500/unet/weights.safetensors", 2)
    source = (tmp_path / "one",) if command == "merge" else ("--snapshots", tmp_path / "one")
    assert "checkpoint-500" in said(binaries, command, *source, "--output", tmp_path / "o.npy")[1]


def test_what_lies_deeper_beside_a_series_is_said(tmp_path: Path, binaries: Path) -> None:
    for i in (1, 2):
        saved(tmp_path / f"s/step_{i}/model.safetensors", i)
        saved(tmp_path / f"f/step_{i}.safetensors", i)
    for name in ("s/archive/old/model.safetensors", "s/step_3/model/model.safetensors", "f/step_3/w.safetensors"):
        saved(tmp_path / name, 3)
    code, errors = said(binaries, "merge", tmp_path / "s", "--output", tmp_path / "o")
    assert code == 0
    assert "step_3: the weights lie deeper, in the folder" in errors
    assert "archive: the weights lie deeper, in the folder" in errors
    code, errors = said(binaries, "merge", tmp_path / "f", "--output", tmp_path / "of")
    assert code == 0
    assert "step_3" in errors


@pytest.mark.parametrize(
    ("name", "dtype"), [("experts.gate_up_proj_blocks", "uint8"), ("W_q", "int32"), ("l.codes", "int16")]
)
@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_codes_that_differ_are_quantised_weights(name: str, dtype: str, ending: str, tmp_path: Path, fails) -> None:
    """As merge refuses them: a matrix of the floats beside them would be of a part of the network."""
    generator = torch.Generator().manual_seed(0)
    states = [
        {
            name: torch.randint(0, 100, (4, 6), generator=generator).to(getattr(torch, dtype)),
            "norm.weight": torch.randn(5, generator=generator),
            "positions": torch.arange(6, dtype=torch.int32).reshape(1, 6),
            "count": torch.tensor([i, 1], dtype=torch.int32),
        }
        for i in range(3)
    ]
    write = save_file if ending == "safetensors" else torch.save
    for folder, same in (("differ", False), ("same", True)):
        (tmp_path / folder).mkdir()
        for i, state in enumerate(states):
            write({**state, name: states[0][name]} if same else state, tmp_path / folder / f"step{i}.{ending}")
    words = ("--components", 1, "--output", tmp_path / "p.npy")
    assert f'integers of "{name}" differ' in fails(2, "pca", "--snapshots", tmp_path / "differ", *words)
    assert dimred.fit(tmp_path / "same", 1).components.shape == (1, 5)
    for lone in (0, 2):  # the only file with them
        (tmp_path / f"lone{lone}").mkdir()
        for i, state in enumerate(states):
            kept = {key: value for key, value in state.items() if key != name or i == lone}
            write(kept, tmp_path / f"lone{lone}/step{i}.{ending}")
        assert f'integers of "{name}" differ' in fails(2, "pca", "--snapshots", tmp_path / f"lone{lone}", *words)
    for call in (lambda s: dimred.fit(s, 1), dimred.average):
        for source in (tmp_path / "differ", states):
            with pytest.raises(ValueError, match="quantised weights"):
                call(source)
    assert dimred.fit([{**state, name: states[0][name]} for state in states], 1).components.shape == (1, 5)


def test_the_frozen_part_beside_snapshots_is_no_member(tmp_path: Path, execute) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
    module[0].weight.requires_grad_(False)
    folder = tmp_path / "s"
    with warnings.catch_warnings(action="ignore"), dimred.SnapshotRecorder(module, folder, every_steps=1) as recorder:
        for _ in range(4):
            with torch.no_grad():
                module[1].weight += torch.randn(2, 2)
            recorder.step()
    save_file({"0.weight": module[0].weight.detach().clone()}, folder / "frozen.safetensors")
    files = sorted(folder.glob("*.h5"))
    assert len(files) == 4
    execute("dimred", "merge", folder, "--output", tmp_path / "m")
    execute("dimred", "merge", *files, "--output", tmp_path / "n")
    name = "model.safetensors"
    assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "n" / name).read_bytes()
    execute("dimred", "merge", folder / "*", "--output", tmp_path / "p")
    assert (tmp_path / "p" / name).read_bytes() == (tmp_path / "n" / name).read_bytes()
    execute("dimred", "pca", "--snapshots", folder, "--components", 1, "--output", tmp_path / "p.npy")
    execute("dimred", "inspect", "--trajectory", folder)
    assert dimred.fit(folder, 1).components.shape[0] == 1
    assert len(dimred.average(folder).snapshots) == len(files)


class Tied(torch.nn.Module):
    """A network whose head has the embedding's weight, with a buffer that is in no state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.e = torch.nn.Embedding(5, 3)
        self.h = torch.nn.Linear(3, 5)
        self.h.weight = self.e.weight
        self.norm = torch.nn.BatchNorm1d(5)
        self.same_norm = self.norm
        self.register_buffer("np", torch.ones(2), persistent=False)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_snapshot_has_the_names_of_the_state_dict(frozen: bool, tmp_path: Path, execute) -> None:
    torch.manual_seed(0)
    module = Tied()
    module.e.weight.requires_grad_(not frozen)
    for name, model in (("module", module), ("mapping", module.state_dict())):
        folder = tmp_path / name
        with warnings.catch_warnings(action="ignore"), dimred.SnapshotRecorder(model, folder, every_steps=1) as taken:
            taken.step()
        if frozen and name == "module":
            save_file({"e.weight": module.e.weight.detach().clone()}, folder / "frozen.safetensors")
        execute("dimred", "convert", folder / "snapshot_00000001.h5", "--output", tmp_path / f"{name}.safetensors")
        converted = load_file(tmp_path / f"{name}.safetensors")
        assert converted.keys() == module.state_dict().keys()
        for key, value in module.state_dict().items():
            assert torch.equal(converted[key], value)
    if not frozen:
        average = dimred.average(tmp_path / "module")
        assert average.tied["h.weight"] == "e.weight"
        assert average.names.count("e.weight") == 1 and "h.weight" not in average.names


def test_an_exclusion_of_nothing_is_said(tmp_path: Path, binaries: Path, fails) -> None:
    save_file(tensors(0), tmp_path / "w.safetensors")
    file = tmp_path / "w.safetensors"
    convert = ("convert", file, "--output", tmp_path / "o.safetensors")
    assert r"\Z has no meaning" in fails(2, *convert, "--exclude", r"b\Z")
    (tmp_path / "names.txt").write_text(r"\Ab -> c")
    assert r"names.txt:1: needs a regular expression" in fails(2, *convert, rename=tmp_path / "names.txt")
    for words in (convert, ("diff", file, file)):
        done = completed([binaries / "dimred", *words, "--exclude", "^bb$"])
        assert done.returncode == 0
        assert '"^bb$" excludes no tensor' in done.stdout + done.stderr
    assert any("excludes no tensor" in remark for remark in dimred.diff(file, file, exclude="^bb$").remarks)


@pytest.mark.parametrize("name", ["ckpt_{}.safetensors", "ckpt_{}.pt", "ckpt_{}/model.safetensors"])
def test_averages_beside_raw_weights_are_no_members(name: str, tmp_path: Path, fails) -> None:
    for i in (1, 2):
        saved(tmp_path / name.format(i), i)
        saved(tmp_path / name.format(f"{i}_ema"), i + 2)
    said = 'only the second name has the word "ema"'
    assert said in fails(2, "merge", tmp_path, "--output", tmp_path / "o")
    assert said in fails(2, "pca", "--snapshots", tmp_path, "--components", 1, "--output", tmp_path / "p.npy")
    for call in (lambda source: dimred.fit(source, 1), dimred.average):
        with pytest.raises(ValueError, match="have different roles"):
            call(tmp_path)
