"""Records snapshots of a training by Hugging Face's Trainer, and trains with a SubspaceOptimizer inside a Trainer."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import Trainer, TrainerCallback

from dimred._basis import Basis
from dimred._callbacks import SnapshotOptions
from dimred._minimize import own_batch
from dimred._optimizer import SubspaceOptimizer
from dimred._recorder import SnapshotRecorder


class SnapshotCallback(TrainerCallback):  # type: ignore[misc]
    """Records snapshots of the model that a Trainer trains, with a SnapshotRecorder.

        Trainer(model, arguments, callbacks=[SnapshotCallback("snapshots", per_epoch=2)], ...)

    every_steps, per_epoch, from_epoch, trainable_only: as in SnapshotRecorder. Steps are the optimizer's steps, and
        epochs are the Trainer's epochs. per_epoch is 2 if neither is given, and needs a training set of known length.

    A training from a checkpoint continues the recording.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        every_steps: int | None = None,
        per_epoch: int | None = None,
        from_epoch: int = 1,
        trainable_only: bool = True,
    ) -> None:
        self._options = SnapshotOptions(folder, every_steps, per_epoch, from_epoch, trainable_only)
        self.recorder: SnapshotRecorder | None = None

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, train_dataloader: Any = None, **_: Any
    ) -> None:
        """Makes the recorder at the start of a training."""
        try:
            steps = math.ceil(len(train_dataloader) / args.gradient_accumulation_steps)
        except TypeError:
            steps = None
        self.recorder = self._options.recorder(model, steps, state.global_step, 0 if state.is_world_process_zero else 1)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Counts each step of the optimizer."""
        if self.recorder is not None:
            self.recorder.step()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Waits for the last snapshot, so that it is on disk when train() returns."""
        if self.recorder is not None:
            self.recorder.close()

    def __getstate__(self) -> dict[str, Any]:
        """Copies for other processes make their own recorders."""
        return self.__dict__ | {"recorder": None}


class SubspaceTrainer(Trainer):  # type: ignore[misc]
    """A Trainer whose optimizer is a SubspaceOptimizer. Data, evaluation, checkpoints and logging are the Trainer's.

        SubspaceTrainer(model, arguments, basis=dimred.fit("snapshots"), preset="robust", train_dataset=texts).train()

    basis, preset, hyperparameters: as SubspaceOptimizer takes them.

    The optimizer, the schedule and max_grad_norm in `arguments` are ignored. The Trainer logs the step size of the line
    search as learning_rate.

    Raises ValueError for gradient_accumulation_steps > 1 (a line search uses one batch), for fp16 (use bf16), for
    several GPUs in one process (use torchrun), and for optimizers=.
    """

    optimizer: Any  # the Trainer's, which may wrap it

    def __init__(
        self,
        *arguments: Any,
        basis: Basis | None,
        preset: str = "robust",
        hyperparameters: Mapping[str, float | str] | None = None,
        **others: Any,
    ) -> None:
        self._searching: _SteppedBefore | None = None
        self._searched: Any = None  # the model of _searching
        super().__init__(*arguments, **others)
        if self.args.gradient_accumulation_steps > 1:
            raise ValueError(
                "[SubspaceTrainer] needs gradient_accumulation_steps = 1, because a line search uses one batch; "
                f"received {self.args.gradient_accumulation_steps}"
            )
        if self.args.fp16:
            raise ValueError("[SubspaceTrainer] needs bf16 or float32, received fp16")
        if self.args.n_gpu > 1:
            raise ValueError(
                f"[SubspaceTrainer] needs one GPU in each process, received {self.args.n_gpu}; start the program with "
                f"torchrun --nproc_per_node={self.args.n_gpu}, or choose one GPU with CUDA_VISIBLE_DEVICES"
            )
        if any(getattr(self, name) is not None for name in ("optimizer", "lr_scheduler")):
            raise ValueError("[SubspaceTrainer] makes its optimizer and scheduler itself, received optimizers=")
        self._basis, self._preset = basis, preset
        self._hyperparameters: dict[str, Any] = dict(hyperparameters or {})

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Makes the SubspaceOptimizer; create_scheduler sets the length of the run."""
        # With model_init, each train() begins with another model and without an optimizer.
        if self._searching is None or self.optimizer is None or self._searched is not self.model:
            self._searching = _SteppedBefore(
                self.model,
                self._basis,
                preset=self._preset,
                total_steps=1,
                process_group=self.args.world_size > 1,
                **self._hyperparameters,
            )
            self.optimizer, self._searched = self._searching, self.model
        return self._searching

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Returns a scheduler that reports the step sizes of the line search and changes nothing."""
        assert self._searching is not None
        self._searching.total_steps, self._searching.steps = num_training_steps, 0  # of this train()
        self.lr_scheduler = _StepSizes(self._searching)
        return self.lr_scheduler

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Takes one step and returns the loss before the step."""
        inputs = self._prepare_inputs(inputs)
        own = self.accelerator.unwrap_model(model)  # whose gradients the optimizer averages over the ranks
        own.train()

        def closure() -> Tensor:
            with self.compute_loss_context_manager():
                loss: Tensor = self.compute_loss(own, own_batch(inputs), num_items_in_batch=num_items_in_batch)
            return loss

        assert self._searching is not None
        return self._searching.search(closure).to(self.args.device)


class _StepSizes(torch.optim.lr_scheduler.LRScheduler):
    """Reports the step size of the last line search as the learning rate."""

    def __init__(self, optimizer: SubspaceOptimizer) -> None:
        super().__init__(optimizer)
        for group in optimizer.param_groups:
            del group["initial_lr"]  # by which the optimizer knows schedulers that change the rate

    def get_lr(self) -> list[float | Tensor]:
        """Returns the learning rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float | Tensor]:
        """Returns the learning rates; the Trainer asks for them before it calls step()."""
        return self.get_lr()


class _SteppedBefore(SubspaceOptimizer):
    """The Trainer calls step() after training_step has taken the step already."""

    def search(self, closure: Any) -> Tensor:
        """Takes the step."""
        return super().step(closure)

    def step(self, closure: Any = None) -> Tensor:  # type: ignore[override]
        """Does nothing."""
        return torch.zeros(())
