"""PyTorch twins of the C++ models: the same parameter names, order, shapes and mathematics.

    from dimred_twins import build
    model = build("resnet20", channels=3, height=32, width=32, classes=10)
"""

from torch import nn

from .convnet import ConvNet
from .resnet_cifar import ResNetCifar

RESNET_DEPTHS = {"resnet20": 20, "resnet32": 32, "resnet56": 56, "resnet110": 110}
NAMES = ("convnet", *RESNET_DEPTHS)


def build(name: str, channels: int, height: int, width: int, classes: int) -> nn.Module:
    """The model called `name` (one of NAMES) for images [channels, height, width].

    Raises ValueError for an unknown name or a size that the model cannot take.
    """
    if name == "convnet":
        return ConvNet(channels, height, width, classes)
    if name in RESNET_DEPTHS:
        return ResNetCifar(channels, classes, RESNET_DEPTHS[name])
    raise ValueError(f"[build] knows {', '.join(NAMES)}, received {name!r}")
