"""The C++ models against their PyTorch twins: names, order, shapes and logits."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from dimred_twins import NAMES, build
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

CLASSES = 10
SIZES = [(name, channels, height) for name in ("convnet", "resnet20") for channels, height in ((1, 28), (3, 32))] + [
    ("lenet", 1, 28),
    ("preresnet164", 3, 16),
    ("wrn28_10", 3, 8),
    ("alexnet", 3, 63),
    ("vgg11", 1, 32),
    ("vgg11_bn", 1, 32),
    ("resnet18", 1, 32),
    ("resnet50", 3, 32),
    ("resnet_v2_50", 3, 32),
    ("mobilenet_v2", 3, 32),
    ("inception_v3", 3, 299),
    ("inception_resnet_v2", 3, 75),
    ("vgg16_flatten", 1, 64),
]
DEEP = "vgg16 vgg16_bn vgg19 vgg19_bn resnet32 resnet56 resnet110 resnet34 resnet101 resnet152".split()
BATCH = 4  # of the larger ones


def randomised_twin(name: str, channels: int, height: int) -> nn.Module:
    """A twin with every weight, bias and BatchNorm buffer away from its initial value."""
    torch.manual_seed(channels * 100 + height)
    model = build(name, channels, height, height, CLASSES)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
            nn.init.normal_(module.running_mean, std=0.3)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            module.num_batches_tracked.fill_(7)
        if isinstance(module, nn.Dropout):
            module.p = 0  # as in the C++ tool: masks cannot be compared
    return model


def logits(model: nn.Module, images: torch.Tensor, mode: str) -> np.ndarray:
    """Logits [batch, classes] in mode `train` (batch statistics) or `eval`."""
    model.train(mode == "train")
    with torch.no_grad():
        return model(images).numpy()


def asked(
    execute, twin: nn.Module, name: str, images: torch.Tensor, modes: list[str], folder: Path
) -> dict[str, np.ndarray]:
    """What the C++ network with the twin's weights says, by mode."""
    save_file({key: value.contiguous() for key, value in twin.state_dict().items()}, folder / "twin.safetensors")
    np.save(folder / "input.npy", images.numpy())
    execute(
        "model_logits",
        name,
        images.shape[1],
        images.shape[2],
        CLASSES,
        folder / "twin.safetensors",
        folder / "input.npy",
        folder,
        *modes,
    )
    (folder / "twin.safetensors").unlink()
    return {mode: np.load(folder / f"{mode}.npy") for mode in modes}


@dataclass(frozen=True)
class Pair:
    """A twin, images for it, and what the C++ network with its weights says."""

    name: str
    twin: nn.Module
    images: torch.Tensor
    received: dict[str, np.ndarray]


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: "-".join(map(str, size)))
def pair(request, tmp_path_factory, execute) -> Pair:
    name, channels, height = request.param
    twin = randomised_twin(name, channels, height)
    count = 16 if name in ("convnet", "resnet20") else 2 if height == 299 else BATCH
    images = torch.randn(count, channels, height, height)
    modes = ["eval", "train", *([] if name == "inception_v3" else ["gradient"])]
    return Pair(name, twin, images, asked(execute, twin, name, images, modes, tmp_path_factory.mktemp("pair")))


def test_every_network_has_a_twin_that_is_compared_here(execute) -> None:
    report = execute("dimred", "inspect", "--model", "--help").partition("Networks: ")[2].rstrip()
    assert {*DEEP, *(name for name, _, _ in SIZES)} == set(NAMES) == set(re.split(r",\s+", report))


NAMED = [*SIZES, *((name, 3, 32) for name in DEEP), ("inception_resnet_v2", 3, 299)]


@pytest.fixture(scope="module")
def named(execute) -> dict[str, list[str]]:
    """Names and shapes of every C++ network, of one start of the tool; by "name channels height"."""
    parts = execute("model_logits", "--names", *(word for size in NAMED for word in (*size, CLASSES))).split("= ")[1:]
    return {part.splitlines()[0]: part.splitlines()[1:] for part in parts}


@pytest.mark.parametrize(("name", "channels", "height"), NAMED)
def test_names_order_and_shapes_are_equal(name: str, channels: int, height: int, named) -> None:
    with torch.device("meta"):
        twin = build(name, channels, height, height, CLASSES)
    expected = [f"{key} {list(value.shape)}".replace(" ", "") for key, value in twin.named_parameters()]
    assert [line.replace(" ", "") for line in named[f"{name} {channels} {height}"]] == expected


def rounding(twin: nn.Module, images: torch.Tensor, mode: str) -> float:
    """How far PyTorch's own float32 is from float64: what this network makes of rounding, on this processor."""
    exact = logits(copy.deepcopy(twin).double(), images.double(), mode)
    return float(np.abs(logits(copy.deepcopy(twin), images, mode) - exact).max())


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_logits_are_equal(pair: Pair, mode: str) -> None:
    twin, received = copy.deepcopy(pair.twin), pair.received[mode]  # train mode moves its statistics
    expected = logits(twin, pair.images, mode)
    assert received.shape == expected.shape
    # The 1e-5, relative to the largest logit; float32 sums of ~1e3 terms differ by ~1e-6, and BatchNorm
    # over the few values of a deep network's last maps makes more of it.
    bound = 1e-5 if pair.name in ("convnet", "resnet20") else 1e-4 if mode == "eval" else 1e-3
    difference = np.abs(received - expected).max()
    if difference >= bound * max(1.0, np.abs(expected).max()):  # both are off by their rounding
        assert mode == "train"
        assert difference < 2 * rounding(pair.twin, pair.images, mode)


def gradients(twin: nn.Module) -> np.ndarray:
    """The gradients of all parameters, in their order; zeros where one took no part."""
    return np.concatenate(
        [(torch.zeros_like(p) if p.grad is None else p.grad).numpy().ravel() for p in twin.parameters()]
    )


def test_gradients_are_equal(pair: Pair) -> None:
    if "gradient" not in pair.received:
        pytest.skip("its auxiliary classifier has a test of its own")
    twin = pair.twin.eval()
    twin.zero_grad()
    functional.cross_entropy(twin(pair.images), torch.arange(len(pair.images)) % CLASSES).backward()
    expected = gradients(twin)
    assert np.linalg.norm(pair.received["gradient"] - expected) < 1e-3 * np.linalg.norm(expected)


@pytest.mark.parametrize(("name", "last"), [("inception_v3", "fc"), ("inception_resnet_v2", "classif")])
def test_the_second_classifiers_loss_counts_in_training(name: str, last: str, tmp_path: Path, execute) -> None:
    """The gradients of both last layers show it: below them, BatchNorm over two images makes noise of rounding. In
    inception_resnet_v2 only the gradient of the second classifier is compared: the first one lies behind dropout, whose
    masks differ."""
    twin = randomised_twin(name, 3, 299).train()
    images, labels = torch.randn(2, 3, 299, 299), torch.arange(2)
    loss = functional.cross_entropy(twin(images), labels)
    (loss + 0.4 * functional.cross_entropy(twin.auxiliary_logits, labels)).backward()
    received = asked(execute, twin, name, images, ["train_gradient"], tmp_path)["train_gradient"]
    starts = np.cumsum([0, *(p.numel() for p in twin.parameters())])
    for (layer, parameter), start in zip(twin.named_parameters(), starts, strict=False):
        if layer == "AuxLogits.fc.weight" or (layer == f"{last}.weight" and name == "inception_v3"):
            part = received[start : start + parameter.numel()]
            expected = parameter.grad.numpy().ravel()
            assert np.linalg.norm(part - expected) < 1e-3 * np.linalg.norm(expected), layer


def test_modes_differ_so_that_each_tests_something() -> None:
    twin = randomised_twin("resnet20", 1, 28)
    images = torch.randn(16, 1, 28, 28)
    difference = logits(twin, images, "eval") - logits(twin, images, "train")
    assert np.abs(difference).max() > 1e-2
