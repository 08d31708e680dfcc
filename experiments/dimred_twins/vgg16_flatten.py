"""VGG16's convolutions as torchvision names them, behind which all values go into one linear layer."""

import torch
from torch import nn


class Vgg16Flatten(nn.Module):
    """Logits [batch, classes] of images [batch, channels, height, width]."""

    def __init__(self, channels: int, height: int, width: int, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width_of_stage, convolutions in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(convolutions):
                layers += [nn.Conv2d(channels, width_of_stage, 3, padding=1), nn.ReLU()]
                channels = width_of_stage
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(channels * (height // 32) * (width // 32), classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.features(x).flatten(1))
