"""Parts of test_frameworks that need Hugging Face's Trainer alone, and one rank of a training."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
import transformers
from torch import nn
from torch.nn import functional

import dimred
from dimred.transformers import SubspaceTrainer

SAMPLES, BATCH = 40, 8  # 5 steps an epoch


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


def trained_weights(folder: Path, ranks: int) -> np.ndarray:
    """After an epoch of batches that the ranks share; a second one would amplify rounding."""
    model = Regression()
    model.network[1] = nn.Identity()  # whose statistics would be those of other batches
    matrix = np.linalg.qr(np.random.default_rng(3).normal(size=(weights(model).size, 6)))[0].T.astype(np.float32)
    chosen = arguments(folder, 1, ddp_backend="gloo" if ranks > 1 else None)
    chosen.per_device_train_batch_size = BATCH // ranks
    trainer = Subspace(model, chosen, basis=dimred.Basis(matrix, None, None), train_dataset=Rows())
    trainer.train()
    return weights(trainer.model)


def train_rank(folder: Path, environment: dict[str, str]) -> None:
    """A process whose environment says which rank it is; leaves its weights in the folder."""
    os.environ.update(environment)
    np.save(folder / f"rank_{environment['RANK']}.npy", trained_weights(folder, int(environment["WORLD_SIZE"])))
    torch.distributed.barrier()
    os._exit(0)  # Gloo's threads now and then abort the interpreter at its end
