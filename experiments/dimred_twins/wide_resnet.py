"""Wide residual networks (Zagoruyko and Komodakis, BMVC 2016) as timgaripov/swa has them, without dropout."""

import math

import torch
from torch import nn
from torch.nn import functional


class WideBlock(nn.Module):
    """BatchNorm, ReLU, 3x3, twice; the second convolution has the stride."""

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(in_channels)
        self.conv1 = nn.Conv2d(in_channels, width, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1)
        if stride != 1 or in_channels != width:
            self.shortcut = nn.Sequential(nn.Conv2d(in_channels, width, 1, stride=stride))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """[batch, in, h, w] -> [batch, width, ceil(h / stride), ceil(w / stride)]."""
        hidden = self.conv1(functional.relu(self.bn1(images)))
        hidden = self.conv2(functional.relu(self.bn2(hidden)))
        return hidden + (self.shortcut(images) if hasattr(self, "shortcut") else images)


class WideResNet(nn.Module):
    """depth = 6 n + 4 with n blocks a stage of 16, 32, 64 times `widen` channels."""

    def __init__(self, channels: int, classes: int, depth: int, widen: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1)
        in_channels = 16
        for i in range(3):
            layer = []
            for block in range((depth - 4) // 6):
                layer.append(WideBlock(in_channels, (16 << i) * widen, 2 if i > 0 and block == 0 else 1))
                in_channels = (16 << i) * widen
            setattr(self, f"layer{i + 1}", nn.Sequential(*layer))
        self.bn1 = nn.BatchNorm2d(in_channels, momentum=0.9)
        self.linear = nn.Linear(in_channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.xavier_uniform_(module.weight, math.sqrt(2))
                nn.init.zeros_(module.get_parameter("bias"))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, classes]."""
        hidden = self.layer3(self.layer2(self.layer1(self.conv1(images))))  # type: ignore[operator]
        return self.linear(functional.relu(self.bn1(hidden)).mean(dim=(2, 3)))
