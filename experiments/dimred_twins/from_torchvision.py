"""torchvision's own networks, for any number of channels."""

from typing import Any, cast

import torch
from torch import nn
from torchvision import models


class MainLogits(models.Inception3):  # type: ignore[misc]
    """Inception v3 whose forward pass gives the main logits in train mode, too, and keeps the auxiliary ones."""

    auxiliary_logits: torch.Tensor | None = None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, classes]."""
        logits, self.auxiliary_logits = self._forward(images)
        return logits


def build(name: str, channels: int, classes: int) -> nn.Module:
    """The network with new random weights; its first convolution takes `channels` channels."""
    own = {"init_weights": False}  # of these, whose own draw takes seconds, and weights are loaded
    if name == "inception_v3":
        network: nn.Module = MainLogits(num_classes=classes, **own)
    else:
        network = models.get_model(name, weights=None, num_classes=classes, **(own if name.startswith("vgg") else {}))
    if channels != 3:
        first, place = next((m, n) for n, m in network.named_modules() if isinstance(m, nn.Conv2d))
        kernel, stride, padding = cast(tuple[Any, ...], (first.kernel_size, first.stride, first.padding))
        other = nn.Conv2d(channels, first.out_channels, kernel, stride, padding, bias=first.bias is not None)
        parent, _, leaf = place.rpartition(".")
        setattr(network.get_submodule(parent), leaf, other)
    return network
