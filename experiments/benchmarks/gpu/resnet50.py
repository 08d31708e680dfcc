"""ResNet-50 as torchvision has it (He et al. 2016, stride in the 3x3), for machines without torchvision."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

EXPANSION = 4


class Bottleneck(nn.Module):
    """1x1, 3x3 (with the stride), 1x1, each with BatchNorm; a projection where the shape changes."""

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        out_channels = EXPANSION * width
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.downsample: nn.Module | None = None
        if stride != 1 or in_channels != out_channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False), nn.BatchNorm2d(out_channels)
            )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """[batch, in, h, w] -> [batch, 4 width, ceil(h / stride), ceil(w / stride)]."""
        hidden = self.relu(self.bn1(self.conv1(images)))
        hidden = self.relu(self.bn2(self.conv2(hidden)))
        hidden = self.bn3(self.conv3(hidden))
        return self.relu(hidden + (self.downsample(images) if self.downsample else images))


class ResNet50(nn.Module):
    """Input [batch, channels, h, w], output logits [batch, classes]."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        in_channels = 64
        for i, count in enumerate((3, 4, 6, 3)):
            blocks = []
            for block in range(count):
                blocks.append(Bottleneck(in_channels, 64 << i, 2 if i > 0 and block == 0 else 1))
                in_channels = EXPANSION * 64 << i
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(in_channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits."""
        hidden = functional.max_pool2d(self.relu(self.bn1(self.conv1(images))), 3, 2, 1)
        hidden = self.layer4(self.layer3(self.layer2(self.layer1(hidden))))  # type: ignore[operator]
        return self.fc(hidden.mean(dim=(2, 3)))
