"""Networks of timm, torchvision and FastNN (TF-Slim) as TorchScript modules, which both stages train.

`dimred model` holds this text and runs `python -c TEXT JSON`; torch, and timm or torchvision, are that Python's.
Nothing is downloaded: weights are drawn from the seed. What timm and torchvision lack stands here, as TF-Slim has it
(github.com/google-research/tf-slim)."""

from __future__ import annotations

import json
import linecache
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

REFUSED, FAILED = 3, 4  # exit codes


class Refused(Exception):
    """Why, in one line."""


class SlimNorm(nn.Module):
    """TF-Slim's batch_norm of its Inception networks: a bias, no scale; epsilon 0.001."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return functional.batch_norm(x, self.running_mean, self.running_var, None, self.bias, self.training, 0.1, 0.001)


def slim_conv(into: int, out: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Convolution, norm, ReLU."""
    return nn.Sequential(
        nn.Conv2d(into, out, kernel, stride, kernel // 2, bias=False), SlimNorm(out), nn.ReLU(inplace=True)
    )


class Parallel(nn.Module):
    """Branches side by side, their channels one behind the other."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def chain(into: int, *layers: tuple[int, int], stride: int = 1) -> nn.Sequential:
    """slim_conv of (channels, kernel) each; the last has the stride."""
    parts = []
    for i, (out, kernel) in enumerate(layers):
        parts.append(slim_conv(into, out, kernel, stride if i == len(layers) - 1 else 1))
        into = out
    return nn.Sequential(*parts)


def inception_v2(classes: int, channels: int) -> nn.Module:
    """nets/inception_v2.py: 10,153,336 parameters without the logits, and 2 x 9,888 moving statistics: 10,173,112 in
    slim's own test."""

    def mixed(
        into: int, one: int, three: tuple[int, int], five: tuple[int, int], pooled: int, maximum: bool = False
    ) -> nn.Module:
        pool = nn.MaxPool2d(3, 1, 1) if maximum else nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        return Parallel(
            chain(into, (one, 1)),
            chain(into, (three[0], 1), (three[1], 3)),
            chain(into, (five[0], 1), (five[1], 3), (five[1], 3)),
            nn.Sequential(pool, slim_conv(into, pooled, 1)),
        )

    def smaller(into: int, three: tuple[int, int], five: tuple[int, int]) -> nn.Module:
        return Parallel(
            chain(into, (three[0], 1), (three[1], 3), stride=2),
            chain(into, (five[0], 1), (five[1], 3), (five[1], 3), stride=2),
            nn.MaxPool2d(3, 2, 1),
        )

    stem = nn.Sequential(
        nn.Conv2d(channels, 8 * channels, 7, 2, 3, groups=channels, bias=False),
        nn.Conv2d(8 * channels, 64, 1),
        nn.ReLU(inplace=True),
    )  # separable, with biases and without a norm
    features = nn.Sequential(
        stem,
        nn.MaxPool2d(3, 2, 1),
        slim_conv(64, 64, 1),
        slim_conv(64, 192, 3),
        nn.MaxPool2d(3, 2, 1),
        mixed(192, 64, (64, 64), (64, 96), 32),
        mixed(256, 64, (64, 96), (64, 96), 64),
        smaller(320, (128, 160), (64, 96)),
        mixed(576, 224, (64, 96), (96, 128), 128),
        mixed(576, 192, (96, 128), (96, 128), 128),
        mixed(576, 160, (128, 160), (128, 160), 96),
        mixed(576, 96, (128, 192), (160, 192), 96),
        smaller(576, (128, 192), (192, 256)),
        mixed(1024, 352, (192, 320), (160, 224), 128),
        mixed(1024, 352, (192, 320), (192, 224), 128, maximum=True),
    )
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1024, classes))
    return nn.Sequential(features, head)


def overfeat(classes: int, channels: int) -> nn.Module:
    """nets/overfeat.py, of images of 231 x 231."""
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 64, 11, 4),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        nn.Conv2d(64, 256, 5),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
    ]
    for into, out in ((256, 512), (512, 1024), (1024, 1024)):
        layers += [nn.Conv2d(into, out, 3, padding=1), nn.ReLU()]
    layers += [
        nn.MaxPool2d(2, 2),
        nn.Conv2d(1024, 3072, 6),
        nn.ReLU(),
        nn.Dropout(),
        nn.Conv2d(3072, 4096, 1),
        nn.ReLU(),
        nn.Dropout(),
        nn.Conv2d(4096, classes, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ]
    return nn.Sequential(*layers)


def cifarnet(classes: int, channels: int) -> nn.Module:
    """nets/cifarnet.py, of images of 32 x 32; TensorFlow's normalisation sums where torch's averages."""

    def norm() -> nn.Module:
        return nn.LocalResponseNorm(9, alpha=0.001, beta=0.75, k=1.0)

    return nn.Sequential(
        nn.Conv2d(channels, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        norm(),
        nn.Conv2d(64, 64, 5, padding=2),
        nn.ReLU(),
        norm(),
        nn.MaxPool2d(2, 2),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 384),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(384, 192),
        nn.ReLU(),
        nn.Linear(192, classes),
    )


class Cells(nn.Module):
    """Each cell sees the last two outputs; NASNet's takes the newer one first."""

    def __init__(self, stem: nn.Module, cells: list[nn.Module], features: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.stem, self.cells = stem, nn.ModuleList(cells)
        self.head = nn.Sequential(
            nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(features, classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        last = self.stem(x)
        before = last
        for cell in self.cells:
            last, before = cell(last, before), last
        return self.head(last)


class Swapped(nn.Module):
    """A cell that takes the older output first."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, last: Tensor, before: Tensor) -> Tensor:
        return self.cell(before, last)


class First(nn.Module):
    """A cell that sees the last output alone."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, last: Tensor, before: Tensor) -> Tensor:
        return self.cell(last)


def slim_stem(channels: int, out: int, stride: int) -> nn.Module:
    padding = 0 if stride == 2 else 1
    return nn.Sequential(nn.Conv2d(channels, out, 3, stride, padding, bias=False), nn.BatchNorm2d(out, eps=0.001))


def nasnet_stages(before: int, last: int, filters: int, repeats: int) -> list[nn.Module]:
    """Three stages of NASNet-A's cells from `filters` on, each twice as wide, with a reduction between two."""
    from timm.models import nasnet

    cells: list[nn.Module] = []
    for stage in range(3):
        f = filters * 2**stage
        if stage > 0:
            cells.append(nasnet.ReductionCell0(before, f, last, f, pad_type="same"))
            before, last = last, 4 * f
        for i in range(repeats):
            halves = i == 0 and (stage > 0 or before < last)  # the older output is twice as large
            kind, left = (nasnet.FirstCell, f // 2) if halves else (nasnet.NormalCell, f)
            cells.append(kind(before, left, last, f, pad_type="same"))
            before, last = last, 6 * f
    return cells


def nasnet_cifar(classes: int, channels: int) -> nn.Module:
    """nets/nasnet: NASNet-A (6 @ 768), of images of 32 x 32."""
    return Cells(slim_stem(channels, 96, 1), nasnet_stages(96, 96, 32, 6), 768, classes, 0.0)


def nasnet_mobile(classes: int, channels: int) -> nn.Module:
    """nets/nasnet: NASNet-A (4 @ 1056), of images of 224 x 224."""
    from timm.models import nasnet

    stems = [First(nasnet.CellStem0(32, 11, pad_type="same")), Swapped(nasnet.CellStem1(32, 22, pad_type="same"))]
    return Cells(slim_stem(channels, 32, 2), [*stems, *nasnet_stages(44, 88, 44, 4)], 1056, classes, 0.5)


def pnasnet_mobile(classes: int, channels: int) -> nn.Module:
    """nets/nasnet/pnasnet.py: PNASNet-5 (3 @ 54), of images of 224 x 224."""
    from timm.models import pnasnet

    def cell(before: int, last: int, f: int, reduces: bool = False, matches: bool = False) -> nn.Module:
        return Swapped(
            pnasnet.Cell(before, f, last, f, pad_type="same", is_reduction=reduces, match_prev_layer_dims=matches)
        )

    second: Any = cell(32, 65, 27, True, True)  # of the 27 channels slim's second path has the odd one
    second.cell.conv_prev_1x1.path_2.conv = nn.Conv2d(32, 14, 1, bias=False)
    cells: list[nn.Module] = [First(pnasnet.CellStem0(32, 13, 32, 13, pad_type="same")), second]
    before, last = 65, 135
    for stage in range(3):
        f = 54 * 2**stage
        for i in range(3):
            cells.append(cell(before, last, f, stage > 0 and i == 0, (i == 1) if stage > 0 else (i == 0)))
            before, last = last, 5 * f
    return Cells(slim_stem(channels, 32, 2), cells, 1080, classes, 0.5)


def resnet_v2_200(classes: int, channels: int) -> nn.Module:
    """nets/resnet_v2.py by timm's class."""
    from timm.layers import BatchNormAct2d, create_conv2d
    from timm.models.resnetv2 import ResNetV2

    return ResNetV2(
        [3, 24, 36, 3], num_classes=classes, in_chans=channels, conv_layer=create_conv2d, norm_layer=BatchNormAct2d
    )


def mobilenet_v1(width: float) -> Callable[[int, int], nn.Module]:
    """nets/mobilenet_v1.py by timm's builder."""

    def build(classes: int, channels: int) -> nn.Module:
        from timm.models import efficientnet

        return efficientnet._gen_mobilenet_v1(
            "mobilenetv1_100", channel_multiplier=width, num_classes=classes, in_chans=channels
        )

    return build


# FastNN's 32 names: the side of their images, and a builder, a library's name, or a name that --model knows.
FASTNN: dict[str, tuple[int, Any]] = {
    "alexnet_v2": (224, "alexnet"),
    "cifarnet": (32, cifarnet),
    "overfeat": (231, overfeat),
    "vgg_a": (224, "vgg11"),
    "vgg_16": (224, "vgg16"),
    "vgg_19": (224, "vgg19"),
    "inception_v1": (224, "torchvision:googlenet"),
    "inception_v2": (224, inception_v2),
    "inception_v3": (299, "inception_v3"),
    "inception_v4": (299, "timm:inception_v4"),
    "inception_resnet_v2": (299, "inception_resnet_v2"),
    "lenet": (28, "lenet"),
    "resnet_v1_50": (224, "resnet50"),
    "resnet_v1_101": (224, "resnet101"),
    "resnet_v1_152": (224, "resnet152"),
    "resnet_v1_200": (224, "timm:resnet200"),
    "resnet_v2_50": (224, "resnet_v2_50"),
    "resnet_v2_101": (224, "timm:resnetv2_101"),
    "resnet_v2_152": (224, "timm:resnetv2_152"),
    "resnet_v2_200": (224, resnet_v2_200),
    "mobilenet_v1": (224, mobilenet_v1(1.0)),
    "mobilenet_v1_075": (224, mobilenet_v1(0.75)),
    "mobilenet_v1_050": (224, mobilenet_v1(0.5)),
    "mobilenet_v1_025": (224, mobilenet_v1(0.25)),
    "mobilenet_v2": (224, "mobilenet_v2"),
    "mobilenet_v2_140": (224, "timm:mobilenetv2_140"),
    "mobilenet_v2_035": (224, "timm:mobilenetv2_035"),
    "nasnet_cifar": (32, nasnet_cifar),
    "nasnet_mobile": (224, nasnet_mobile),
    "nasnet_large": (331, "timm:nasnetalarge"),
    "pnasnet_large": (331, "timm:pnasnet5large"),
    "pnasnet_mobile": (224, pnasnet_mobile),
}


class FixedNorm(nn.BatchNorm2d):
    """Normalises by its running statistics in training, too, so that a part of its network can be frozen."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
        )


class ConvNorm(nn.Conv2d):
    """TF-Slim's conv2d of its ResNets: no bias, and a BatchNorm of its own behind it. Padded by kernel // 2, as
    conv2d_same does."""

    def __init__(self, into: int, out: int, kernel: int, stride: int = 1) -> None:
        super().__init__(into, out, kernel, stride, kernel // 2, bias=False)
        self.BatchNorm = nn.BatchNorm2d(out, eps=1e-5, momentum=0.003)  # slim's batch_norm_decay of 0.997

    def forward(self, x: Tensor) -> Tensor:
        return self.BatchNorm(self._conv_forward(x, self.weight, self.bias))


class SlimUnit(nn.Module):
    """nets/resnet_v1.py's bottleneck. The projection is where the width changes, the stride in a block's last unit."""

    def __init__(self, into: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.shortcut = nn.Identity() if into == 4 * width else ConvNorm(into, 4 * width, 1)
        self.conv1, self.conv2, self.conv3 = (
            ConvNorm(into, width, 1),
            ConvNorm(width, width, 3, stride),
            ConvNorm(width, 4 * width, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        residual = self.conv3(functional.relu(self.conv2(functional.relu(self.conv1(x)))))
        return functional.relu(self.shortcut(x[:, :, :: self.stride, :: self.stride]) + residual)


class SlimResNet(nn.Module):
    """nets/resnet_v1.py. Layers have slim's names, so that its weights do not fit torchvision's ResNet, whose strides
    are elsewhere."""

    def __init__(self, units: tuple[int, ...], classes: int, channels: int) -> None:
        super().__init__()
        self.conv1 = ConvNorm(channels, 64, 7, 2)
        into, blocks = 64, []
        for block, count in enumerate(units):
            width, made = 64 * 2**block, nn.Sequential()
            for unit in range(count):
                stride = 2 if unit == count - 1 and block < len(units) - 1 else 1
                made.add_module(f"unit_{unit + 1}", SlimUnit(into, width, stride))
                into = 4 * width
            blocks.append(made)
        self.block1, self.block2, self.block3, self.block4 = blocks
        self.logits = nn.Conv2d(into, classes, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
        nn.init.zeros_(self.logits.get_parameter("bias"))

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.conv1(x))
        x = functional.max_pool2d(
            x, [3, 3], [2, 2], [x.size(2) % 2, x.size(3) % 2], ceil_mode=True
        )  # TensorFlow's SAME
        x = self.block4(self.block3(self.block2(self.block1(x))))
        return self.logits(x.mean([2, 3], keepdim=True)).flatten(1)


# TF-Slim's networks with its strides, whose checkpoints scripts/slim_checkpoint.sh converts.
SLIM = {
    "resnet_v1_50": (3, 4, 6, 3),
    "resnet_v1_101": (3, 4, 23, 3),
    "resnet_v1_152": (3, 8, 36, 3),
    "resnet_v1_200": (3, 24, 36, 3),
}


def of_slim(name: str, classes: int, channels: int) -> nn.Module:
    """A ResNet v1 of TF-Slim's; NAME_fixed with FixedNorm."""
    base = name.removesuffix("_fixed")
    if base not in SLIM:
        raise Refused(
            f"slim: has {', '.join(SLIM)}, each also with _fixed (statistics of BatchNorm stay), received {name}"
        )
    network = SlimResNet(SLIM[base], classes, channels)
    if base != name:
        for module in network.modules():
            if isinstance(module, ConvNorm):
                module.BatchNorm = FixedNorm(module.out_channels, eps=1e-5)
    return network


class FirstOutput(nn.Module):
    """The logits of a network that gives several outputs."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)[0]


def of_timm(name: str, classes: int, channels: int) -> nn.Module:
    """timm.create_model without weights."""
    try:
        import timm
    except ImportError as error:
        raise Refused(f"needs timm in {sys.executable}: pip install timm ({error})") from None
    if name not in timm.list_models():
        raise Refused(f"timm {timm.__version__} has no model {name}")
    return timm.create_model(name, pretrained=False, num_classes=classes, in_chans=channels, scriptable=True)


def of_torchvision(name: str, classes: int, channels: int) -> nn.Module:
    """torchvision.models.get_model without weights."""
    try:
        from torchvision import models
    except ImportError as error:
        raise Refused(f"needs torchvision in {sys.executable}: pip install torchvision ({error})") from None
    if name not in models.list_models(module=models):
        raise Refused(f"torchvision has no classifier {name}")
    if channels != 3:
        raise Refused(f"torchvision's networks take 3 channels, received --channels {channels}; timm's take any")
    several = name in ("googlenet", "inception_v3")
    network = models.get_model(
        name, weights=None, num_classes=classes, **({"init_weights": True, "aux_logits": False} if several else {})
    )
    return FirstOutput(network) if several else network


def built(name: str, classes: int, channels: int) -> tuple[nn.Module, int]:
    """The network and the side of its images, 0 where only its library knows."""
    library, _, own = name.rpartition(":")
    if library in ("", "fastnn"):
        if own not in FASTNN:
            raise Refused(f"needs timm:NAME, torchvision:NAME or one of {', '.join(FASTNN)}; received {name}")
        size, builder = FASTNN[own]
        if callable(builder):
            try:
                return builder(classes, channels), size
            except ImportError as error:
                raise Refused(f"needs timm in {sys.executable}: pip install timm ({error})") from None
        if ":" not in builder:
            raise Refused(f"{own} is built in: --model {builder}")
        return built(builder, classes, channels)[0], size
    if library == "slim":
        return of_slim(own, classes, channels), 224
    if library not in ("timm", "torchvision"):
        raise Refused(f"knows the libraries timm, torchvision and slim, received {library}")
    network = (of_timm if library == "timm" else of_torchvision)(own, classes, channels)
    return network, getattr(network, "default_cfg", {}).get("input_size", (0, 0, 0))[1]


def checked(module: torch.jit.ScriptModule, shape: tuple[int, int, int], classes: int) -> None:
    """One pass in each mode: logits [batch, classes] for other batches than one."""
    for batch, training in ((2, True), (3, False)):
        module.train(training)
        with torch.no_grad():
            logits = module(torch.zeros(batch, *shape))
        if not isinstance(logits, Tensor) or tuple(logits.shape) != (batch, classes):
            received = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise Refused(f"needs logits [{batch}, {classes}] for images {shape}, received {received}")


def save(module: torch.jit.ScriptModule, output: str) -> None:
    """Whole or not at all, and through no link that lies there."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(output) or ".", prefix=".dimred-", delete=False) as file:
        try:
            torch.jit.save(module, file)
            os.umask(mask := os.umask(0))
            os.chmod(file.name, 0o666 & ~mask)
            os.replace(file.name, output)
        except BaseException:
            os.unlink(file.name)
            raise


def write(request: dict[str, Any]) -> dict[str, Any]:
    """What was written, for the caller to say."""
    name, classes, channels = request["name"], request["classes"], request["channels"]
    torch.manual_seed(request["seed"])
    network, made_for = built(name, classes, channels)
    side = request["image_size"] or made_for or 224
    state = {key: value.clone() for key, value in network.state_dict().items()}
    try:
        module = torch.jit.script(network)
    except Exception as error:
        raise Refused(f"{name} cannot be scripted: {str(error).strip().splitlines()[0]}") from error
    try:
        checked(module, (channels, side, side), classes)
    except Refused:
        raise
    except Exception as error:
        raise Refused(
            f"{name} does not take images of {side} x {side}: {str(error).strip().splitlines()[-1]}"
        ) from error
    module.load_state_dict(state)  # the pass in train mode has moved running statistics
    module.train()
    save(module, request["output"])
    return {"parameters": sum(parameter.numel() for parameter in module.parameters()), "image_size": side}


def show_source() -> None:
    """torch.jit.script reads the source of what it compiles, which `python -c` does not keep."""
    text = sys.orig_argv[sys.orig_argv.index("-c") + 1]
    linecache.cache["<string>"] = (len(text), None, text.splitlines(keepends=True), "<string>")


def main(text: str) -> int:
    """The exit code."""
    if "-c" in sys.orig_argv:
        show_source()
    try:
        print(json.dumps(write(json.loads(text))))
    except Exception as error:
        refused = isinstance(error, Refused)
        line = str(error) if refused else f"{type(error).__name__}: {error}"
        print(line.splitlines()[0], file=sys.stderr)
        return REFUSED if refused else FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
