"""Parts of test_frameworks, and one rank of its trainings."""

from __future__ import annotations

import os
from pathlib import Path

import lightning.pytorch as lightning
import numpy as np
import torch
import transformers
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import dimred
from dimred.transformers import SubspaceTrainer

SAMPLES, BATCH = 40, 8  # 5 steps an epoch
QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(SAMPLES, 6, generator=generator)
    return x, x @ torch.randn(6, 2, generator=generator) + 0.1 * torch.randn(SAMPLES, 2, generator=generator)


def network() -> nn.Sequential:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.Tanh(), nn.Linear(9, 2))


def weights(module: nn.Module) -> np.ndarray:
    return nn.utils.parameters_to_vector(module.parameters()).detach().numpy().copy()


class Regression(nn.Module):
    """A model as Trainer wants it: its output is a dictionary with the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        out = self.network(x)
        return {"loss": functional.mse_loss(out, labels), "logits": out}


class Rows(torch.utils.data.Dataset):
    """A data set of rows as Trainer wants them."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        x, y = data()
        return {"x": x[index], "labels": y[index]}


class InOrder:
    """Without Trainer's shuffling."""

    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(Rows())


class PlainTrainer(InOrder, transformers.Trainer):
    pass


class Subspace(InOrder, SubspaceTrainer):
    pass


def arguments(folder: Path, epochs: int, **others) -> transformers.TrainingArguments:
    return transformers.TrainingArguments(
        str(folder),
        num_train_epochs=epochs,
        per_device_train_batch_size=BATCH,
        use_cpu=True,
        report_to=[],
        save_strategy=others.pop("save_strategy", "no"),
        logging_steps=1,
        disable_tqdm=True,
        **others,
    )


def without_statistics() -> nn.Sequential:
    """The network without BatchNorm, whose statistics on ranks would be those of other batches."""
    model = network()
    model[1] = nn.Identity()
    return model


def random_basis(model: nn.Module) -> dimred.Basis:
    matrix = np.linalg.qr(np.random.default_rng(3).normal(size=(weights(model).size, 6)))[0].T.astype(np.float32)
    return dimred.Basis(matrix, None, None)


def trained_weights(folder: Path, ranks: int) -> np.ndarray:
    """After an epoch of batches that the ranks share; a second one would amplify rounding."""
    model = Regression()
    model.network = without_statistics()
    chosen = arguments(folder, 1, ddp_backend="gloo" if ranks > 1 else None)
    chosen.per_device_train_batch_size = BATCH // ranks
    trainer = Subspace(model, chosen, basis=random_basis(model), train_dataset=Rows())
    trainer.train()
    return weights(trainer.model)


class Searched(lightning.LightningModule):
    """A searched step by manual optimization, as docs/how-to/use_with_lightning_and_transformers.md has it."""

    def __init__(self) -> None:
        super().__init__()
        self.network, self.automatic_optimization = without_statistics(), False

    def configure_optimizers(self) -> torch.optim.Optimizer:
        several = self.trainer.world_size > 1
        return dimred.SubspaceOptimizer(self, random_basis(self), process_group=several)

    def training_step(self, batch, index: int) -> None:
        x, y = batch
        self.optimizers().step(lambda: functional.mse_loss(self.network(x), y))


def fitted_weights(ranks: int) -> np.ndarray:
    """The same by Lightning, whose DistributedDataParallel is around the ranks' modules."""
    module, rank = Searched(), int(os.environ["RANK"]) if ranks > 1 else 0
    trainer = lightning.Trainer(
        max_epochs=1,
        devices=ranks,
        strategy="ddp" if ranks > 1 else "auto",
        use_distributed_sampler=False,  # it shuffles
        **QUIET,
    )
    own = TensorDataset(*(part[rank::ranks] for part in data()))
    trainer.fit(module, DataLoader(own, BATCH // ranks))
    return weights(module)


def train_rank(folder: Path, environment: dict[str, str]) -> None:
    """A process whose environment says which rank it is; leaves its weights in the folder."""
    os.environ.update(environment)
    rank, ranks = environment["RANK"], int(environment["WORLD_SIZE"])
    np.save(folder / f"rank_{rank}.npy", trained_weights(folder, ranks))
    np.save(folder / f"lightning_{rank}.npy", fitted_weights(ranks))
    torch.distributed.barrier()
    os._exit(0)  # Gloo's threads now and then abort the interpreter at its end
