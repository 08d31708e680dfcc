"""Small networks, whose steps cost what launching them costs: epochs of ours against a plain PyTorch loop."""

from __future__ import annotations

from pathlib import Path

from .check import Check, epoch_seconds, in_turns
from .figures import Figure, at_least, ratios
from .processes import Failed, Stopped

BAR = at_least(6)


def decoded(check: Check, name: str) -> Path | None:
    """The data set as a packed file of decoded images, which both sides read; None: it is not here."""
    source = check.place.data.get(name)
    if not source:
        return None
    folder = check.scratch / f"{name}_planes"
    if not (folder / "train.packed").is_file() or not (folder / "test.packed").is_file():
        check.run("dimred", "data", "pack", source, "--encoding=planes", f"--output={folder}", "--quiet")
    return folder


def ours(
    check: Check, model: str, data: Path | None, samples: int, batch: int, shape: list[int], augment: bool
) -> dict[str, float]:
    """Seconds of an epoch that is not the first, with and without waits for data."""
    options: dict[str, object] = {"model": model, "batch_size": batch, "epochs": 1 + check.sizes.small_epochs,
                                  "snapshots_per_epoch": 0, "checkpoint_every": 1000, "learning_rate": 0.001,
                                  "test_samples": batch, "train_samples": samples, "quiet": "true"}  # fmt: skip
    options |= {"data": data} if data else {"dataset": "mock", "mock_shape": ",".join(map(str, shape))}
    options |= {"pad": 4, "flip": "true"} if augment else {}
    options |= {"tf32": "true", "cudnn_autotune": "true"} if check.on_device else {}  # as the peer's
    run = check.folder("small")
    check.train("stage1", run, **options)
    epoch, compute = epoch_seconds(run)
    return {"dimred": epoch, "dimred, without waits for data": compute}


def compare(check: Check, model: str, name: str, samples: int, batch: int, shape: list[int], augment: bool) -> None:
    """Rounds of ours and of tensors that lie on the device already; DataLoader once."""
    data = decoded(check, name)
    source = "" if data else "images drawn at random: that data set is not here"
    request = {"name": model, "data": str(data / "train.packed") if data else None, "samples": samples, "shape": shape,
               "batch": batch, "augment": augment}  # fmt: skip

    def one_round(turn: int) -> dict[str, float]:
        found: dict[str, float] = {}
        for contestant in in_turns(["dimred", "resident"], turn):
            if contestant == "dimred":
                found |= ours(check, model, data, samples, batch, shape, augment)
            else:
                seconds = check.peers.ask("epoch", check.left(), loader=False, **request)["seconds"]
                found["PyTorch, tensors on the device"] = float(seconds)
        return found

    rounds = check.rounds(one_round)
    told = ratios(rounds, "PyTorch, tensors on the device", "dimred")
    check.add(Figure(f"{model}, batch {batch}: PyTorch loop / ours", told, "x", BAR, rounds, source))
    check.add(Figure(f"{model}: seconds of our epoch", [r["dimred"] for r in rounds], "s", note=source))
    try:
        seconds = float(check.peers.ask("epoch", check.left(), loader=True, **request)["seconds"])
        check.add(Figure(f"{model}: PyTorch's DataLoader / ours", [seconds / r["dimred"] for r in rounds], "x"))
    except (Failed, Stopped) as error:
        check.leave_out(f"{model} with DataLoader", str(error))


def convnet(check: Check) -> None:
    """On Fashion-MNIST."""
    compare(check, "convnet", "fashion", check.sizes.convnet_samples, 64, [1, 28, 28], augment=False)


def resnet20(check: Check) -> None:
    """On CIFAR-10, padded, cropped and flipped at random."""
    batch = 128 if check.on_device else 8
    compare(check, "resnet20", "cifar10", check.sizes.resnet20_samples, batch, [3, 32, 32], augment=True)
