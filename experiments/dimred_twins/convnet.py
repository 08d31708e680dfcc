"""The convolutional net of the Fashion-MNIST article (Keras: conv32/pool/conv64/pool/conv64)."""

import torch
from torch import nn
from torch.nn import functional


def flat_features(height: int, width: int) -> int:
    """Length of the vector that conv3 hands to fc1: 576 for 28x28, 1024 for 32x32.

    Keras' default padding is "valid", so a 3x3 convolution takes 2 from each side length and a
    2x2 max-pool halves it, rounding down: 28 -> 26 -> 13 -> 11 -> 5 -> 3.
    """

    def side(length: int) -> int:
        return ((length - 2) // 2 - 2) // 2 - 2

    if side(height) < 1 or side(width) < 1:
        raise ValueError(f"[convnet] needs images of at least 18x18, received {height}x{width}")
    return 64 * side(height) * side(width)


class ConvNet(nn.Module):
    """conv 32-64-64 (3x3, valid), two 2x2 max-pools, dense 64, dense `classes`.

    Input [batch, channels, height, width], output logits [batch, classes]. All layers have biases;
    the flatten is in channel, row, column order (PyTorch's, not Keras').
    """

    def __init__(self, channels: int, height: int, width: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.conv3 = nn.Conv2d(64, 64, 3)
        self.fc1 = nn.Linear(flat_features(height, width), 64)
        self.fc2 = nn.Linear(64, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, classes] of images [batch, channels, height, width]."""
        hidden = functional.max_pool2d(functional.relu(self.conv1(images)), 2)
        hidden = functional.max_pool2d(functional.relu(self.conv2(hidden)), 2)
        hidden = functional.relu(self.conv3(hidden))
        hidden = functional.relu(self.fc1(torch.flatten(hidden, 1)))
        return self.fc2(hidden)
