"""Residual networks with pre-activation (He et al., ECCV 2016)."""

import torch
from torch import nn
from torch.nn import functional

EXPANSION = 4


class PreBottleneck(nn.Module):
    """BatchNorm and ReLU before each of 1x1, 3x3 (with the stride), 1x1.

    The shortcut of a block that changes shape starts behind the first ReLU (`activated`: the paper's ImageNet
    networks) or at the block's input (the CIFAR networks of timgaripov/swa).
    """

    def __init__(self, in_channels: int, width: int, stride: int, activated: bool) -> None:
        super().__init__()
        self.activated = activated
        self.bn1 = nn.BatchNorm2d(in_channels)
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, EXPANSION * width, 1, bias=False)
        if stride != 1 or in_channels != EXPANSION * width:
            self.downsample = nn.Sequential(nn.Conv2d(in_channels, EXPANSION * width, 1, stride=stride, bias=False))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """[batch, in, h, w] -> [batch, 4 width, ceil(h / stride), ceil(w / stride)]."""
        active = functional.relu(self.bn1(images))
        hidden = self.conv1(active)
        hidden = self.conv2(functional.relu(self.bn2(hidden)))
        hidden = self.conv3(functional.relu(self.bn3(hidden)))
        if hasattr(self, "downsample"):
            return hidden + self.downsample(active if self.activated else images)
        return hidden + images


class ResNetV2(nn.Module):
    """conv1 (7x7 with stride 2 and max-pooling where `photographs`), stages, bn, fc; drawn as He et al. 2015."""

    def __init__(self, channels: int, classes: int, blocks: list[int], photographs: bool) -> None:
        super().__init__()
        self.photographs = photographs
        width = 64 if photographs else 16
        self.conv1 = (
            nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)
            if photographs
            else nn.Conv2d(channels, width, 3, padding=1, bias=False)
        )
        in_channels = width
        for i, count in enumerate(blocks):
            layer = []
            for block in range(count):
                stride = 2 if i > 0 and block == 0 else 1
                layer.append(PreBottleneck(in_channels, width << i, stride, photographs))
                in_channels = EXPANSION * width << i
            setattr(self, f"layer{i + 1}", nn.Sequential(*layer))
        self.bn = nn.BatchNorm2d(in_channels)
        self.fc = nn.Linear(in_channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, classes]."""
        hidden = self.conv1(images)
        if self.photographs:
            hidden = functional.max_pool2d(hidden, 3, 2, 1)
        for name, stage in self.named_children():  # torch.jit.script can read this
            if name.startswith("layer"):
                hidden = stage(hidden)
        return self.fc(functional.relu(self.bn(hidden)).mean(dim=(2, 3)))
