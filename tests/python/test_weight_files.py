"""Weight files of PyTorch, safetensors and MindSpore: the network with them says what PyTorch's twin says."""

from __future__ import annotations

import io
import itertools
import json
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from cli import completed
from conftest import REPOSITORY
from dimred_twins import build
from ranks import run_ranks
from reference import mindspore_checkpoint
from safetensors.torch import save_file
from torch import nn

import dimred

READER = REPOSITORY / "checkpoints/read_pickle.py"
Logits = Callable[[Path], np.ndarray]
Refused = Callable[[Path], str]
IMAGES = torch.randn(8, 1, 32, 32, generator=torch.Generator().manual_seed(1))


def twin_of(name: str = "resnet20") -> nn.Module:
    """A network with every tensor away from its initial value."""
    torch.manual_seed(2)
    model = build(name, 1, 32, 32, 10).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
            nn.init.normal_(module.running_mean, std=0.3)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    return model


def said_by(model: nn.Module) -> np.ndarray:
    with torch.no_grad():
        return model(IMAGES).numpy()


@pytest.fixture(scope="module")
def twin() -> nn.Module:
    return twin_of()


@pytest.fixture()
def logits(tmp_path: Path, execute) -> Logits:
    """What our network says with the weights of a file."""

    def call(file: Path, name: str = "resnet20") -> np.ndarray:
        np.save(tmp_path / "input.npy", IMAGES.numpy())
        execute("model_logits", name, 1, 32, 10, file, tmp_path / "input.npy", tmp_path, "eval")
        return np.load(tmp_path / "eval.npy")

    return call


@pytest.fixture()
def unfit(logits) -> Refused:
    """The one line that refuses a file which is whole, but not of the network."""

    def call(file: Path) -> str:
        with pytest.raises(AssertionError) as caught:
            logits(file)
        return str(caught.value).splitlines()[1]

    return call


@pytest.fixture()
def refused(dimred: Path) -> Refused:
    """The one line that refuses a file."""

    def call(file: Path) -> str:
        done = completed([dimred, "inspect", file])
        assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr

    return call


def close(received: np.ndarray, model: nn.Module) -> bool:
    return bool(np.abs(received - said_by(model)).max() < 2e-5)  # float32, another order of sums


def shaped_otherwise(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same values as views: of one vector with offsets, and with other strides."""
    floats = {key: value for key, value in state.items() if value.is_floating_point()}
    flat = torch.cat([torch.zeros(3), *(value.reshape(-1) for value in floats.values())])
    views, offset = dict(state), 3
    for key, value in floats.items():
        views[key] = flat[offset : offset + value.numel()].view(value.shape)
        offset += value.numel()
    views["fc.weight"] = state["fc.weight"].t().contiguous().t()
    views["conv1.weight"] = torch.stack([state["conv1.weight"]] * 2, dim=-1)[..., 1]
    assert not views["fc.weight"].is_contiguous() and not views["conv1.weight"].is_contiguous()
    return views


SAVED = {
    "state_dict": lambda state: state,
    "wrapped": lambda state: {
        "epoch": 3,
        "best": torch.tensor(0.5),
        "state_dict": {f"module.{k}": v for k, v in state.items()},
    },
    "model": lambda state: {
        "model": state,
        "optimizer": {"state": {0: {"step": torch.ones(1)}}, "groups": [{"lr": 0.1}]},
    },
    "parameters": lambda state: {k: nn.Parameter(v) if v.is_floating_point() else v for k, v in state.items()},
    "views": shaped_otherwise,
}


@pytest.mark.parametrize("form", SAVED)
@pytest.mark.parametrize("protocol", [2, 4])
def test_pytorch_files(form: str, protocol: int, tmp_path: Path, twin, logits) -> None:
    torch.save(SAVED[form](twin.state_dict()), tmp_path / "twin.pt", pickle_protocol=protocol)
    assert close(logits(tmp_path / "twin.pt"), twin)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_element_types(dtype: torch.dtype, tmp_path: Path, logits) -> None:
    model = twin_of().to(dtype)
    torch.save(model.state_dict(), tmp_path / "twin.pt")
    save_file(model.state_dict(), tmp_path / "twin.safetensors")
    model.float()  # what the narrow values mean
    assert close(logits(tmp_path / "twin.pt"), model)
    assert close(logits(tmp_path / "twin.safetensors"), model)


@pytest.mark.parametrize("name", ["resnet20", "resnet18"])
@pytest.mark.parametrize(("slices", "crc"), [(1, False), (3, True)])
def test_mindspore_files(name: str, slices: int, crc: bool, tmp_path: Path, logits) -> None:
    model = twin_of(name)
    arrays = mindspore_checkpoint.arrays_of(model)
    assert any("gamma" in key for key in arrays) and (name == "resnet20" or any("down_sample" in key for key in arrays))
    more = {
        "moments.conv1.weight": np.zeros(5, np.float32),
        "learning_rate": np.float32(0.1).reshape(()),
        "global_step": np.array([7], np.int32),
    }
    mindspore_checkpoint.write(tmp_path / "twin.ckpt", arrays | more, slices, crc)
    assert close(logits(tmp_path / "twin.ckpt", name), model)


def test_a_merge_of_mindspore_checkpoints(tmp_path: Path, execute) -> None:
    """Their mean under the names that PyTorch has; moments and counters are left out, statistics are the latest."""
    model = twin_of()
    arrays = mindspore_checkpoint.arrays_of(model)
    training = {"moments.conv1.weight": np.zeros(5, np.float32), "global_step": np.array([7], np.int32)}
    (tmp_path / "run").mkdir()
    mindspore_checkpoint.write(tmp_path / "run/net-9_10.ckpt", arrays | training, 1, False)
    later = {name: np.float32(3) * value for name, value in arrays.items()}
    mindspore_checkpoint.write(tmp_path / "run/net-10_10.ckpt", later | training, 3, True)
    said = execute("dimred", "merge", tmp_path / "run", "--output", tmp_path / "merged")
    assert "left out as training state: 2 tensors (global_step, moments.conv1.weight)" in said
    merged = safetensors.torch.load_file(tmp_path / "merged/model.safetensors")
    expected = {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
    assert merged.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(merged[name], value * (3 if "running_" in name else 2)), name


def linear(value: float) -> dict[str, torch.Tensor]:
    return {"l.weight": torch.full((4, 3), float(value)), "l.bias": torch.ones(4)}


def weight_alone(value: float) -> dict[str, torch.Tensor]:
    return {"l.weight": linear(value)["l.weight"]}


def adam_state() -> dict[str, object]:
    parameter = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([parameter])
    parameter.sum().backward()
    optimizer.step()
    return optimizer.state_dict()


def named_parameter(value: float) -> nn.Parameter:
    parameter = nn.Parameter(torch.full((3,), value))
    parameter.tag = "head"  # type: ignore[attr-defined]
    return parameter


SCALAR = torch.tensor(90.0)
NESTED = {
    "net_and_accuracy": (lambda i: {"net": linear(i), "acc": SCALAR + i}, "l.weight l.bias", "acc"),
    "optimizer_beside": (
        lambda i: {"epoch": i, "network": linear(i), "opt": adam_state(), "rng": torch.ones(9, dtype=torch.uint8) * i},
        "l.weight l.bias",
        "opt.state.0.step, opt.state.0.exp_avg, opt.state.0.exp_avg_sq, ...",
    ),
    "optimizers_of_two": (
        lambda i: {"net": linear(i), "optimizers": {"a": adam_state(), "b": adam_state()}},
        "l.weight l.bias",
        "optimizers.a.state.0.step, optimizers.a.state.0.exp_avg, optimizers.a.state.0.exp_avg_sq, ...",
    ),
    "metrics": (lambda i: {"metrics": {"loss": SCALAR * i}, "net": linear(i)}, "l.weight l.bias", "metrics.loss"),
    "wrapper": (
        lambda i: {"ema": linear(7), "model": {"encoder": linear(i), "scale": SCALAR * i}},
        "encoder.l.weight encoder.l.bias scale",
        "ema.l.weight, ema.l.bias",
    ),
    "head_within": (
        lambda i: {"model": {"w": torch.ones(4) * i, "head": {"weight": torch.ones(6)}, "blocks": [linear(i)]}},
        "w head.weight blocks.0.l.weight blocks.0.l.bias",
        "",
    ),
    "no_wrapper": (
        lambda i: {"w": torch.ones(5) * i, 0: {1: torch.ones(2)}, "sub": linear(i), "optimizer": adam_state()},
        "w 0.1 sub.l.weight sub.l.bias",
        "optimizer.state.0.step, optimizer.state.0.exp_avg, optimizer.state.0.exp_avg_sq",
    ),
    "list_of_tensors": (
        lambda i: {"w": torch.ones(5) * i, "layers": [torch.ones(2), torch.ones(3)]},
        "w layers.0 layers.1",
        "",
    ),
    "list_of_dictionaries": (
        lambda i: {"w": torch.ones(5) * i, "experts": (linear(i), linear(i)), "rng": [torch.get_rng_state()]},
        "w experts.0.l.weight experts.0.l.bias experts.1.l.weight experts.1.l.bias",
        "rng.0",
    ),
    "list_beside_a_dictionary": (
        lambda i: {"net": linear(i), "layers": [torch.ones(2)], "losses": [torch.ones(9)]},
        "net.l.weight net.l.bias layers.0",
        "losses.0",
    ),
    "optax": (
        lambda i: {**linear(i), "optimizer": {"mu": weight_alone(i), "nu": weight_alone(i), "count": SCALAR}},
        "l.weight l.bias",
        "optimizer.mu.l.weight, optimizer.nu.l.weight, optimizer.count",
    ),
    "optax_beside": (
        lambda i: {"params": linear(i), "opt": {"mu": weight_alone(i), "nu": weight_alone(i)}},
        "l.weight l.bias",
        "opt.mu.l.weight, opt.nu.l.weight",
    ),
    "history_beside": (
        lambda i: {"net": linear(i), "history": {"loss": torch.ones(50)}, "lr_scheduler": {"base_lrs": torch.ones(4)}},
        "l.weight l.bias",
        "history.loss, lr_scheduler.base_lrs",
    ),
    "bytes_beside": (
        lambda i: {"net": linear(i), "cpu": {"generator": torch.get_rng_state()}, "rng": {"a": torch.get_rng_state()}},
        "l.weight l.bias",
        "cpu.generator, rng.a",
    ),
    "plain_objects": (
        lambda i: {"net": linear(i), "milestones": Counter({3: 1}), "dtype": torch.float16, "to": torch.device("cpu")},
        "l.weight l.bias",
        "",
    ),
    "attributes": (lambda i: {"w": named_parameter(float(i))}, "w", ""),
    "extra_state": (
        lambda i: {"w": torch.ones(5) * i, "q._extra_state": {"amax": torch.ones(5)}},
        "w",
        "q._extra_state.amax",
    ),
}


@pytest.mark.parametrize("form", NESTED)
def test_the_network_among_dictionaries(form: str, tmp_path: Path, execute) -> None:
    """It is found under its names, and what lies beside it is said; merge and pca take the same tensors."""
    make, names, beside = NESTED[form]
    for step in (1, 2, 3, 4):
        (tmp_path / "run").mkdir(exist_ok=True)
        torch.save(make(step), tmp_path / f"run/step{step}.pt")
    said = execute("dimred", "merge", tmp_path / "run", "--output", tmp_path / "out")
    merged = safetensors.torch.load_file(tmp_path / "out/model.safetensors")
    assert sorted(merged) == sorted(names.split())
    changing = next(name for name in merged if name.split(".")[-1] in ("w", "weight") and not name.startswith("head"))
    assert torch.all(merged[changing] == 2.5)
    fitted = execute("dimred", "pca", tmp_path / "run", "--components=1", "--output", tmp_path / "p.npy")
    assert np.load(tmp_path / "p.npy").shape[1] == sum(value.numel() for value in merged.values())
    inspected = execute("dimred", "inspect", "--trajectory", tmp_path / "run")
    for text in (said, fitted, inspected):
        assert ("left out as training state" in text) == bool(beside), text
        assert all(name in text for name in beside.removesuffix(", ...").split(", ")), text


DOTTED = "names are dotted, such as"


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda step: {"model": {**linear(step), "head": linear(step)}}, "head.l.weight"),
        (lambda step: {"encoder": linear(step), "scale": torch.ones(3)}, "encoder.l.weight"),
        (lambda step: {"state_dict": {"a": {"b": linear(step)}}}, "a.b.l.weight"),
    ],
)
def test_names_of_dictionaries_in_one_another_are_said_once(make, name: str, tmp_path: Path, binaries: Path) -> None:
    (tmp_path / "run").mkdir()
    for step in (1, 2, 3):
        torch.save(make(step), tmp_path / f"run/step{step}.pt")
    for words in (["merge", "--output", tmp_path / "out"], ["pca", "--components=1", "--output", tmp_path / "p.npy"]):
        command = [binaries / "dimred", words[0], tmp_path / "run", *words[1:]]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        assert text.count(DOTTED) == 1 and f"{DOTTED} {name}:" in text, text
    assert name in safetensors.torch.load_file(tmp_path / "out/model.safetensors")


def test_plain_names_have_no_such_word(tmp_path: Path, execute) -> None:
    (tmp_path / "run").mkdir()
    for step in (1, 2):
        torch.save({"model": linear(step)}, tmp_path / f"run/step{step}.pt")
    assert DOTTED not in execute("dimred", "merge", tmp_path / "run", "--output", tmp_path / "out")


@pytest.mark.parametrize(
    ("names", "doubtful"),
    [
        (["l.weight", "grad.l.weight", "prev.k.weight"], "1 tensor (grad.l.weight)"),
        (["l.weight", "optimizer.l.weight", "solver.state.0.state1"], "2 tensors (optimizer.l.weight, solver.state.0"),
        (["l.weight", "optimizer.net.weight", "momentum.k.weight"], ""),
    ],
)
def test_names_that_may_be_an_optimizers_are_said_once(
    names: list[str], doubtful: str, tmp_path: Path, binaries: Path
) -> None:
    (tmp_path / "run").mkdir()
    for step in (1, 2, 3):
        save_file({name: torch.full((2,), float(step)) for name in names}, tmp_path / f"run/step{step}.safetensors")
    for words in (["merge", "--output", tmp_path / "out"], ["pca", "--components=1", "--output", tmp_path / "p.npy"]):
        command = [binaries / "dimred", words[0], tmp_path / "run", *words[1:]]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        assert text.count("names may also be an optimizer's") == (doubtful != "") and doubtful in text, text
    assert sorted(safetensors.torch.load_file(tmp_path / "out/model.safetensors")) == sorted(names)
    assert np.load(tmp_path / "p.npy").shape[1] == 6


TWO_NETWORKS = {
    "gan": (
        lambda: {"netG": linear(1), "netD": linear(2), "loss": SCALAR},
        "netG, netD, among the keys netG, netD, loss",
    ),
    "teacher": (lambda: {"student": linear(1), "teacher": {"net": linear(2)}}, "student, teacher, among"),
    "state_dict_and_model": (
        lambda: {"state_dict": linear(1), "model": linear(2)},
        "state_dict, model, among the keys state_dict, model",
    ),
    "module_and_model": (lambda: {"module": linear(1), "model": linear(2), "epoch": 3}, "model, module, among"),
}


@pytest.mark.parametrize("form", TWO_NETWORKS)
def test_two_networks_of_one_file(form: str, tmp_path: Path, fails) -> None:
    make, keys = TWO_NETWORKS[form]
    torch.save(make(), tmp_path / "a.pt")
    for command, output in (("merge", "out"), ("pca", "out.npy")):
        line = fails(1, command, tmp_path / "a.pt", "--output", tmp_path / output)
        assert f"has more than one network, {keys}" in line and "torch.save(torch.load(FILE)[" in line
    assert not (tmp_path / "out").exists()


BESIDE = {
    "discriminator": (
        {"model": linear(1), "discriminator": linear(2)},
        "another network (discriminator: 2 tensors) is left out",
    ),
    "lora": (
        {"model": linear(1), "lora": {"l.lora_A.weight": torch.ones(2, 3)}},
        "another network (lora: 1 tensor) is left out",
    ),
    "two": (
        {"model": linear(1), "netD": linear(2), "netE": {"a": linear(2)}},
        "other networks (netD: 2 tensors, netE: 2 tensors) are left out",
    ),
    "tensors": (
        {"model": linear(1), "head.weight": torch.ones(2), "heads": [linear(2)], "rng": [torch.ones(9)]},
        "other tensors (head.weight, heads.0.l.weight, heads.0.l.bias) are left out",
    ),
    "one tensor": ({"model": linear(1), "centers": torch.ones(2)}, "another tensor (centers) is left out"),
    "number": (
        {"model": {**linear(1), "logit_scale": 2.5, "version": 2}, "epoch": 3, "args": {"lr": 0.1}},
        "numbers of Python are no tensors and are left out: logit_scale, version",
    ),
    "average": (
        {"model": linear(1), "ema": linear(3), "netD": linear(2)},
        "another network (netD: 2 tensors) is left out",
    ),
}


@pytest.mark.parametrize("form", BESIDE)
def test_a_network_beside_the_one_that_is_read_is_no_training_state(form: str, tmp_path: Path) -> None:
    state, remark = BESIDE[form]
    torch.save(state, tmp_path / "a.pt")
    rows = json.loads(read_by_python(tmp_path / "a.pt")[0])
    assert remark in rows
    tensors = [row for row in rows if isinstance(row, list)]
    assert [row[0] for row in tensors if row[4] is not None] == ["l.weight", "l.bias"]
    left_out = {"ema": ["ema.l.weight", "ema.l.bias"], "rng": ["rng.0"]}
    assert [row[0] for row in tensors if row[4] is None] == next(
        (left_out[key] for key in left_out if key in state), []
    )


def test_numbers_beside_bare_tensors_are_the_programs_or_said(tmp_path: Path) -> None:
    torch.save({**linear(1), "epoch": 3, "lr": 0.1, "best_acc1": 0.5, "logit_scale": 2.5}, tmp_path / "a.pt")
    rows = json.loads(read_by_python(tmp_path / "a.pt")[0])
    assert [row for row in rows if isinstance(row, str)] == [
        "numbers of Python are no tensors and are left out: logit_scale"
    ]


def test_metrics_of_a_trainer_beside_the_network_are_training_state(tmp_path: Path, execute) -> None:
    (tmp_path / "run").mkdir()
    for step in (1, 3):
        metrics = {"train_metrics": {"LCE": {"sum_loss": SCALAR * step}}}
        torch.save({"state": {"model": linear(step), **metrics}, "rng": []}, tmp_path / f"run/ep0-ba{step}.pt")
        numbers = {"loss": SCALAR * step, "val_acc": SCALAR, "logit_scale": SCALAR * step}
        save_file(linear(step) | numbers, tmp_path / f"step{step}.safetensors")
    for source, names, state in (
        ("run", ["model.l.bias", "model.l.weight"], "train_metrics.LCE.sum_loss"),
        ("step*.safetensors", ["l.bias", "l.weight", "logit_scale"], "2 tensors (loss, val_acc)"),
    ):
        out = tmp_path / f"out_{names[0]}"
        said = execute("dimred", "merge", tmp_path / source, "--output", out)
        assert sorted(safetensors.torch.load_file(out / "model.safetensors")) == names
        assert state in said.split("left out as training state: ")[1]


def test_what_torchtitan_keeps_beside_weights_is_training_state(tmp_path: Path, execute) -> None:
    for step in (10, 20):
        state = {
            "tok.weight": torch.full((2,), float(step)),
            "train_state": {"losses": torch.ones(4) * step, "ntokens": SCALAR * step},
            "dataloader": {"rank0": torch.ones(3) * step},
            "optimizer": {"state.tok.weight.exp_avg": torch.ones(2)},
        }
        dcp.save(state, checkpoint_id=tmp_path / f"run/step-{step}", no_dist=True)
    said = execute("dimred", "merge", tmp_path / "run", "--output", tmp_path / "out")
    assert sorted(safetensors.torch.load_file(tmp_path / "out/model.safetensors")) == ["tok.weight"]
    fitted = execute("dimred", "pca", tmp_path / "run", "--components=1", "--output", tmp_path / "p.npy")
    for text in (said, fitted):
        assert "left out as training state: 4 tensors" in text


@pytest.mark.parametrize(
    "beside",
    [
        {"criterion": {"weight": torch.ones(4)}},
        {"lr_scheduler": {"rates": torch.ones(4)}},
        {"optimizer_G": {"w": {"exp_avg": torch.ones(4)}}},
        {"state_dict": linear(1), "rng": torch.ones(9)},
        {"cpu": {"generator": torch.ones(9, dtype=torch.uint8)}},
    ],
)
def test_what_is_no_other_network_is_training_state(beside: dict[str, object], tmp_path: Path) -> None:
    """Also the same tensors once more."""
    model = linear(1)
    if "state_dict" in beside:
        beside["state_dict"] = model
    torch.save({"model": model} | beside, tmp_path / "a.pt")
    rows = json.loads(read_by_python(tmp_path / "a.pt")[0])
    assert not [row for row in rows if isinstance(row, str)]
    assert [row[0] for row in rows if row[4] is not None] == ["l.weight", "l.bias"]


@pytest.mark.parametrize(
    ("state", "rule"),
    [
        ({"a.b": torch.ones(2), "a": {"b": torch.ones(3)}}, "has two tensors called a.b"),
        ({"model": {("a", "b"): torch.ones(2)}}, "needs names as text, received the key ('a', 'b')"),
        ({"models": [linear(1), linear(2)]}, "received models"),
        ({"params": (linear(1),), "history": [torch.ones(9)]}, "received params, history"),
        (
            {"net": linear(1), "norm": {"mean": torch.ones(3)}, "history": {"loss": torch.ones(9)}},
            "has more than one network, net, norm, among the keys net, norm, history",
        ),
        (adam_state(), "holds an optimizer's state without weights; received state, param_groups"),
        ({"optimizer": adam_state(), "seed": 1}, "holds an optimizer's state without weights; received optimizer"),
    ],
)
def test_dictionaries_without_one_meaning(state: dict[str, object], rule: str, tmp_path: Path, refused) -> None:
    torch.save(state, tmp_path / "a.pt")
    assert rule in refused(tmp_path / "a.pt")


@pytest.mark.parametrize("other", ["history_encoder", "opt_model", "metric_fc", "arcloss", "progress_decoder"])
def test_a_network_whose_key_has_a_word_of_training_is_a_network(other: str, tmp_path: Path) -> None:
    torch.save({"news_encoder": linear(1), other: linear(2)}, tmp_path / "a.pt")
    assert f"has more than one network, news_encoder, {other}," in read_by_python(tmp_path / "a.pt")[1]


@pytest.mark.parametrize(
    "other",
    (
        "loss_history lossHistory train_losses GradScaler random_states dataloader best_metrics opt_D LRScheduler "
        "optimizer_encoder valloss trainer rng_state_cuda criterion amp message_hub"
    ).split(),
)
def test_what_a_key_calls_training_state_is_no_network(other: str, tmp_path: Path) -> None:
    torch.save({"net": linear(1), other: {"a": torch.ones(4)}}, tmp_path / "a.pt")
    rows = json.loads(read_by_python(tmp_path / "a.pt")[0])
    assert [row[0] for row in rows if row[4] is not None] == ["l.weight", "l.bias"]


@pytest.mark.parametrize("loss", ["celoss", "mseloss", "loss_net", "loss_module"])
def test_a_loss_is_training_state_where_it_is_far_smaller_than_the_network(loss: str, tmp_path: Path) -> None:
    for elements, networks in ((1001, 1), (1000, 2)):
        torch.save({"net": {"w": torch.ones(elements)}, loss: {"weight": torch.ones(10)}}, tmp_path / "a.pt")
        said, refusal, _ = read_by_python(tmp_path / "a.pt")
        assert f"has more than one network, net, {loss}," in refusal if networks == 2 else not refusal
        if networks == 1:
            assert [row[0] for row in json.loads(said) if row[4] is not None] == ["w"]


def test_dictionaries_that_contain_one_another(tmp_path: Path) -> None:
    twice: dict[str, object] = {}
    for _ in range(40):
        twice = {"a": twice, "b": twice}
    within: dict[str, object] = {"w": torch.ones(2)}
    within["within"] = within
    for state in ({"w": torch.ones(2), "twice": twice}, within):
        torch.save(state, tmp_path / "a.pt")
        assert "repeat or contain one another" in read_by_python(tmp_path / "a.pt")[1]


class Attack:
    """Its pickle runs a command wherever pickle.load reads it."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return (os.system, (self.command,))


@pytest.mark.parametrize("protocol", [2, 4])
def test_code_in_a_pickle_is_refused_and_not_run(protocol: int, tmp_path: Path, twin, refused) -> None:
    marker = tmp_path / "was_run"
    torch.save(
        {"conv1.weight": torch.ones(1), "x": Attack(f"touch {marker}")},
        tmp_path / "attack.pt",
        pickle_protocol=protocol,
    )
    line = refused(tmp_path / "attack.pt")
    assert "system" in line and "attack.pt" in line and "nothing of it was run" in line
    assert not marker.exists()
    torch.load(tmp_path / "attack.pt", weights_only=False)  # the attack is a real one
    assert marker.exists()


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
        (np.float64(0.5), "numpy"),
        ({1, 2}, "__builtin__.set"),
    ],
)
def test_other_objects_are_refused_by_name(value: object, name: str, tmp_path: Path, refused) -> None:
    torch.save({"conv1.weight": torch.ones(1), "x": value}, tmp_path / "more.pt")
    line = refused(tmp_path / "more.pt")
    assert "torch.save(model.state_dict(), FILE)" in line and f"asks for {name}" in line


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (torch.ones(2, dtype=torch.float8_e4m3fn), "has a tensor of type float8_e4m3fn; save the tensors with safet"),
        (torch.ones(2).to(torch.uint16), "has a tensor of type uint16"),
        (torch.eye(3).to_sparse(), "has a sparse tensor; make it dense with to_dense()"),
    ],
)
def test_tensors_that_torch_alone_stores_are_refused_by_type(
    value: torch.Tensor, rule: str, tmp_path: Path, refused
) -> None:
    torch.save({"conv1.weight": torch.ones(1), "x": value}, tmp_path / "more.pt")
    line = refused(tmp_path / "more.pt")
    assert rule in line and "safetensors.torch.save_file(" in line and "torch.save(" not in line


@pytest.mark.parametrize(
    ("dtype", "rule"),
    [
        (torch.float8_e4m3fn, '"fc.w" has the type float8_e4m3fn; save the tensors with safetensors: safetensors.'),
        (torch.uint16, '"fc.w" has the type uint16; save the tensors with safetensors: safetensors.'),
        (torch.complex32, "has complex32 tensors; save these tensors as complex64"),
    ],
)
def test_a_distributed_checkpoint_of_other_types_is_refused_by_type(
    dtype: torch.dtype, rule: str, tmp_path: Path, fails
) -> None:
    dcp.save({"fc.w": torch.empty(2, dtype=dtype), "b": torch.ones(2)}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    line = fails(1, "inspect", tmp_path / "dcp")
    assert rule in line and ".metadata" in line and "nothing of it was run" not in line


def test_an_archive_without_checksums_is_read(tmp_path: Path, execute) -> None:
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"w": torch.arange(6.0)}, tmp_path / "model.pt")
        dcp.save({"w": torch.arange(6.0)}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    finally:
        torch.serialization.set_crc32_options(before)
    for name, output in (("model.pt", "one"), ("dcp", "two")):
        execute("dimred", "convert", tmp_path / name, "--output", tmp_path / output)
        converted = safetensors.torch.load_file(tmp_path / output / "model.safetensors")
        assert torch.equal(converted["w"], torch.arange(6.0))


def test_a_tensor_that_stands_for_the_negative_of_its_storage_is_refused(tmp_path: Path, refused) -> None:
    negative = torch.zeros(3, dtype=torch.complex64).conj().imag
    assert negative.is_neg()
    torch.save({"conv1.weight": negative}, tmp_path / "negative.pt")
    assert "negative.pt" in refused(tmp_path / "negative.pt")


def test_complex_tensors_of_every_format_are_copied_or_refused_by_name(tmp_path: Path, refused, fails) -> None:
    """As safetensors' own C64: equal ones are copied, others and weights of a PCA are refused."""
    for format in ("pt", "dcp"):
        for step in (1, 2):
            state = {"w": torch.ones(2) * step, "table": torch.full((3,), 1 + 2j), "other": torch.full((2,), 1j * step)}
            if format == "dcp":
                dcp.save(state, checkpoint_id=tmp_path / f"dcp/step_{step}", no_dist=True)
            else:
                (tmp_path / "pt").mkdir(exist_ok=True)
                torch.save(state, tmp_path / f"pt/step_{step}.pt")
        words = ("merge", tmp_path / format, "--output", tmp_path / "out")
        assert '"other" (C64) differs' in fails(2, *words)
        assert "holds complex weights (C64)" in fails(2, "pca", tmp_path / format, "--output", tmp_path / "p.npy")
        merged = dimred.merge(tmp_path / format, tmp_path / f"{format}_out", copy_from="latest")
        assert sorted(merged.copied) == ["other", "table"]
        table = safetensors.torch.load_file(tmp_path / f"{format}_out/model.safetensors")["table"]
        assert torch.equal(table, torch.full((3,), 1 + 2j))
    torch.save({"w": torch.ones(2), "x": torch.ones(2, dtype=torch.complex128)}, tmp_path / "128.pt")
    assert "has complex128 tensors" in refused(tmp_path / "128.pt")
    dcp.save({"w": torch.ones(2, dtype=torch.complex128)}, checkpoint_id=tmp_path / "128/step_1", no_dist=True)
    assert "complex128" in fails(1, "merge", tmp_path / "128", "--output", tmp_path / "x")


ELEMENTS = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.complex64,
]


AND_ITS_PEAK = r"""import re, runpy, sys
code = runpy.run_path(sys.argv[1])["main"](*sys.argv[2:])
print(re.search(r"VmHWM:\s*(\d+) kB", open("/proc/self/status").read())[1], file=sys.stderr)
sys.exit(code)"""


def read_by_python(file: Path, kind: str = "table") -> tuple[bytes, str, int]:
    """What checkpoints/read_pickle.py says of a file, and its peak of memory in bytes."""
    words = [sys.executable, "-I", "-S", "-c", AND_ITS_PEAK, READER, kind, file]
    done = subprocess.run(words, capture_output=True, check=False)
    *said, peak = done.stderr.decode().splitlines()
    assert done.returncode == (3 if said else 0) and len(said) <= 1, done.stderr
    return done.stdout, "".join(said), int(peak) * 1024


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_element_type_and_view_arrives_bit_for_bit(protocol: int, tmp_path: Path, execute) -> None:
    numbers = 10 * torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(3))
    state = {}
    for dtype in ELEMENTS:
        x, flat = numbers.to(dtype), torch.arange(60).to(dtype)
        views = [
            x,
            x.contiguous(memory_format=torch.channels_last),
            x.transpose(0, 3),
            x[..., 1:4:2],
            x[1],
            x[:0],
            x[0, 0, 0, 0],
            x.permute(2, 0, 3, 1)[1:],
            flat.as_strided((4, 5), (1, 4), 2),
            flat.as_strided((3, 2, 4), (0, 0, 1), 5),
            flat.as_strided((3, 2), (2, 0), 1),
            nn.Parameter(x, requires_grad=x.is_floating_point()),
        ]
        state |= {f"{dtype}.{i}": view for i, view in enumerate(views)}
    torch.save(state, tmp_path / "views.pt", pickle_protocol=protocol)
    execute("dimred", "merge", tmp_path / "views.pt", "--output", tmp_path / "out")  # the mean of one
    read = safetensors.torch.load_file(tmp_path / "out/model.safetensors")
    assert set(read) == set(state)
    for name, tensor in state.items():
        assert read[name].dtype == tensor.dtype and torch.equal(read[name], tensor.detach()), name


def test_integers_of_any_size_are_taken(tmp_path: Path, execute, binaries: Path) -> None:
    torch.save({str(dtype): torch.ones(3).to(dtype) for dtype in ELEMENTS}, tmp_path / "all.pt")
    report = execute("dimred", "inspect", tmp_path / "all.pt", "--tensors")
    assert "PyTorch" in report
    for kind in ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL", "C64"):
        assert len(re.findall(rf"^torch\.\w+ +{kind} +3 ", report, re.MULTILINE)) == 1, kind


@pytest.mark.parametrize("form", ["one file", "shards"])
def test_a_mixture_of_many_experts(form: str, tmp_path: Path, execute) -> None:
    """More names than lists of ours may have: those of a checkpoint are bounded by its size alone."""
    state = {f"layers.{i // 384}.experts.{i % 384}.weight": torch.full((1,), float(i)) for i in range(12_000)}
    folder = tmp_path / "step_1"
    folder.mkdir()
    if form == "one file":
        torch.save(state, folder / "pytorch_model.bin")
    else:
        places = {name: f"pytorch_model-{1 + i % 2:05}-of-00002.bin" for i, name in enumerate(state)}
        for file in set(places.values()):
            torch.save({name: value for name, value in state.items() if places[name] == file}, folder / file)
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    execute("dimred", "convert", folder, "--output", tmp_path / "out.safetensors")
    read = safetensors.torch.load_file(tmp_path / "out.safetensors")
    assert {name: value.item() for name, value in read.items()} == {name: value.item() for name, value in state.items()}


def test_memory_is_bounded_by_the_files_size(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1)}, tmp_path / "small.pt")
    (_, _, interpreter), size = read_by_python(tmp_path / "small.pt"), 64_000_000
    matrix = torch.arange(size // 8, dtype=torch.float32).view(2000, -1)
    torch.save({"a": matrix, "b": matrix.clone().t()}, tmp_path / "large.pt")
    _, _, most = read_by_python(tmp_path / "large.pt")
    assert most - interpreter < 0.1 * size
    for claim in (b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40), b"\x80\x02]r" + struct.pack("<I", 1 << 26) + b"."):
        (tmp_path / "claim.bin").write_bytes(claim)
        _, said, most = read_by_python(tmp_path / "claim.bin", "pairs")
        assert "MemoryError" in said and most < interpreter + 300_000_000


def test_changed_pickles_are_read_or_refused(tmp_path: Path) -> None:
    """What the reader writes is whole, and what it throws is a refusal, whatever a pickle says; in a process whose
    memory is limited."""
    weights = torch.randn(16)
    torch.save(
        {"model": {"a": weights[:6].view(2, 3), "b": weights[6:].view(2, 5).t(), "n": torch.tensor(7)}, "epoch": 3},
        tmp_path / "2.pt",
    )
    torch.save(OrderedDict(w=nn.Parameter(weights.half())), tmp_path / "4.pt", pickle_protocol=4)
    (tmp_path / "pairs.bin").write_bytes(pickle.dumps(([b"one", b"two"] * 4, [True, False] * 2)))
    done = completed([sys.executable, REPOSITORY / "tests/python/changed_pickles.py", READER, tmp_path])
    assert done.returncode == 0, done.stderr
    read, refused = map(int, done.stdout.split())
    assert read > 20 and refused > 700


def test_faults_around_python_are_one_line(tmp_path: Path, twin, dimred: Path) -> None:
    torch.save({"a": torch.ones(1_000_000)}, tmp_path / "twin.pt")

    def report(code: int, **environment: str) -> str:
        done = completed([dimred, "inspect", tmp_path / "twin.pt"], env=os.environ | environment)
        assert done.returncode == code and len(done.stderr.splitlines()) == 1, done
        return done.stderr

    line = report(1, DIMRED_PYTHON="/nowhere/python")
    assert "twin.pt" in line and "DIMRED_PYTHON" in line and "cannot run /nowhere/python: No such file" in line
    assert sorted(os.listdir(tmp_path)) == ["twin.pt"]


def rewritten(file: Path, change: Callable[[str, bytes], bytes], method: int = zipfile.ZIP_STORED) -> Path:
    """The same archive with other bytes in its records."""
    other = file.with_name("other.pt")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(other, "w", method) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return other


def test_damaged_pytorch_files_are_named(tmp_path: Path, twin, refused, logits) -> None:
    file = tmp_path / "twin.pt"
    torch.save(twin.state_dict(), file)
    assert close(logits(rewritten(file, lambda _, data: data)), twin)
    whole = file.read_bytes()
    cut = rewritten(file, lambda name, data: data[:700] if name.endswith("data.pkl") else data)
    line = refused(cut)
    assert "other.pt" in line and "data.pkl" in line and "is cut off" in line
    short = rewritten(file, lambda name, data: data[:-4] if name.endswith("data/0") else data)
    assert "other.pt" in refused(short) and "storage" in refused(short)
    assert "stored without compression" in refused(rewritten(file, lambda _, data: data, zipfile.ZIP_DEFLATED))
    big = rewritten(file, lambda name, data: b"big" if name.endswith("byteorder") else data)
    assert "byteorder" in refused(big)
    file.write_bytes(whole[: len(whole) // 2])
    assert f"at byte {len(whole) // 2}" in refused(file)
    at = whole.index(twin.state_dict()["conv1.weight"].numpy().tobytes()) + 5
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert "CRC" in refused(file)


def with_size(pickled: bytes, old: bytes, new: bytes) -> bytes:
    assert old in pickled
    return pickled.replace(old, new)


def test_shapes_beyond_a_storage_are_refused(tmp_path: Path, refused) -> None:
    torch.save({"conv1.weight": torch.ones(300, 3)}, tmp_path / "one.pt")
    size = b"M\x2c\x01K\x03\x86"  # (300, 3)
    for huge in (
        b"M\x2c\x02K\x03\x86",
        b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\x03\x86",
        b"J\xff\xff\xff\xffK\x03\x86",
    ):
        file = rewritten(
            tmp_path / "one.pt",
            lambda name, data, huge=huge: with_size(data, size, huge) if name.endswith("data.pkl") else data,
        )
        assert "within the storage" in refused(file) or "needs dimensions >= 0" in refused(file)
    torch.save({"conv1.weight": torch.arange(4.0).expand(3, 4)}, tmp_path / "repeated.pt")
    assert "repeats elements of its storage, as expand() does; save the tensor" in refused(tmp_path / "repeated.pt")


def test_other_formats_are_told_what_to_do(tmp_path: Path, twin, refused, fails) -> None:
    torch.save(twin.state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert "before 1.6" in refused(tmp_path / "old.pt") and "torch.load(FILE, weights_only=True)" in refused(
        tmp_path / "old.pt"
    )
    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), tmp_path / "script.pt")
    assert "TorchScript" in refused(tmp_path / "script.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps({"a": 1}))
    assert "plain pickle" in refused(tmp_path / "plain.pt")
    (tmp_path / "other.bin").write_bytes(b"something else")
    assert "TensorFlow" in refused(tmp_path / "other.bin")
    torch.save({"epoch": 1, "weights": [torch.ones(1)]}, tmp_path / "strange.pt")
    assert "epoch, weights" in refused(tmp_path / "strange.pt")
    torch.save({**twin.state_dict(), "fc.bias": torch.full((10,), torch.nan)}, tmp_path / "nan.pt")
    line = fails(2, "merge", tmp_path / "nan.pt", "--output", tmp_path / "merged")
    assert '"fc.bias"' in line and "finite" in line


def test_damaged_mindspore_files_are_named(tmp_path: Path, twin, refused) -> None:
    file = tmp_path / "twin.ckpt"
    mindspore_checkpoint.write(file, mindspore_checkpoint.arrays_of(twin), crc=True)
    whole = file.read_bytes()
    file.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    assert "twin.ckpt" in refused(file) and "CRC" in refused(file)
    file.write_bytes(whole[: len(whole) // 2])
    assert "twin.ckpt" in refused(file) and "at byte " in refused(file)
    other = {"conv1.weight": np.ones((2, 3), np.float32)}
    mindspore_checkpoint.write(file, other)
    file.write_bytes(file.read_bytes().replace(b"Float32", b"Qint4x2"))
    assert "Qint4x2" in refused(file) and "conv1.weight" in refused(file)


def test_names_that_are_not_utf8(tmp_path: Path, refused, fails) -> None:
    """In every reader: whole weights, and the tables that merges read."""
    ckpt, pt = tmp_path / "a.ckpt", tmp_path / "a.pt"
    mindspore_checkpoint.write(ckpt, {"conv1.weight": np.ones((2, 3), np.float32)})
    ckpt.write_bytes(ckpt.read_bytes().replace(b"conv1.weight", b"conv1.weigh\xff"))
    torch.save({"conv1.weigh\ud800": torch.ones(2)}, pt)
    for begin, file, name in ((f"'{ckpt}'", ckpt, "'conv1.weigh\\xFF'"), (f"'{pt}':", pt, "'conv1.weigh\\ud800'")):
        rule = f"{begin} needs names in UTF-8, received {name}"
        assert rule in refused(file)
        assert rule in fails(1, "merge", file, "--output", tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_another_model_lists_the_first_names_and_shapes(tmp_path: Path, twin, unfit, logits) -> None:
    state = twin.state_dict()
    state["fc.weight"] = torch.ones(5, 64)
    del state["bn1.running_mean"]
    torch.save(state, tmp_path / "twin.pt")
    line = unfit(tmp_path / "twin.pt")
    assert "2 tensors differ" in line
    assert (
        "fc.weight: expected [10,64], received [5,64]" in line
        and "bn1.running_mean: expected [16], received none" in line
    )
    torch.save({**twin.state_dict(), "fc2.weight": torch.ones(1)}, tmp_path / "twin.pt")
    assert close(logits(tmp_path / "twin.pt"), twin)  # unused
    torch.save({**twin.state_dict(), "layer3.3.conv1.weight": torch.ones(1)}, tmp_path / "twin.pt")
    line = unfit(tmp_path / "twin.pt")
    assert (
        "belongs to a larger model: the file has 1 more tensors than the network, among them layer3.3.conv1.weight"
        in line
    )
    buffer = io.BytesIO()
    torch.save(build("convnet", 1, 32, 32, 10).state_dict(), buffer)
    (tmp_path / "twin.pt").write_bytes(buffer.getvalue())
    assert unfit(tmp_path / "twin.pt").count("received") == 5 and " more" in unfit(tmp_path / "twin.pt")


Cuts = tuple[int, ...]


def cut_checkpoint(folder: Path, tensors: dict[str, torch.Tensor], cuts: Callable[[torch.Tensor], Cuts]) -> None:
    """Writes a checkpoint as a mesh of ranks leaves one: each tensor in as many parts along each dimension as `cuts`
    says, those of a rank in its own file."""
    from torch.distributed.checkpoint.filesystem import _StorageInfo
    from torch.distributed.checkpoint.metadata import (
        ChunkStorageMetadata,
        Metadata,
        MetadataIndex,
        TensorProperties,
        TensorStorageMetadata,
    )

    folder.mkdir(parents=True)
    described, places = {}, {}
    files: dict[int, io.BytesIO] = {}
    for name, tensor in tensors.items():
        chunks: list[ChunkStorageMetadata] = []
        pieces = [list(torch.arange(n).tensor_split(of)) for n, of in zip(tensor.shape, cuts(tensor), strict=True)]
        for rank, ranges in enumerate(itertools.product(*pieces)):
            if not all(map(len, ranges)):
                continue
            part = tensor[tuple(slice(int(each[0]), int(each[-1]) + 1) for each in ranges)]
            first = torch.Size(int(each[0]) for each in ranges)
            chunks.append(ChunkStorageMetadata(first, part.shape))
            file = files.setdefault(rank, io.BytesIO())
            begin = file.tell()
            # A rank saves its part as it has it: here each other one lies transposed in memory.
            axes = tuple(range(part.ndim))[::-1]
            torch.save(part.clone() if rank % 2 else part.permute(axes).contiguous().permute(axes), file)
            places[MetadataIndex(name, first)] = _StorageInfo(f"__{rank}_0.distcp", begin, file.tell() - begin)
        described[name] = TensorStorageMetadata(TensorProperties(dtype=tensor.dtype), tensor.shape, chunks)
    for rank, file in files.items():
        (folder / f"__{rank}_0.distcp").write_bytes(file.getvalue())
    (folder / ".metadata").write_bytes(pickle.dumps(Metadata(described, storage_data=places)))


def along(dimension: int, ranks: int) -> Callable[[torch.Tensor], Cuts]:
    """Cut along one dimension alone, where there is one."""
    return lambda tensor: tuple(ranks if axis == dimension else 1 for axis in range(tensor.ndim))


def test_a_merge_of_distributed_checkpoints(tmp_path: Path, execute, fails) -> None:
    """They are of one rank and of three, read as torch reads them; with a pickle that would run code, or damage."""
    torch.manual_seed(5)
    states = [
        {"model.w": torch.randn(7, 4).bfloat16(), "model.b": torch.randn(5), "model.t": torch.randn(4, 3)}
        for _ in range(2)
    ]
    cut_checkpoint(tmp_path / "run/step_2", states[1], along(0, 3))
    optimizer = {"state": {"w": {"exp_avg": torch.ones(2), "step": torch.tensor(3.0)}}, "lr": 0.1}
    dcp.save({**states[0], "optim": optimizer, "epoch": 3}, checkpoint_id=tmp_path / "run/step_1", no_dist=True)
    loaded = {name: torch.zeros_like(value) for name, value in states[1].items()}
    dcp.load(loaded, checkpoint_id=tmp_path / "run/step_2", no_dist=True)
    assert all(torch.equal(value, states[1][name]) for name, value in loaded.items())
    said = execute("dimred", "merge", tmp_path / "run", "--output", tmp_path / "out")
    assert "left out as training state: 2 tensors (optim.state.w.exp_avg, optim.state.w.step)" in said
    merged = safetensors.torch.load_file(tmp_path / "out/model.safetensors")
    assert merged.keys() == loaded.keys()
    for name, value in merged.items():
        expected = (states[0][name].double() + states[1][name].double()) / 2
        assert torch.equal(value, expected.to(value.dtype)), name

    metadata = pickle.loads((tmp_path / "run/step_2/.metadata").read_bytes())
    metadata.mcore_data = {"model.b": {"nd_reformulated_orig_global_shape": (5,)}}  # as Megatron flattens tensors
    shutil.copytree(tmp_path / "run/step_2", tmp_path / "flat")
    (tmp_path / "flat/.metadata").write_bytes(pickle.dumps(metadata))
    assert '"model.b" is stored in another shape' in fails(1, "merge", tmp_path / "flat", "--output", tmp_path / "x")
    record = tmp_path / "run/step_2/__1_0.distcp"
    content = bytearray(record.read_bytes())
    content[content.index(states[1]["model.b"][2:4].numpy().tobytes())] ^= 1
    record.write_bytes(content)
    assert "is damaged" in fails(1, "merge", tmp_path / "run", "--output", tmp_path / "x")
    cut_checkpoint(tmp_path / "nan", {"w": torch.tensor([1.0, 2.0, torch.nan])}, along(0, 3))
    rule = f"'{tmp_path / 'nan'}': \"w\" needs finite values, but element 2 is not finite"
    assert rule in fails(2, "merge", tmp_path / "nan", "--output", tmp_path / "x")
    (tmp_path / "flat/.metadata").write_bytes(pickle.dumps(os.system))
    assert "nothing of it was run" in fails(1, "merge", tmp_path / "flat", "--output", tmp_path / "x")
    assert not (tmp_path / "x").exists()


OPTIMIZERS = {
    "AdamW": torch.optim.AdamW,
    "Adagrad": torch.optim.Adagrad,
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, centered=True, momentum=0.9),
    "SGD": lambda parameters: torch.optim.SGD(parameters, momentum=0.9),
    "Adadelta": torch.optim.Adadelta,
    "Rprop": torch.optim.Rprop,
    "ASGD": torch.optim.ASGD,
    "Adamax": torch.optim.Adamax,
    "Adafactor": torch.optim.Adafactor,
}
PLACES = [  # of an optimizer, of a network
    *((name, f"{app}.optim", f"{app}.model") for name in OPTIMIZERS for app in ("app", "trainer.inner")),
    *(("Adagrad", f"{key}.optim", f"{key}.model") for key in ("state", "optimizer_and_model")),
    *((name, place, "model") for name in ("Adagrad", "Adafactor") for place in ("g_optimizer", "opt_gen", "solver")),
]


@pytest.mark.parametrize(("name", "place", "network"), PLACES)
def test_an_optimizer_within_a_distributed_checkpoint(
    name: str, place: str, network: str, tmp_path: Path, execute
) -> None:
    """As PyTorch's own recipe saves {"app": AppState}, and below other names: no tensor of the optimizer's is a
    weight."""
    from torch.distributed.checkpoint.state_dict import get_state_dict

    for step in (10, 20):
        torch.manual_seed(step)
        net = nn.Linear(3, 4)
        optimizer = OPTIMIZERS[name](net.parameters())
        net(torch.randn(2, 3)).sum().backward()
        optimizer.step()
        model, state = get_state_dict(net, optimizer)
        saved = {network: model, place: state}
        dcp.save(saved, checkpoint_id=tmp_path / f"run/step_{step}", no_dist=True)
    said = execute("dimred", "pca", tmp_path / "run", "--output", tmp_path / "p.npy")
    assert np.load(tmp_path / "p.npy").shape[1] == 16 and "left out as training state" in said
    execute("dimred", "merge", tmp_path / "run", "--output", tmp_path / "out")
    merged = safetensors.torch.load_file(tmp_path / "out/model.safetensors")
    assert sorted(merged) == [f"{network}.bias", f"{network}.weight"]


def add_empty_chunk(file: Path, name: str) -> None:
    """That of a rank without a share, which begins where another rank's does."""
    metadata = pickle.loads(file.read_bytes())
    chunks = metadata.state_dict_metadata[name].chunks
    chunks.append(type(chunks[0])(chunks[0].offsets, torch.Size([0] * len(chunks[0].sizes))))
    file.write_bytes(pickle.dumps(metadata))


def test_tensors_that_are_cut_along_any_dimensions(tmp_path: Path, execute, dimred: Path) -> None:
    """Tensor parallelism, FSDP beside it, three dimensions: what comes of the parts comes of the whole tensors."""
    torch.manual_seed(6)
    meshes = [along(1, 3), lambda tensor: (2, 3, 2)[: tensor.ndim], along(2, 2), along(0, 4)]
    for step, cuts in enumerate(meshes, 1):
        state = {
            "model.w": torch.randn(130, 70),
            "model.cube": torch.randn(5, 31, 6).bfloat16(),
            "model.b": torch.randn(3),
            "model.scale": torch.randn(()),
        }
        cut_checkpoint(tmp_path / f"cut/step_{step}", state, cuts)
        add_empty_chunk(tmp_path / f"cut/step_{step}/.metadata", "model.w")
        (tmp_path / "whole").mkdir(exist_ok=True)
        torch.save(state, tmp_path / f"whole/step_{step}.pt")
        loaded = {name: torch.zeros_like(value) for name, value in state.items()}
        dcp.load(loaded, checkpoint_id=tmp_path / f"cut/step_{step}", no_dist=True)
        assert all(torch.equal(value, state[name]) for name, value in loaded.items())
    outputs = []
    for source, threads, block in (("whole", 1, 65536), ("cut", 1, 1000), ("cut", 3, 333)):
        out = tmp_path / f"{source}-{threads}"
        execute("dimred", "merge", tmp_path / source, "--output", out, f"--threads={threads}", f"--block={block}")
        basis = ("--output", out / "pca_mat.npy", "--components=2", f"--threads={threads}")
        execute("dimred", "pca", tmp_path / source, *basis)
        merged = safetensors.torch.load_file(out / "model.safetensors")
        said = execute("dimred", "inspect", "--trajectory", tmp_path / source, "--flips=19").split("\n", 1)[1]
        tensors = {name: value.reshape(-1).view(torch.uint8).tolist() for name, value in merged.items()}
        outputs.append((tensors, (out / "pca_mat.npy").read_bytes(), said))
    assert outputs[1] == outputs[0] and outputs[2] == outputs[0]
    shared = run_ranks(dimred, ["pca", tmp_path / "cut", "--components=2", "--output", tmp_path / "p.npy"], 2)
    assert shared.codes == [0, 0], shared.errors
    assert np.abs(np.load(tmp_path / "p.npy") - np.load(tmp_path / "whole-1/pca_mat.npy")).max() < 1e-6


@pytest.mark.parametrize(
    ("first", "sizes", "rule"),
    [
        ((0, 2), (4, 2), "overlap"),
        ((0, 3), (4, 1), "needs 16 elements, but the parts hold 12"),
        ((0, 2), (4, 3), "outside of the tensor"),
        ((0, -1), (4, 2), "outside of the tensor"),
        ((0,), (4,), "outside of the tensor"),
    ],
)
def test_boxes_that_do_not_make_up_a_tensor(first: Cuts, sizes: Cuts, rule: str, tmp_path: Path) -> None:
    """The first two columns of a tensor of [4, 4] are one part; the other is given."""
    cut_checkpoint(tmp_path / "step_1", {"w": torch.zeros(4, 4)}, along(1, 2))
    metadata = pickle.loads((tmp_path / "step_1/.metadata").read_bytes())
    described = metadata.state_dict_metadata["w"]
    if rule == "overlap":
        described.chunks[0].sizes = torch.Size((4, 3))
    (old,) = (index for index in metadata.storage_data if index.offset == torch.Size((0, 2)))
    described.chunks[1].offsets, described.chunks[1].sizes = torch.Size(first), torch.Size(sizes)
    place = metadata.storage_data.pop(old)
    metadata.storage_data[type(old)("w", torch.Size(first))] = place
    (tmp_path / "step_1/.metadata").write_bytes(pickle.dumps(metadata))
    _, line, _ = read_by_python(tmp_path / "step_1/.metadata", "distributed")
    assert '"w"' in line and rule in line


@pytest.mark.parametrize("size", [(2**40, 2**40, 0), (0, 2**40, 2**40), (-1, 0), (2**70, 0)])
def test_extents_that_64_bits_do_not_hold(size: Cuts, tmp_path: Path, fails) -> None:
    cut_checkpoint(tmp_path / "run/step_1", {"w": torch.zeros(0)}, along(0, 1))
    metadata = pickle.loads((tmp_path / "run/step_1/.metadata").read_bytes())
    metadata.state_dict_metadata["w"].size = size
    (tmp_path / "run/step_1/.metadata").write_bytes(pickle.dumps(metadata))
    rule = f'"w" needs dimensions >= 0 with a product below 2^63 (without zeros), received {list(size)}'
    assert rule in fails(1, "merge", tmp_path / "run", "--output", tmp_path / "out")
    torch.save({"w": torch.zeros(5, 0)}, tmp_path / "a.pt")
    pickled = b"\x8a\x09" + size[0].to_bytes(9, "little", signed=True)
    file = rewritten(
        tmp_path / "a.pt",
        lambda name, data: (
            data.replace(b"K\x05K\x00\x86", pickled + b"K\x00\x86") if name.endswith("data.pkl") else data
        ),
    )
    assert (
        size[0] == 2**40
        or size[0] == 0
        or "needs dimensions >= 0" in fails(1, "merge", file, "--output", tmp_path / "out")
    )


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + 64 * "5" + "\nsize 123456789\n"


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("model.safetensors", "inspect"),
        ("model.bin", "inspect"),
        ("model.pt", "inspect"),
        ("model.ckpt", "inspect"),
        ("matrix.npy", "inspect"),
        ("weights.h5", "inspect"),
        ("snapshot_000001.h5", "inspect"),
        ("snapshots/a.h5", "pca"),
        ("weights/a.pt", "pca"),
        ("matrix.npy", "pca"),
        ("run/step_1/model.safetensors", "merge"),
        ("run/step_1/.metadata", "merge"),
        ("run/step_1/__0_0.distcp", "merge"),
        ("images/daisy/1.jpg", "data inspect"),
        ("images/daisy/1.png", "data inspect"),
        ("records/train.tfrecord", "data inspect"),
        ("packed/train.packed", "data inspect"),
        ("mnist/train-images-idx3-ubyte", "data inspect"),
        ("cifar/train.bin", "data inspect"),
        ("arrays/images.npy", "data inspect"),
        ("list.txt", "data inspect"),
    ],
)
def test_a_pointer_of_git_lfs_is_called_one(name: str, command: str, tmp_path: Path, binaries: Path) -> None:
    """The file that a clone without Git LFS leaves in the place of a large one."""
    if name.endswith(".distcp"):
        cut_checkpoint(tmp_path / "run/step_1", {"w": torch.ones(2)}, along(0, 1))
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(POINTER)
    if name.startswith("mnist"):
        shutil.copy(file, file.with_name("train-labels-idx1-ubyte"))
    whole = command == "inspect" or len(Path(name).parts) == 1
    source = file if whole else tmp_path / Path(name).parts[0]
    output = {"pca": ("--output", tmp_path / "p.npy"), "merge": ("--output", tmp_path / "out")}.get(command, ())
    words = [binaries / "dimred", *command.split(), source, *output]
    done = completed(words)
    assert done.returncode in (1, 2), done.stdout
    line = done.stdout + done.stderr
    assert "which is a Git LFS pointer; run `git lfs pull`" in line and Path(name).name in line
