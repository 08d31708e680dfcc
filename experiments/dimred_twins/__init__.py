"""PyTorch twins of the C++ models: the same parameter names, order, shapes and mathematics.

from dimred_twins import build
model = build("resnet20", channels=3, height=32, width=32, classes=10)
"""

from torch import nn

from .convnet import ConvNet
from .inception_resnet_v2 import InceptionResNetV2
from .lenet import LeNet
from .resnet_cifar import ResNetCifar
from .resnet_v2 import ResNetV2
from .vgg16_flatten import Vgg16Flatten
from .wide_resnet import WideResNet

# torchvision is loaded where one of its networks is asked for: the others need torch alone.
OF_TORCHVISION = (
    "alexnet",
    "vgg11",
    "vgg11_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "mobilenet_v2",
    "inception_v3",
)
RESNET_DEPTHS = {"resnet20": 20, "resnet32": 32, "resnet56": 56, "resnet110": 110}
NAMES = (
    "convnet",
    "lenet",
    *RESNET_DEPTHS,
    "preresnet164",
    "wrn28_10",
    "resnet_v2_50",
    "inception_resnet_v2",
    "vgg16_flatten",
    *OF_TORCHVISION,
)


def set_constants(network: nn.Module, eps: float | None = None, momentum: float | None = None) -> None:
    """BatchNorm's, where they are given."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps, module.momentum = eps or module.eps, momentum or module.momentum


def build(name: str, channels: int, height: int, width: int, classes: int) -> nn.Module:
    """The model called `name` (one of NAMES) for images [channels, height, width].

    Raises ValueError for an unknown name or a size that the model cannot take.
    """
    if name == "convnet":
        return ConvNet(channels, height, width, classes)
    if name == "lenet":
        return LeNet(channels, height, width, classes)
    if name in RESNET_DEPTHS:
        return ResNetCifar(channels, classes, RESNET_DEPTHS[name])
    if name == "preresnet164":
        return ResNetV2(channels, classes, [18, 18, 18], photographs=False)
    if name == "resnet_v2_50":
        return ResNetV2(channels, classes, [3, 4, 6, 3], photographs=True)
    if name == "wrn28_10":
        return WideResNet(channels, classes, 28, 10)
    if name == "inception_resnet_v2":
        return InceptionResNetV2(channels, classes, min(height, width))
    if name == "vgg16_flatten":
        return Vgg16Flatten(channels, height, width, classes)
    if name in OF_TORCHVISION:
        from . import from_torchvision

        return from_torchvision.build(name, channels, classes)
    raise ValueError(f"[build] needs one of {', '.join(NAMES)}, received {name!r}")
