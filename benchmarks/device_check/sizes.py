"""How much each part measures: in full, quickly, and so little that a processor does it in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Of all parts."""

    rounds: int  # repeats of what is paired
    # Large network on images [3, side, side] drawn at random.
    large: str
    side: int
    large_classes: int
    large_batch: int
    large_steps: int  # that count; a run makes as many before
    components: int  # of the matrix that stage 2 uses, and of the PCA
    # ConvNet on Fashion-MNIST, ResNet-20 on CIFAR-10; 0: all samples.
    convnet_samples: int
    resnet20_samples: int
    small_epochs: int  # that count; a run makes one before
    # The demo.
    demo_epochs: int
    demo_components: int
    # The PCA.
    rows: int
    columns: int
    # Agreement and accuracy.
    steps: int
    agreement_batch: int
    seeds: int
    accuracy_samples: int


FULL = Sizes(rounds=3, large="resnet50", side=224, large_classes=1000, large_batch=256, large_steps=30, components=32,
             convnet_samples=0, resnet20_samples=0, small_epochs=2, demo_epochs=20, demo_components=32, rows=60,
             columns=25_600_000, steps=10, agreement_batch=64, seeds=3, accuracy_samples=0)  # fmt: skip
QUICK = Sizes(rounds=2, large="resnet50", side=224, large_classes=1000, large_batch=256, large_steps=10, components=32,
              convnet_samples=0, resnet20_samples=12_800, small_epochs=1, demo_epochs=20, demo_components=32, rows=60,
              columns=2_560_000, steps=10, agreement_batch=64, seeds=2, accuracy_samples=20_000)  # fmt: skip
TINY = Sizes(rounds=1, large="resnet20", side=32, large_classes=10, large_batch=4, large_steps=2, components=4,
             convnet_samples=128, resnet20_samples=32, small_epochs=1, demo_epochs=3, demo_components=4, rows=12,
             columns=5000, steps=3, agreement_batch=8, seeds=1, accuracy_samples=256)  # fmt: skip
