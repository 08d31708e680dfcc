"""scripts/slim_checkpoint.sh: TF-Slim's ResNet v1 checkpoints, and the network that takes their weights."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import slim_checkpoint
import torch
from cli import completed
from conftest import REPOSITORY
from safetensors.torch import load_file
from slim_checkpoint import Refused, variables
from torch import nn
from torchvision import models

sys.path.insert(0, str(REPOSITORY / "lib" / "models"))
import library

PYTHON = REPOSITORY / ".venv-tensorflow" / "bin" / "python"
IGNORED = {
    "global_step": [],
    "resnet_v1_50/mean_rgb": [3],
    "resnet_v1_50/conv1/weights/Momentum": [7, 7, 3, 64],
    "beta1_power": [],
}


class Checkpoint:
    """A checkpoint as tf.train.load_checkpoint gives one: every value is another, drawn from the variable's name."""

    def __init__(self, network: str = "resnet_v1_50", classes: int = 1001) -> None:
        self.shapes: dict[str, list[int]] = {
            name: list(shape) for name, shape in variables(network, classes).items()
        } | IGNORED
        self.values: dict[str, np.ndarray] = {}

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        return self.shapes

    def get_tensor(self, name: str) -> np.ndarray:
        if name in self.values:
            return self.values[name]
        assert name not in IGNORED, name
        random = np.random.default_rng(list(name.encode()))
        return random.standard_normal(self.shapes[name], np.float32)


def network(name: str, classes: int) -> nn.Module:
    with torch.device("meta"):
        return library.built(f"slim:{name}", classes, 3)[0]


def test_both_tables_have_the_same_networks() -> None:
    assert library.SLIM == slim_checkpoint.UNITS


@pytest.mark.parametrize("name", library.SLIM)
def test_each_parameter_and_buffer_is_one_variable(name: str) -> None:
    """And the counters, which TF-Slim has not."""
    expected = {
        key: tuple(value.shape)
        for key, value in network(name, 1001).state_dict().items()
        if not key.endswith("num_batches_tracked")
    }
    named = [(slim_checkpoint.our_name(variable), shape) for variable, shape in variables(name, 1001).items()]
    assert Counter(key for key, _ in named) == Counter(expected.keys())
    for key, shape in named:
        assert expected[key] == (tuple(shape[i] for i in (3, 2, 0, 1)) if len(shape) == 4 else shape), key


@pytest.fixture(scope="module")
def converted() -> tuple[Checkpoint, dict[str, np.ndarray]]:
    checkpoint = Checkpoint()
    name, tensors, others = slim_checkpoint.converted(checkpoint, "net.ckpt")
    assert name == "resnet_v1_50" and others == sorted(IGNORED)
    return checkpoint, tensors


def test_kernels_are_turned_and_parts_are_renamed(converted) -> None:
    checkpoint, tensors = converted
    unit = "resnet_v1_50/block2/unit_1/bottleneck_v1"
    theirs, ours = checkpoint.get_tensor(f"{unit}/conv2/weights"), tensors["block2.unit_1.conv2.weight"]
    assert ours.flags["C_CONTIGUOUS"] and all(
        ours[o, i, h, w] == theirs[h, w, i, o] for o, i, h, w in ((0, 0, 0, 1), (5, 3, 2, 0), (127, 126, 1, 2))
    )
    for part, name in (
        ("gamma", "weight"),
        ("beta", "bias"),
        ("moving_mean", "running_mean"),
        ("moving_variance", "running_var"),
    ):
        assert np.array_equal(
            tensors[f"block2.unit_1.shortcut.BatchNorm.{name}"],
            checkpoint.get_tensor(f"{unit}/shortcut/BatchNorm/{part}"),
        )
    assert np.array_equal(tensors["logits.bias"], checkpoint.get_tensor("resnet_v1_50/logits/biases"))
    assert network("resnet_v1_50", 1001).load_state_dict(
        {name: torch.from_numpy(values) for name, values in tensors.items()}, assign=True
    )


def theirs_of(name: str) -> str:
    """The name in torchvision's resnet50 of what slim:resnet_v1_50 calls `name`."""
    name = re.sub(r"block(\d)\.unit_(\d+)", lambda found: f"layer{found[1]}.{int(found[2]) - 1}", name).replace(
        "logits", "fc"
    )
    name = name.replace("shortcut.BatchNorm", "downsample.1").replace("shortcut", "downsample.0")
    return re.sub(r"conv(\d)\.BatchNorm", r"bn\1", name)


@pytest.mark.parametrize("side", [65, 64])
def test_its_strides_are_those_of_the_first_resnet(side: int) -> None:
    """A stride of TF-Slim's last unit acts as one in the next block's first 1x1 convolution; torchvision has it in the
    3x3 convolution."""
    torch.manual_seed(3)
    ours = library.built("slim:resnet_v1_50", 10, 3)[0].eval()
    theirs = models.resnet50(num_classes=10).eval()
    for layer in (theirs.layer2, theirs.layer3, theirs.layer4):
        layer[0].conv1.stride, layer[0].conv2.stride = (2, 2), (1, 1)
    if side == 64:  # SAME pads even sides behind
        theirs.maxpool = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.MaxPool2d(3, 2))
    state = {theirs_of(name): value for name, value in ours.state_dict().items()}
    theirs.load_state_dict(state | {"fc.weight": state["fc.weight"].flatten(1)})
    images = torch.randn(2, 3, side, side)
    with torch.no_grad():
        torch.testing.assert_close(torch.jit.script(ours)(images), theirs(images), rtol=1e-4, atol=1e-4)


def test_fixed_statistics_stay_in_training() -> None:
    state = (usual := library.built("slim:resnet_v1_50", 3, 3)[0].eval()).state_dict()
    fixed = library.built("slim:resnet_v1_50_fixed", 3, 3)[0].train()
    fixed.load_state_dict(state)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(fixed(images), usual(images))
    assert all(torch.equal(value, state[name]) for name, value in fixed.state_dict().items())


CONV1 = "resnet_v1_50/conv1/weights"


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        (lambda c: c.shapes.clear(), 2, "needs the variables of one of TF-Slim's resnet_v1_50, .*, received nothing"),
        (
            lambda c: c.shapes.update({"resnet_v1_101/logits/biases": [3]}),
            2,
            "received resnet_v1_101 and resnet_v1_50$",
        ),
        (
            lambda c: c.shapes.pop("resnet_v1_50/block3/unit_6/bottleneck_v1/conv1/weights"),
            2,
            "is not TF-Slim's resnet_v1_50: the variable resnet_v1_50/block3/unit_6/bottleneck_v1/conv1/weights is "
            "missing",
        ),
        (
            lambda c: c.shapes.update({CONV1: [3, 3, 3, 64]}),
            2,
            rf"{CONV1} needs the shape \[7, 7, 3, 64\], received \[3, 3, 3, 64\]",
        ),
        (lambda c: c.shapes.pop("resnet_v1_50/logits/weights"), 2, "variable resnet_v1_50/logits/weights is missing"),
        (
            lambda c: c.shapes.update({"resnet_v1_50/logits/weights": []}),
            2,
            r"logits/weights needs the shape \[1, 1, 2048, 0\], received \[\]",
        ),
        (
            lambda c: c.shapes.update({"resnet_v1_50/block1/unit_4/x": []}),
            2,
            "resnet_v1_50, which has no variable resnet_v1_50/block1/unit_4/x",
        ),
        (
            lambda c: c.values.update({CONV1: np.full((7, 7, 3, 64), np.nan, np.float32)}),
            1,
            f"{CONV1} has 9408 values that are not finite",
        ),
        (
            lambda c: c.values.update({CONV1: np.full((7, 7, 3, 64), 1e300)}),
            1,
            f"{CONV1} has 9408 values that are not finite",
        ),
        (
            lambda c: c.values.update({CONV1: np.zeros((7, 7, 3, 64), np.int32)}),
            2,
            f"{CONV1} needs floating-point values, received int32",
        ),
    ],
)
def test_another_checkpoint_is_refused(change, code: int, text: str) -> None:
    checkpoint = Checkpoint()
    change(checkpoint)
    with pytest.raises(Refused, match=f"^net.ckpt: .*{text}") as refused:
        slim_checkpoint.converted(checkpoint, "net.ckpt")
    assert refused.value.code == code


def test_a_checkpoint_of_another_network_is_named() -> None:
    with pytest.raises(Refused, match="received vgg_16/conv1/weights, which belongs to none of these networks"):
        slim_checkpoint.network_of(["vgg_16/fc8/weights", "vgg_16/conv1/weights"], "net.ckpt")


def test_mistakes_end_before_tensorflow_is_asked(tmp_path: Path, capsys) -> None:
    (tmp_path / "half.ckpt.index").touch()
    (tmp_path / "there.safetensors").touch()
    out = str(tmp_path / "out.safetensors")
    for words, code, text in (
        (
            ["none.ckpt", out],
            2,
            "none.ckpt: the checkpoint does not exist, neither as one file nor as none.ckpt.index and none.ckpt.data-*",
        ),
        ([str(tmp_path / "half.ckpt"), out], 1, "half.ckpt: half.ckpt.index exists, but half.ckpt.data-* does not"),
        (
            [str(tmp_path / "half.ckpt.index"), out],
            1,
            "half.ckpt: half.ckpt.index exists, but half.ckpt.data-* does not",
        ),
        ([str(tmp_path / "half.ckpt"), str(tmp_path / "out.pt")], 2, "out.pt: needs a name that ends in .safetensors"),
        ([str(tmp_path / "half.ckpt"), str(tmp_path / "there.safetensors")], 2, "there.safetensors exists already"),
        ([out], 2, "needs CKPT OUT.safetensors, received 1 words"),
    ):
        assert slim_checkpoint.main(words) == code
        error = capsys.readouterr().err
        assert text in error and len(error.splitlines()) == 1, error
    assert {file.name for file in tmp_path.iterdir()} == {"half.ckpt.index", "there.safetensors"}


def test_what_is_written_is_whole_or_not_there(tmp_path: Path, monkeypatch) -> None:
    values = {"a": np.arange(6, dtype=np.float32).reshape(2, 3)}
    slim_checkpoint.write(values, {"format": "pt"}, tmp_path / "a.safetensors")
    assert torch.equal(load_file(tmp_path / "a.safetensors")["a"], torch.from_numpy(values["a"]))

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        slim_checkpoint.write(values, {"format": "pt"}, tmp_path / "b.safetensors")
    assert [file.name for file in tmp_path.iterdir()] == ["a.safetensors"]


# With TensorFlow.


needs_tensorflow = pytest.mark.skipif(
    not PYTHON.exists(), reason="needs .venv-tensorflow: scripts/slim_checkpoint.sh --setup makes it"
)


def convert(*words: object) -> subprocess.CompletedProcess[str]:
    return completed([REPOSITORY / "scripts" / "slim_checkpoint.sh", *words])


@pytest.fixture(scope="module")
def slims(tmp_path_factory) -> Path:
    """Checkpoints of TF-Slim's network by TensorFlow, and its logits."""
    folder = tmp_path_factory.mktemp("slim")
    subprocess.run(
        [PYTHON, REPOSITORY / "tests/reference/slim_resnet.py", folder, "resnet_v1_50", "1001"],
        check=True,
        timeout=300,
        capture_output=True,
    )
    return folder


@needs_tensorflow
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_logits_are_those_of_tensorflow(version: str, slims: Path) -> None:
    done = convert(slims / f"{version}.ckpt", slims / f"{version}.safetensors")
    assert done.returncode == 0 and "25559081 parameters, 1001 classes; skipped: 3 variables" in done.stdout, (
        done.stderr
    )
    network = library.built("slim:resnet_v1_50", 1001, 3)[0].eval()
    network.load_state_dict(load_file(slims / f"{version}.safetensors"))
    for number in (0, 1):  # odd and even sides
        theirs = np.load(slims / f"logits_{number}.npy")
        with torch.no_grad():
            ours = network(torch.from_numpy(np.load(slims / f"images_{number}.npy")).permute(0, 3, 1, 2)).numpy()
        assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()


@needs_tensorflow
def test_a_damaged_checkpoint_leaves_nothing(slims: Path, tmp_path: Path) -> None:
    for name in ("v1.ckpt", "v2.ckpt.index", "v2.ckpt.data-00000-of-00001"):
        (tmp_path / name).write_bytes((slims / name).read_bytes()[: 100_000 if "data" in name else None])
    (tmp_path / "v1.ckpt").write_bytes(b"not a checkpoint")
    for name in ("v1.ckpt", "v2.ckpt"):
        done = convert(tmp_path / name, tmp_path / "out.safetensors")
        assert (
            done.returncode == 1
            and f"{name}: TensorFlow cannot read the file: " in done.stderr
            and len(done.stderr.splitlines()) == 1
        ), done.stderr
    assert not list(tmp_path.glob("*.safetensors")) and not list(tmp_path.glob(".dimred-*"))
