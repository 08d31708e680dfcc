"""Inception-ResNet v2 (Szegedy et al., AAAI 2017) with timm's attribute names and numerics."""

import torch
from torch import nn
from torch.nn import functional

Layer = tuple[int, int, tuple[int, int], int, tuple[int, int]]  # in, out, kernel, stride, padding


def same(i: int, o: int, high: int, wide: int | None = None) -> Layer:
    """A layer whose output is as large as its input."""
    wide = high if wide is None else wide
    return i, o, (high, wide), 1, (high // 2, wide // 2)


def valid(i: int, o: int, size: int, stride: int = 1) -> Layer:
    """Without padding."""
    return i, o, (size, size), stride, (0, 0)


class ConvBlock(nn.Module):
    """Convolution without bias, BatchNorm with epsilon 0.001, ReLU."""

    def __init__(self, i: int, o: int, kernel: tuple[int, int], stride: int, padding: tuple[int, int]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(i, o, kernel, stride=stride, padding=padding, bias=False)
        self.bn = nn.BatchNorm2d(o, eps=1e-3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """[batch, in, h, w] -> [batch, out, ...]."""
        return functional.relu(self.bn(self.conv(images)))


class Parallel(nn.Module):
    """Branches side by side, joined by channels; `pool` adds 3x3 maxima with stride 2."""

    def __init__(self, *branches: list[Layer | nn.Module], pool: bool = False) -> None:
        super().__init__()
        self.pool = pool
        for i, layers in enumerate(branches):
            made = [layer if isinstance(layer, nn.Module) else ConvBlock(*layer) for layer in layers]
            setattr(self, f"branch{i}", made[0] if len(made) == 1 else nn.Sequential(*made))

    def joined(self, images: torch.Tensor) -> torch.Tensor:
        """All branches."""
        parts: list[torch.Tensor] = []
        for name, branch in self.named_children():  # torch.jit.script can read this
            if name.startswith("branch"):
                parts.append(branch(images))
        if self.pool:
            parts.append(functional.max_pool2d(images, 3, 2))
        return torch.cat(parts, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """All branches."""
        return self.joined(images)


class Residual(Parallel):
    """x + scale * (1x1 convolution of the joined branches), then ReLU unless it is the last."""

    def __init__(
        self, joined: int, channels: int, scale: float, *branches: list[Layer | nn.Module], relu: bool = True
    ) -> None:
        super().__init__(*branches)
        self.scale, self.relu = scale, relu
        self.conv2d = nn.Conv2d(joined, channels, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        hidden = images + self.scale * self.conv2d(self.joined(images))
        return functional.relu(hidden) if self.relu else hidden


def block35() -> Residual:
    """The block of the 35 x 35 maps."""
    return Residual(
        128,
        320,
        0.17,
        [valid(320, 32, 1)],
        [valid(320, 32, 1), same(32, 32, 3)],
        [valid(320, 32, 1), same(32, 48, 3), same(48, 64, 3)],
    )


def block17() -> Residual:
    """The block of the 17 x 17 maps."""
    return Residual(
        384, 1088, 0.10, [valid(1088, 192, 1)], [valid(1088, 128, 1), same(128, 160, 1, 7), same(160, 192, 7, 1)]
    )


def block8(scale: float = 0.20, relu: bool = True) -> Residual:
    """The block of the 8 x 8 maps."""
    return Residual(
        448,
        2080,
        scale,
        [valid(2080, 192, 1)],
        [valid(2080, 192, 1), same(192, 224, 1, 3), same(224, 256, 3, 1)],
        relu=relu,
    )


class Auxiliary(nn.Module):
    """The second classifier, of the training loss alone."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.conv0, self.conv1 = ConvBlock(*valid(channels, 128, 1)), ConvBlock(*valid(128, 768, 5))
        self.fc = nn.Linear(768, classes)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Logits [batch, classes]."""
        return self.fc(self.conv1(self.conv0(functional.avg_pool2d(maps, 5, 3))).mean(dim=(2, 3)))


class InceptionResNetV2(nn.Module):
    """Stem, 10 + 20 + 10 residual blocks, FastNN's dropout of 0.2, the classifier; a second one for images of 299."""

    auxiliary_logits: torch.Tensor | None

    def __init__(self, channels: int, classes: int, side: int = 75) -> None:
        super().__init__()
        self.auxiliary_logits = None  # of the last pass in train mode
        self.conv2d_1a = ConvBlock(*valid(channels, 32, 3, 2))
        self.conv2d_2a = ConvBlock(*valid(32, 32, 3))
        self.conv2d_2b = ConvBlock(*same(32, 64, 3))
        self.conv2d_3b = ConvBlock(*valid(64, 80, 1))
        self.conv2d_4a = ConvBlock(*valid(80, 192, 3))
        means = nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
        self.mixed_5b = Parallel(
            [valid(192, 96, 1)],
            [valid(192, 48, 1), same(48, 64, 5)],
            [valid(192, 64, 1), same(64, 96, 3), same(96, 96, 3)],
            [means, valid(192, 64, 1)],
        )
        self.repeat = nn.Sequential(*(block35() for _ in range(10)))
        self.mixed_6a = Parallel(
            [valid(320, 384, 3, 2)], [valid(320, 256, 1), same(256, 256, 3), valid(256, 384, 3, 2)], pool=True
        )
        self.repeat_1 = nn.Sequential(*(block17() for _ in range(20)))
        self.mixed_7a = Parallel(
            [valid(1088, 256, 1), valid(256, 384, 3, 2)],
            [valid(1088, 256, 1), valid(256, 288, 3, 2)],
            [valid(1088, 256, 1), same(256, 288, 3), valid(288, 320, 3, 2)],
            pool=True,
        )
        self.repeat_2 = nn.Sequential(*(block8() for _ in range(9)))
        self.block8 = block8(1.0, relu=False)
        self.conv2d_7b = ConvBlock(*valid(2080, 1536, 1))
        self.dropout = nn.Dropout(0.2)
        self.classif = nn.Linear(1536, classes)
        self.AuxLogits = Auxiliary(1088, classes) if side >= 299 else None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, classes]."""
        hidden = functional.max_pool2d(self.conv2d_2b(self.conv2d_2a(self.conv2d_1a(images))), 3, 2)
        hidden = functional.max_pool2d(self.conv2d_4a(self.conv2d_3b(hidden)), 3, 2)
        hidden = self.repeat_1(self.mixed_6a(self.repeat(self.mixed_5b(hidden))))
        if self.AuxLogits is not None and self.training:
            self.auxiliary_logits = self.AuxLogits(hidden)
        hidden = self.conv2d_7b(self.block8(self.repeat_2(self.mixed_7a(hidden))))
        return self.classif(self.dropout(hidden.mean(dim=(2, 3))))
