"""The C++ models against their PyTorch twins: names, order, shapes and logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from dimred_twins import build
from safetensors.torch import save_file
from torch import nn

CLASSES = 10
SIZES = [
    (name, channels, height)
    for name in ("convnet", "resnet20")
    for channels, height in ((1, 28), (3, 32))
]


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
    return model


def logits(model: nn.Module, images: torch.Tensor, mode: str) -> np.ndarray:
    """Logits [batch, classes] in mode `train` (batch statistics) or `eval`."""
    model.train(mode == "train")
    with torch.no_grad():
        return model(images).numpy()


@pytest.mark.parametrize(("name", "channels", "height"), SIZES)
def test_names_order_and_shapes_are_equal(name: str, channels: int, height: int, execute) -> None:
    twin = build(name, channels, height, height, CLASSES)
    expected = [
        f"{key} {list(value.shape)}".replace(" ", "") for key, value in twin.named_parameters()
    ]
    printed = execute("model_logits", "--names", name, channels, height, CLASSES).splitlines()
    assert [line.replace(" ", "") for line in printed] == expected


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize(("name", "channels", "height"), SIZES)
def test_logits_are_equal(
    name: str, channels: int, height: int, mode: str, tmp_path: Path, execute
) -> None:
    twin = randomised_twin(name, channels, height)
    images = torch.randn(16, channels, height, height)
    save_file(twin.state_dict(), tmp_path / "twin.safetensors")
    np.save(tmp_path / "input.npy", images.numpy())
    execute(
        "model_logits", name, channels, height, CLASSES,
        tmp_path / "twin.safetensors", tmp_path / "input.npy", tmp_path / "output.npy", mode,
    )  # fmt: skip
    received = np.load(tmp_path / "output.npy")
    expected = logits(twin, images, mode)
    assert received.shape == expected.shape
    # The 1e-5, relative to the largest logit; float32 sums of ~1e3 terms differ by ~1e-6.
    assert np.abs(received - expected).max() < 1e-5 * max(1.0, np.abs(expected).max())


def test_modes_differ_so_that_each_tests_something() -> None:
    twin = randomised_twin("resnet20", 1, 28)
    images = torch.randn(16, 1, 28, 28)
    difference = logits(twin, images, "eval") - logits(twin, images, "train")
    assert np.abs(difference).max() > 1e-2
