"""Trains a PyTorch twin as a stage-1 run trained: on its batches, from its weights, with its options.

    run with `dimred stage1 --hooks batches --output RUN`, then
    steps = train_as(RUN)                # one line a step: epoch, loss (dimred's), twin_loss

What it cannot do as the run did is refused: it knows the options of the recipes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

from dimred.runs import read_options, read_run

from . import build, set_constants

Options = dict[str, Any]
OPTIMIZERS = ("momentum", "adam")
SCHEDULES = ("constant", "linear", "cosine", "step", "exponential", "piecewise")
# Options that would change a step and have no counterpart here, with the values that do not.
NEUTRAL: dict[str, Any] = {
    "gradient_accumulation": 1,
    "max_gradient_norm": None,
    "gradient_centralization": False,
    "nesterov": False,
    "anneal_from_epoch": -1.0,
    "amp_allow": "",
    "amp_deny": "",
    "use_dynamic_loss_scaling": False,
    "margin_loss": "none",
}
TWO_LOSSES = ("inception_v3", "inception_resnet_v2")  # auxiliary logits have a part in the loss


class CannotFollow(ValueError):
    """The run did what the twin cannot do, in one line."""


def require_followable(options: Options) -> None:
    """Raises CannotFollow for options, of the command line or a config.toml, that a twin has no counterpart to."""
    for name, value in NEUTRAL.items():
        given = options.get(name, value)
        same = float(given) == value if isinstance(value, float) else str(given).lower() == str(value).lower()
        if not same:
            raise CannotFollow(f"the PyTorch twin does not support {name}, received {given}")
    for name, known in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
        if options.get(name, known[0]) not in known:
            raise CannotFollow(f"the PyTorch twin does not support {name} {options[name]}")
    if options.get("precision") == "float16":
        raise CannotFollow("the PyTorch twin does not support float16 on the CPU")
    if options.get("model") in TWO_LOSSES:
        raise CannotFollow(f"the PyTorch twin does not support the auxiliary loss of {options['model']}")


def learning_rate(options: Options, step: int, per_epoch: int) -> float:
    """The learning rate of a step counted from 0; formulas as in schedules/schedule.h. Raises CannotFollow."""
    base, end = options["learning_rate"], options["end_learning_rate"]
    warmup = options.get("warmup_steps") or options["warmup_epochs"] * per_epoch
    total = options.get("total_steps") or (options["total_epochs"] or options["epochs"]) * per_epoch
    epoch, kind = step / per_epoch, options["schedule"]
    part = min(1.0, (step - warmup) / (total - warmup))
    t2t = options.get("warmup_scheme") == "t2t"
    if step < warmup and not t2t:
        start = options["start_learning_rate"]
        return start + (base - start) * step / warmup
    if kind == "constant":
        rate = base
    elif kind == "linear":
        rate = base - (base - end) * part
    elif kind == "cosine":
        rate = end + (base - end) * (1 + math.cos(math.pi * part)) / 2
    elif kind == "step":
        now = step if options.get("milestone_unit") == "steps" else epoch
        rate = base * options["factor"] ** sum(mark <= now for mark in options["milestones"])
    elif kind == "exponential" and options["decay_scheme"] == "luong10":
        start = total // 2
        rate = base * options["factor"] ** max(0, (min(step, total - 1) - start) // ((total - start) // 10))
    elif kind == "piecewise" and ">" not in options["pieces"]:
        pieces = [tuple(map(float, piece.split(":"))) for piece in options["pieces"].split(",")]
        rate = next((rate for last, rate in pieces if epoch < last), pieces[-1][1])
    else:
        raise CannotFollow(f"the PyTorch twin does not support this form of the schedule {kind}")
    return rate * 0.01 ** ((warmup - step) / warmup) if step < warmup else rate


def optimizer_of(options: Options, network: nn.Module) -> torch.optim.Optimizer:
    """PyTorch's own, of the parameters that train; biases and BatchNorm do not decay. Raises CannotFollow."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": options["weight_decay"]},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    kind = options.get("optimizer", "momentum")
    if kind == "momentum":
        return torch.optim.SGD(groups, lr=1.0, momentum=options["momentum"])
    if kind == "adam":
        betas = (options["adam_beta1"], options["adam_beta2"])
        return torch.optim.Adam(groups, lr=1.0, betas=betas, eps=options["opt_epsilon"])
    raise AssertionError(kind)  # require_followable knows these


def loss_of(options: Options) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Mean cross-entropy of logits [batch, classes] and labels [batch]."""
    smoothing = options["label_smoothing"]
    if smoothing == 0 or options["smoothing_form"] == "pytorch":
        return lambda logits, labels: functional.cross_entropy(logits, labels, label_smoothing=smoothing)

    def mindspore(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        classes = logits.shape[1]
        target = torch.full_like(logits, smoothing / (classes - 1))
        target.scatter_(1, labels[:, None], 1 - smoothing)
        return functional.cross_entropy(logits, target)

    return mindspore


def network_of(run: Path, options: Options, images: torch.Tensor) -> nn.Module:
    """The network with the run's first weights; what it froze is frozen. Raises CannotFollow."""
    weights = load_file(run / "batches" / "weights_00000000.safetensors")
    channels, height, width = images.shape[1:]
    try:
        with torch.device("meta"):
            last = list(build(options["model"], channels, height, width, 2).named_parameters())[-1][0]
    except ValueError as error:
        raise CannotFollow(f"{run}: {error}") from error
    network = build(options["model"], channels, height, width, weights[last].shape[0])
    network.load_state_dict(weights)
    set_constants(network, options.get("batch_norm_eps"), options.get("batch_norm_momentum"))
    frozen = run / "frozen.safetensors"
    names = set(safe_open(frozen, "pt").keys()) if frozen.is_file() else set()
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name not in names)
    network.train()
    for name, module in network.named_modules():
        if isinstance(module, nn.BatchNorm2d) and f"{name}.running_mean" in names:
            module.eval()
    if options["memory_format"] == "channels_last":
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def train_as(run: Path) -> pd.DataFrame:
    """Every step of the run again, by PyTorch. Raises CannotFollow.

    Columns epoch (from 1), loss and twin_loss, both of the batch before its step; the index counts steps from 1.
    """
    options = read_options(run / "config.toml")
    files = sorted((run / "batches").glob("step_????????.safetensors"))
    if any((run / "batches").glob("*.rank*")):
        raise CannotFollow(f"{run} was trained by several ranks, but the PyTorch twin is one process")
    if not files or not (run / "batches" / "weights_00000000.safetensors").is_file():
        raise CannotFollow(f"{run} does not hold the batches of all its steps; train with --hooks batches")
    require_followable(options)
    torch.manual_seed(options["seed"])  # of dropout's masks, which are others than the run's
    network = network_of(run, options, load_file(files[0])["images"])
    optimizer, loss_function = optimizer_of(options, network), loss_of(options)
    per_epoch = round(read_run(run).steps_per_epoch)
    if options["threads"]:
        torch.set_num_threads(options["threads"])
    half = options["precision"] == "bfloat16"
    lines = []
    for step, file in enumerate(files):
        batch = load_file(file)
        images = batch["images"]
        if options["memory_format"] == "channels_last":
            images = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16) if half else nullcontext():
            logits = network(images)
        loss = loss_function(logits.float(), batch["labels"])
        optimizer.zero_grad()
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(options, step, per_epoch)
            if "betas" in group:  # ours is TensorFlow's epsilon, beside the root before its correction
                group["eps"] = options["opt_epsilon"] / math.sqrt(1 - group["betas"][1] ** (step + 1))
        optimizer.step()
        lines.append((step // per_epoch + 1, batch["loss"].item(), loss.item()))
    return pd.DataFrame(lines, columns=["epoch", "loss", "twin_loss"], index=range(1, len(lines) + 1))
