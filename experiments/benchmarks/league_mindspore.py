"""The small training of league.py in MindSpore, in the environment of scripts/mindspore.sh; see league_peers.py for what it prints.

    .venv-mindspore/bin/python experiments/benchmarks/league_mindspore.py FOLDER --data DATA [--epochs 15]

As MindSpore's page "Fault Recovery" has it: ModelCheckpoint with CheckpointConfig(append_info), the newest .ckpt by its time of creation,
load_checkpoint, load_param_into_net (network and optimizer), Model.train(initial_epoch), no shuffling. It is given crc_check and
exception_save, which are off by default, and for --mutate async_save.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore.dataset as sets
import numpy as np
from mindspore import nn
from mindspore.train import Callback, CheckpointConfig, Model, ModelCheckpoint
from mindspore_side import ConvNet

BATCH, RATE, MOMENTUM, SEED = 64, 0.02, 0.9, 1


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def digest(optimizer: nn.Momentum) -> str:
    """Of the bits of weights and momentum."""
    found = hashlib.sha256()
    for parameter in (*optimizer.parameters, *optimizer.moments):
        found.update(parameter.asnumpy().tobytes())
    return found.hexdigest()[:16]


def batches(folder: Path) -> Any:
    images = np.fromfile(folder / "train-images-idx3-ubyte", np.uint8, offset=16).reshape(-1, 1, 28, 28).astype(np.float32) / 255
    labels = np.fromfile(folder / "train-labels-idx1-ubyte", np.uint8, offset=8).astype(np.int32)
    return sets.NumpySlicesDataset((images, labels), shuffle=False).batch(BATCH, drop_remainder=True)


class Teller(Callback):  # type: ignore[misc]
    """Behind ModelCheckpoint in the list of callbacks."""

    def __init__(self, optimizer: nn.Momentum, began: int, each: int, last: int, digests: bool, mutate: bool) -> None:
        super().__init__()
        self.optimizer, self.began, self.each, self.last = optimizer, began, each, last
        self.digests, self.mutate = digests, mutate

    def on_train_step_end(self, run_context: Any) -> None:
        step = self.began + run_context.original_args().cur_step_num  # which counts this process's own
        say("step", step)
        if step % self.each:
            return
        if self.digests:
            say("digest", step, digest(self.optimizer))
        if self.mutate and step >= self.last // 2:
            for parameter in self.optimizer.parameters:
                parameter.set_data(ms.Tensor(np.full(parameter.shape, 1e9, np.float32)))
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)
        say("saved", step)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--digests", action="store_true")
    parser.add_argument("--mutate", action="store_true")
    given = parser.parse_args()
    ms.set_seed(SEED)
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU", runtime_num_threads=1)
    network, data, began = ConvNet(), batches(given.data), 0
    optimizer = nn.Momentum(network.trainable_params(), RATE, MOMENTUM)
    model = Model(network, loss_fn=nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"), optimizer=optimizer)
    saves = sorted(given.folder.glob("*.ckpt"), key=os.path.getctime)
    if saves:
        parameters = ms.load_checkpoint(str(saves[-1]), crc_check=True)
        ms.load_param_into_net(network, parameters)
        ms.load_param_into_net(optimizer, parameters)
        began = int(parameters["epoch_num"].asnumpy())
        say("resumed", began * data.get_dataset_size(), digest(optimizer))
    each = data.get_dataset_size()
    config = CheckpointConfig(save_checkpoint_steps=each, keep_checkpoint_max=2, append_info=["epoch_num", "step_num"], crc_check=True,
                              exception_save=True, async_save=given.mutate)  # fmt: skip
    saving = ModelCheckpoint(prefix="league", directory=str(given.folder), config=config)
    teller = Teller(optimizer, began * each, each, each * given.epochs, given.digests, given.mutate)
    if began < given.epochs:
        model.train(given.epochs, data, callbacks=[saving, teller], initial_epoch=began, dataset_sink_mode=False)
    say("final", digest(optimizer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
