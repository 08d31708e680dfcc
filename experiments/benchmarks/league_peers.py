"""The small training of league.py, written with a peer as its own documentation says; imports nothing of ours but the network.

    python experiments/benchmarks/league_peers.py dcp|lightning|trainer|accelerate FOLDER --data DATA [--epochs 15]

Saves at the end of every epoch into FOLDER, and goes on from the newest save there. Prints `resumed N DIGEST` (of weights and momentum as
they were loaded), `step N`, `saved N` (a save that is complete), `final DIGEST`; with --digests also `digest N DIGEST` at each save. With
--mutate the weights are spoilt in place as soon as a save in the second half has returned, and the process ends itself by kill -9 a second later.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments"))
from dimred_twins.convnet import ConvNet

BATCH, RATE, MOMENTUM, SEED = 64, 0.02, 0.9, 1


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())  # whole lines, also from a saving thread


def images_and_labels(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """The training set of four IDX files."""
    images = np.fromfile(folder / "train-images-idx3-ubyte", np.uint8, offset=16).reshape(-1, 1, 28, 28)
    labels = np.fromfile(folder / "train-labels-idx1-ubyte", np.uint8, offset=8)
    return torch.from_numpy(images.astype(np.float32) / 255), torch.from_numpy(labels.astype(np.int64))


def digest(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> str:
    """Of the bits of weights and momentum."""
    found = hashlib.sha256()
    for parameter in model.parameters():
        momentum = optimizer.state.get(parameter, {}).get("momentum_buffer")
        for tensor in (parameter, torch.zeros_like(parameter) if momentum is None else momentum):
            found.update(tensor.detach().numpy().tobytes())
    return found.hexdigest()[:16]


@dataclass
class Training:
    """What every peer trains, and what it tells of it."""

    folder: Path
    data: TensorDataset
    epochs: int
    digests: bool
    mutate: bool
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer

    @property
    def steps_of_epoch(self) -> int:
        return len(self.data) // BATCH

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = functional.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad()
        return loss

    def save_returned(self, step: int) -> None:
        """Directly after the call that saves, which may still be going on in the background."""
        if self.mutate and step >= self.epochs * self.steps_of_epoch // 2:
            with torch.no_grad():
                for parameter in self.model.parameters():
                    parameter.fill_(1e9)
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)

    def tell_digest(self, step: int) -> None:
        if self.digests:
            say("digest", step, digest(self.model, self.optimizer))

    def tell_resumed(self, step: int) -> None:
        say("resumed", step, digest(self.model, self.optimizer))


def prepared(folder: Path, data: Path, epochs: int, digests: bool, mutate: bool) -> Training:
    torch.manual_seed(SEED)
    model = ConvNet(1, 28, 28, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    return Training(folder, TensorDataset(*images_and_labels(data)), epochs, digests, mutate, model, optimizer)


def epoch_sampler(training: Training) -> DistributedSampler[Any]:
    """An order that follows from the seed and set_epoch, as torch's documentation has it for several processes; here for one."""
    return DistributedSampler(training.data, num_replicas=1, rank=0, shuffle=True, seed=SEED)


def train_dcp(training: Training) -> None:
    """torch.distributed.checkpoint as in PyTorch's recipes: a Stateful of model and optimizer, async_save, one save at a time. The newest
    folder with .metadata, which DCP writes last, is loaded, as torchtitan does."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.checkpoint.stateful import Stateful

    class AppState(Stateful):
        step = 0

        def state_dict(self) -> dict[str, Any]:
            model, optimizer = get_state_dict(training.model, training.optimizer)
            return {"model": model, "optimizer": optimizer, "step": self.step}

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            set_state_dict(training.model, training.optimizer, model_state_dict=state_dict["model"],
                           optim_state_dict=state_dict["optimizer"])  # fmt: skip
            self.step = state_dict["step"]

    app, sampler = AppState(), epoch_sampler(training)
    loader = DataLoader(training.data, BATCH, sampler=sampler)
    complete = sorted(path.parent for path in training.folder.glob("step_*/.metadata"))
    if complete:
        dcp.load({"app": app}, checkpoint_id=complete[-1])
        training.tell_resumed(app.step)
    saving: Future[Any] | None = None

    def tell_saved(done: Future[Any], step: int) -> None:
        if done.exception() is None:
            say("saved", step)

    for epoch in range(app.step // training.steps_of_epoch, training.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            training.step(images, labels).backward()
            training.optimizer.step()
            app.step += 1
            say("step", app.step)
        if saving:
            saving.result()
        training.tell_digest(app.step)
        returned = dcp.async_save({"app": app}, checkpoint_id=training.folder / f"step_{app.step:06}")
        assert isinstance(returned, Future)
        saving = returned
        training.save_returned(app.step)
        saving.add_done_callback(lambda done, step=app.step: tell_saved(done, step))  # type: ignore[misc]
    if saving:
        saving.result()


def train_lightning(training: Training) -> None:
    """ModelCheckpoint at the end of every epoch with save_last and save_on_exception (SIGTERM is one), fit(ckpt_path="last")."""
    import lightning.pytorch as lightning
    from lightning.pytorch.callbacks import ModelCheckpoint
    from lightning.pytorch.plugins.io import AsyncCheckpointIO

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = training.model

        def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
            return functional.cross_entropy(self.network(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return training.optimizer

        def on_train_start(self) -> None:
            if self.trainer.global_step:
                training.tell_resumed(self.trainer.global_step)

        def on_train_batch_end(self, *_: object) -> None:
            say("step", self.trainer.global_step)

        def on_train_epoch_end(self) -> None:
            training.tell_digest(self.trainer.global_step)

    checkpoint = ModelCheckpoint(dirpath=training.folder, save_last=True, save_on_exception=True)
    plugins = [AsyncCheckpointIO()] if training.mutate else []  # its asynchronous way to save
    trainer = lightning.Trainer(max_epochs=training.epochs, callbacks=[checkpoint], plugins=plugins, logger=False, accelerator="cpu",
                                enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False)  # fmt: skip
    save = trainer.save_checkpoint

    def saved(path: str, *words: Any, **named: Any) -> None:
        save(path, *words, **named)
        if Path(path).stem.startswith("last"):
            training.save_returned(trainer.global_step)
            say("saved", trainer.global_step)

    trainer.save_checkpoint = saved
    loader = DataLoader(training.data, BATCH, sampler=epoch_sampler(training))  # Lightning calls its set_epoch
    trainer.fit(Module(), loader, ckpt_path="last")


def train_trainer(training: Training) -> None:
    """Hugging Face's Trainer: save_strategy="epoch", save_total_limit=2, enable_jit_checkpoint for SIGTERM; resumes from get_last_checkpoint
    as its example scripts do, which is resume_from_checkpoint=True where there is one."""
    from transformers import Trainer, TrainerCallback, TrainingArguments
    from transformers.trainer_utils import get_last_checkpoint

    class Classifier(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = training.model

        def forward(self, images: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            logits = self.network(images)
            return {"loss": functional.cross_entropy(logits, labels), "logits": logits}

    class Teller(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step:
                training.tell_resumed(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            say("step", state.global_step)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            training.tell_digest(state.global_step)

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            training.save_returned(state.global_step)
            say("saved", state.global_step)

    arguments = TrainingArguments(
        str(training.folder), num_train_epochs=training.epochs, per_device_train_batch_size=BATCH, learning_rate=RATE, max_grad_norm=0,
        lr_scheduler_type="constant", save_strategy="epoch", save_total_limit=2, enable_jit_checkpoint=True, logging_strategy="no",
        report_to=[], use_cpu=True, disable_tqdm=True, seed=SEED, dataloader_pin_memory=False,
    )  # fmt: skip
    items = [{"images": images, "labels": labels} for images, labels in zip(*training.data.tensors, strict=True)]
    trainer = Trainer(Classifier(), arguments, train_dataset=items, optimizers=(training.optimizer, None), callbacks=[Teller()])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(training.folder)))


def train_accelerate(training: Training) -> None:
    """Accelerator's save_state with automatic_checkpoint_naming and total_limit=2, and load_state of the latest; a seedable sampler, and
    the progress registered for checkpointing."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration, ProjectConfiguration, set_seed

    class Progress:
        epoch = 0

        def state_dict(self) -> dict[str, int]:
            return {"epoch": self.epoch}

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.epoch = state["epoch"]

    set_seed(SEED)
    names = ProjectConfiguration(project_dir=str(training.folder), automatic_checkpoint_naming=True, total_limit=2)
    accelerator = Accelerator(cpu=True, project_config=names, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
    model, optimizer, loader = accelerator.prepare(training.model, training.optimizer, DataLoader(training.data, BATCH, shuffle=True))
    progress = Progress()
    accelerator.register_for_checkpointing(progress)
    if any(training.folder.glob("checkpoints/*")):
        accelerator.load_state()
        names.iteration = progress.epoch  # the error text of save_state asks for this
        training.tell_resumed(progress.epoch * training.steps_of_epoch)
    for epoch in range(progress.epoch, training.epochs):
        loader.set_epoch(epoch)
        for number, (images, labels) in enumerate(loader, epoch * training.steps_of_epoch + 1):
            optimizer.zero_grad()
            accelerator.backward(functional.cross_entropy(model(images), labels))
            optimizer.step()
            say("step", number)
        progress.epoch, step = epoch + 1, (epoch + 1) * training.steps_of_epoch
        training.tell_digest(step)
        accelerator.save_state()
        training.save_returned(step)
        say("saved", step)


# What each imports; league.py does so once and forks its processes from there, but for a few, whose start is timed.
IMPORTS = {
    "dcp": ("torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict"),
    "lightning": ("lightning.pytorch", "lightning.pytorch.callbacks", "lightning.pytorch.plugins.io"),
    "trainer": ("transformers.trainer",),
    "accelerate": ("accelerate", "accelerate.utils"),
}
PEERS = {"dcp": train_dcp, "lightning": train_lightning, "trainer": train_trainer, "accelerate": train_accelerate}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--digests", action="store_true")
    parser.add_argument("--mutate", action="store_true")
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    training = prepared(given.folder, given.data, given.epochs, given.digests, given.mutate)
    PEERS[given.peer](training)
    say("final", digest(training.model, training.optimizer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
