"""Lightning and Hugging Face's Trainer: snapshots as callbacks, and SubspaceOptimizer in their loops, against the plain loop."""

from __future__ import annotations

import os
import re
import runpy
import socket
import subprocess
import sys
from pathlib import Path

import h5py
import lightning.pytorch as lightning
import numpy as np
import pytest
import torch
import transformers
from conftest import PACKAGE, REPOSITORY
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from trainer_parts import BATCH, PlainTrainer, Regression, Rows, Subspace, arguments, data, network, trained_weights, weights

import dimred
from dimred.lightning import SnapshotCallback as LightningSnapshots
from dimred.transformers import SnapshotCallback as TrainerSnapshots

def stored(file: Path) -> np.ndarray:
    with h5py.File(file) as snapshot:
        return np.array(snapshot["weights"])


def plain_loop(optimizer_of, epochs: int) -> list[np.ndarray]:
    """The weights after each step."""
    model, after = network(), []
    optimizer = optimizer_of(model)
    for _ in range(epochs):
        for x, y in DataLoader(TensorDataset(*data()), BATCH):
            if isinstance(optimizer, dimred.SubspaceOptimizer):
                optimizer.step(lambda x=x, y=y: functional.mse_loss(model(x), y))
            else:
                optimizer.zero_grad()
                functional.mse_loss(model(x), y).backward()
                optimizer.step()
            after.append(weights(model))
    return after


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def basis() -> dimred.Basis:
    return dimred.fit(np.stack(plain_loop(sgd, 3)), 6, progress=False)


def searched(model: nn.Module) -> dimred.SubspaceOptimizer:
    return dimred.SubspaceOptimizer(model, basis())


class Module(lightning.LightningModule):
    """By Lightning's own loop, or by a searched step."""

    def __init__(self, optimizer_of, fails_at: int = -1) -> None:
        super().__init__()
        self.network, self.optimizer_of, self.fails_at = network(), optimizer_of, fails_at
        self.automatic_optimization = optimizer_of is sgd

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.optimizer_of(self.network)

    def training_step(self, batch, index: int):
        if self.trainer.global_step == self.fails_at:
            raise RuntimeError("the loader broke")
        x, y = batch
        if self.automatic_optimization:
            return functional.mse_loss(self.network(x), y)
        self.optimizers().step(lambda: functional.mse_loss(self.network(x), y))
        return None


def fit(module: Module, epochs: int, *callbacks, **others) -> None:
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False, callbacks=list(callbacks))  # fmt: skip
    trainer.fit(module, DataLoader(TensorDataset(*data()), BATCH), **others)
    module.trainer_of_last_fit = trainer


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_lightning_records_the_weights_of_its_steps(tmp_path: Path) -> None:
    module = Module(sgd)
    fit(module, 2, LightningSnapshots(tmp_path / "w", per_epoch=2))
    after = plain_loop(sgd, 2)
    assert names(tmp_path / "w") == [f"snapshot_{step:08d}.h5" for step in (3, 5, 8, 10)]
    for step in (3, 5, 8, 10):
        np.testing.assert_array_equal(stored(tmp_path / "w" / f"snapshot_{step:08d}.h5"), after[step - 1])


def test_lightning_goes_on_with_a_recording(tmp_path: Path) -> None:
    module = Module(sgd)
    fit(module, 1, LightningSnapshots(tmp_path / "w", every_steps=2))
    module.trainer_of_last_fit.save_checkpoint(tmp_path / "last.ckpt")
    again = Module(sgd)
    fit(again, 2, LightningSnapshots(tmp_path / "w", every_steps=2), ckpt_path=tmp_path / "last.ckpt")
    after = plain_loop(sgd, 2)
    assert names(tmp_path / "w") == [f"snapshot_{step:08d}.h5" for step in (2, 4, 6, 8, 10)]
    for step in (4, 6, 10):
        np.testing.assert_array_equal(stored(tmp_path / "w" / f"snapshot_{step:08d}.h5"), after[step - 1])


def test_lightning_keeps_its_error_and_the_snapshots_before_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the loader broke"):
        fit(Module(sgd, fails_at=4), 1, LightningSnapshots(tmp_path / "w", every_steps=1))
    assert len(names(tmp_path / "w")) == 4


def test_lightning_takes_searched_steps_by_manual_optimization() -> None:
    module = Module(searched)
    fit(module, 2)
    np.testing.assert_array_equal(weights(module.network), plain_loop(searched, 2)[-1])
    assert module.trainer_of_last_fit.global_step == 10


def test_trainer_records_the_weights_of_its_steps(tmp_path: Path) -> None:
    trainer = PlainTrainer(Regression(), arguments(tmp_path / "out", 2), train_dataset=Rows(), callbacks=[TrainerSnapshots(tmp_path / "w")])
    seen = []
    trainer.add_callback(type("Seen", (transformers.TrainerCallback,), {"on_step_end": lambda *_, model, **__: seen.append(weights(model))}))
    trainer.train()
    assert names(tmp_path / "w") == [f"snapshot_{step:08d}.h5" for step in (3, 5, 8, 10)]
    for step in (3, 5, 8, 10):
        np.testing.assert_array_equal(stored(tmp_path / "w" / f"snapshot_{step:08d}.h5"), seen[step - 1])


def test_trainer_takes_searched_steps(tmp_path: Path) -> None:
    trainer = Subspace(Regression(), arguments(tmp_path / "out", 2), basis=basis(), train_dataset=Rows())
    trainer.train()
    np.testing.assert_array_equal(weights(trainer.model), plain_loop(searched, 2)[-1])
    logged = [entry for entry in trainer.state.log_history if "learning_rate" in entry]
    assert [entry["learning_rate"] > 0 for entry in logged] == [True] * 10 and logged[5]["loss"] < logged[0]["loss"]  # of the first batch


def test_trainer_searches_in_bfloat16(tmp_path: Path) -> None:
    """On a processor: weights, momentum and sums in float32, the passes under torch's autocast."""
    trainer = Subspace(Regression(), arguments(tmp_path / "out", 1, bf16=True), basis=basis(), train_dataset=Rows())
    trainer.train()
    model = network()
    optimizer = searched(model)
    for x, y in DataLoader(TensorDataset(*data()), BATCH):

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return functional.mse_loss(model(x), y)

        optimizer.step(closure)
    assert {parameter.dtype for parameter in trainer.model.parameters()} == {torch.float32}
    np.testing.assert_array_equal(weights(trainer.model), weights(model))
    assert not np.array_equal(weights(model), plain_loop(searched, 1)[-1])


def test_trainer_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    whole = Subspace(Regression(), arguments(tmp_path / "out", 2, save_strategy="steps", save_steps=5), basis=basis(), train_dataset=Rows())
    whole.train()
    other = Subspace(Regression(), arguments(tmp_path / "out", 2), basis=basis(), train_dataset=Rows())
    other.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-5"))
    np.testing.assert_array_equal(weights(other.model), weights(whole.model))


def test_ranks_of_trainer_take_the_steps_of_one(tmp_path: Path) -> None:
    paths = [str(PACKAGE), str(REPOSITORY / "tests" / "python")]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"PYTHONPATH": os.pathsep.join(paths), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [subprocess.Popen([sys.executable, REPOSITORY / "tests" / "python" / "trainer_parts.py", tmp_path],
                              env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.DEVNULL)
             for rank in (0, 1)]  # fmt: skip
    one = trained_weights(tmp_path, 1)
    assert [rank.wait(timeout=300) for rank in ranks] == [0, 0]
    first, second = (np.load(tmp_path / f"rank_{rank}.npy") for rank in (0, 1))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, one, atol=1e-5)


def test_the_page_s_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(REPOSITORY / "docs")
    page = (REPOSITORY / "docs" / "how-to" / "use_with_lightning_and_transformers.md").read_text()
    (tmp_path / "page.py").write_text("".join(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)))
    torch.manual_seed(5)
    known = runpy.run_path(str(tmp_path / "page.py"))
    assert len(names(tmp_path / "snapshots")) == 60 and len(names(tmp_path / "line")) == 20
    assert known["trainer"].state.log_history[-1]["train_loss"] < 4.5  # log 256 = 5.5 before the first step


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    for make, text in (
        (lambda: LightningSnapshots(tmp_path, every_steps=2, per_epoch=2), "needs every_steps or per_epoch"),
        (lambda: TrainerSnapshots(tmp_path, every_steps=2, per_epoch=2), "needs every_steps or per_epoch"),
        (lambda: Subspace(Regression(), arguments(tmp_path, 1, gradient_accumulation_steps=2), basis=None), "gradient_accumulation_steps = 1"),
        (lambda: Subspace(Regression(), arguments(tmp_path, 1), basis=None, optimizers=(sgd(network()), None)), "received optimizers="),
    ):
        with pytest.raises(ValueError, match=text):
            make()
