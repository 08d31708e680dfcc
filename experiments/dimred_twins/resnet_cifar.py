"""ResNets for small images (He et al. 2016, section 4.2), with torchvision's attribute names."""

import torch
from torch import nn
from torch.nn import functional


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with BatchNorm and an identity shortcut without parameters (option A).

    Where the block changes shape, the shortcut takes every second pixel (from 0) and appends
    zero channels, the same number before and after the real ones.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.stride = stride
        self.padding_each_side = (out_channels - in_channels) // 2

    def shortcut(self, images: torch.Tensor) -> torch.Tensor:
        """images [batch, in, h, w] -> [batch, out, ceil(h / stride), ceil(w / stride)]."""
        if self.stride == 1 and self.padding_each_side == 0:
            return images
        sampled = images[:, :, :: self.stride, :: self.stride]
        pad = self.padding_each_side
        return functional.pad(sampled, (0, 0, 0, 0, pad, pad))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """images [batch, in, h, w] -> [batch, out, ceil(h / stride), ceil(w / stride)]."""
        hidden = functional.relu(self.bn1(self.conv1(images)))
        hidden = self.bn2(self.conv2(hidden))
        return functional.relu(hidden + self.shortcut(images))


def make_stage(in_channels: int, out_channels: int, blocks: int, stride: int) -> nn.Sequential:
    """`blocks` blocks of which only the first may change the shape."""
    layers = [BasicBlock(in_channels, out_channels, stride)]
    layers += [BasicBlock(out_channels, out_channels, 1) for _ in range(blocks - 1)]
    return nn.Sequential(*layers)


class ResNetCifar(nn.Module):
    """conv1, bn1, three stages of 16/32/64 channels, global average pooling, fc.

    depth = 6 n + 2 with n blocks a stage: 20, 32, 44, 56, 110. Convolutions are drawn as in He et
    al. 2015 (fan out), BatchNorm weights are 1 and biases 0. Input [batch, channels, h, w] of any
    size, output logits [batch, classes].
    """

    def __init__(self, channels: int, classes: int, depth: int) -> None:
        super().__init__()
        if depth < 8 or (depth - 2) % 6:
            raise ValueError(f"[resnet_cifar] needs depth = 6 n + 2, n >= 1, received {depth}")
        blocks = (depth - 2) // 6
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = make_stage(16, 16, blocks, 1)
        self.layer2 = make_stage(16, 32, blocks, 2)
        self.layer3 = make_stage(32, 64, blocks, 2)
        self.fc = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, classes] of images [batch, channels, h, w]."""
        hidden = functional.relu(self.bn1(self.conv1(images)))
        hidden = self.layer3(self.layer2(self.layer1(hidden)))
        return self.fc(hidden.mean(dim=(2, 3)))
