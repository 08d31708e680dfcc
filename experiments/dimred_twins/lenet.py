"""LeNet as FastNN has it (TF-Slim's nets/lenet.py)."""

import torch
from torch import nn
from torch.nn import functional


class LeNet(nn.Module):
    """5x5 convolutions of 32 and 64 channels, max-pooled by 2; a hidden layer of 1024 with dropout 0.5."""

    def __init__(self, channels: int, height: int, width: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc3 = nn.Linear(64 * (height // 4) * (width // 4), 1024)
        self.dropout3 = nn.Dropout(0.5)
        self.fc4 = nn.Linear(1024, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, classes] of images [batch, channels, height, width]."""
        hidden = functional.max_pool2d(functional.relu(self.conv1(images)), 2)
        hidden = functional.max_pool2d(functional.relu(self.conv2(hidden)), 2)
        return self.fc4(self.dropout3(functional.relu(self.fc3(hidden.flatten(1)))))
