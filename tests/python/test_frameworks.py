"""Lightning and Hugging Face's Trainer: snapshots as callbacks, and SubspaceOptimizer in their loops, against the plain
loop."""

from __future__ import annotations

import csv
import importlib.util
import multiprocessing
import os
import pickle
import re
import runpy
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import accelerate
import h5py
import huggingface_hub
import lightning.pytorch as lightning
import numpy as np
import pytest
import safetensors.torch
import torch
import transformers
from conftest import PACKAGE, REPOSITORY
from lightning.pytorch.callbacks import GradientAccumulationScheduler, LearningRateMonitor, StochasticWeightAveraging
from lightning.pytorch.loggers import CSVLogger
from ranks import free_port
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from trainer_parts import (
    BATCH,
    QUIET,
    SAMPLES,
    PlainTrainer,
    Regression,
    Rows,
    Subspace,
    arguments,
    data,
    fitted_weights,
    network,
    random_basis,
    train_rank,
    trained_weights,
    weights,
)

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
    """A network that Lightning's own loop trains, or a searched step."""

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


class ByHand(Module):
    """Steps by manual optimization: of two optimizers a batch, or of one in every second batch."""

    def __init__(self, two: bool) -> None:
        super().__init__(sgd)
        self.two, self.automatic_optimization = two, False

    def configure_optimizers(self) -> Any:
        return [sgd(self.network[:2]), sgd(self.network[2:])] if self.two else [sgd(self.network)]

    def training_step(self, batch, index: int) -> None:
        x, y = batch
        self.manual_backward(functional.mse_loss(self.network(x), y))
        optimizers = self.optimizers() if self.two else [self.optimizers()]
        for optimizer in optimizers if self.two or index % 2 == 1 else []:
            optimizer.step()
            optimizer.zero_grad()


def fit(module: Module, epochs: int, *callbacks, batch: int = BATCH, **others) -> None:
    trainer = lightning.Trainer(max_epochs=epochs, callbacks=list(callbacks), **QUIET)
    trainer.fit(module, DataLoader(TensorDataset(*data()), batch), **others)
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


def epochs_of(folder: Path) -> dict[int, int]:
    """The epoch that each snapshot carries, by step."""
    carried = {}
    for file in sorted(folder.glob("*.h5")):
        with h5py.File(file) as snapshot:
            carried[int(snapshot.attrs["step"])] = int(snapshot.attrs["epoch"])
    return carried


@pytest.mark.parametrize(
    ("make", "others", "expected"),
    [
        (lambda: ByHand(two=True), [], {6: 1, 10: 1, 16: 2, 20: 2}),
        (lambda: ByHand(two=False), [], {1: 1, 2: 1, 3: 2, 4: 2}),
        (lambda: Module(sgd), [GradientAccumulationScheduler({0: 1, 1: 4})], {3: 1, 5: 1, 6: 2, 7: 2}),
    ],
    ids=["two optimizers", "accumulation by hand", "accumulation by schedule"],
)
def test_lightning_s_epochs_are_its_trainer_s(make, others: list, expected: dict[int, int], tmp_path: Path) -> None:
    """5 batches an epoch, of which two get a snapshot, whatever steps they make."""
    fit(make(), 2, LightningSnapshots(tmp_path / "w", per_epoch=2), *others)
    assert epochs_of(tmp_path / "w") == expected
    fit(make(), 2, LightningSnapshots(tmp_path / "last", per_epoch=2, from_epoch=2), *others)
    assert epochs_of(tmp_path / "last") == {step: epoch for step, epoch in expected.items() if epoch == 2}


def test_lightning_s_epochs_outlive_another_batch_size(tmp_path: Path) -> None:
    module = Module(sgd)
    fit(module, 1, LightningSnapshots(tmp_path / "w", per_epoch=1))
    module.trainer_of_last_fit.save_checkpoint(tmp_path / "last.ckpt")
    callback = LightningSnapshots(tmp_path / "w", per_epoch=1)
    fit(Module(sgd), 3, callback, batch=BATCH // 2, ckpt_path=tmp_path / "last.ckpt")
    assert epochs_of(tmp_path / "w") == {5: 1, 15: 2, 25: 3}
    copied = pickle.loads(pickle.dumps(deepcopy(callback)))
    assert callback.recorder is not None and copied.recorder is None


def test_steps_of_two_optimizers_make_one_snapshot(tmp_path: Path) -> None:
    """Each 3 steps, of which a batch makes 2: its weights are those after both."""
    fit(ByHand(two=True), 1, LightningSnapshots(tmp_path / "w", every_steps=3))
    assert epochs_of(tmp_path / "w") == {4: 1, 6: 1, 10: 1}


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


@pytest.mark.parametrize("when", [{"per_epoch": 2}, {"every_steps": 1}], ids=str)
@pytest.mark.parametrize("averages_first", [False, True])
def test_lightning_s_epoch_of_averaged_weights_is_not_recorded(when, averages_first: bool, tmp_path: Path) -> None:
    """StochasticWeightAveraging adds an epoch for BatchNorm's statistics; its weights are no step of the training."""
    callbacks = [LightningSnapshots(tmp_path / "w", **when), StochasticWeightAveraging(0.05, swa_epoch_start=1)]
    module = Module(sgd)
    fit(module, 2, *(reversed(callbacks) if averages_first else callbacks))
    assert module.trainer_of_last_fit.current_epoch == 3
    assert set(epochs_of(tmp_path / "w").values()) == {1, 2} and max(epochs_of(tmp_path / "w")) == 10


def test_lightning_keeps_its_error_and_the_snapshots_before_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the loader broke"):
        fit(Module(sgd, fails_at=4), 1, LightningSnapshots(tmp_path / "w", every_steps=1))
    assert len(names(tmp_path / "w")) == 4


def test_lightning_takes_searched_steps_by_manual_optimization() -> None:
    module = Module(searched)
    fit(module, 2)
    np.testing.assert_array_equal(weights(module.network), plain_loop(searched, 2)[-1])
    assert module.trainer_of_last_fit.global_step == 10


def after_each_step(call: Callable[..., None]) -> type[transformers.TrainerCallback]:
    return type("AfterEachStep", (transformers.TrainerCallback,), {"on_step_end": call})


def test_trainer_records_the_weights_of_its_steps(tmp_path: Path) -> None:
    trainer = PlainTrainer(
        Regression(), arguments(tmp_path / "out", 2), train_dataset=Rows(), callbacks=[TrainerSnapshots(tmp_path / "w")]
    )
    seen = []
    trainer.add_callback(after_each_step(lambda *_, model, **__: seen.append(weights(model))))
    trainer.train()
    assert names(tmp_path / "w") == [f"snapshot_{step:08d}.h5" for step in (3, 5, 8, 10)]
    for step in (3, 5, 8, 10):
        np.testing.assert_array_equal(stored(tmp_path / "w" / f"snapshot_{step:08d}.h5"), seen[step - 1])


def test_a_training_that_broke_off_is_recorded_on(tmp_path: Path) -> None:
    """Trainer tells no callback of an error; the next training takes the folder over."""
    broken = PlainTrainer(
        Regression(),
        arguments(tmp_path / "out", 2, save_strategy="steps", save_steps=5),
        train_dataset=Rows(),
        callbacks=[TrainerSnapshots(tmp_path / "w", per_epoch=5)],
    )

    def fail(_: object, arguments: object, state: transformers.TrainerState, *__, **___) -> None:
        if state.global_step == 7:
            raise RuntimeError("the loader broke")

    broken.add_callback(after_each_step(fail))
    with pytest.raises(RuntimeError, match="the loader broke"):
        broken.train()
    again = PlainTrainer(
        Regression(),
        arguments(tmp_path / "out", 2),
        train_dataset=Rows(),
        callbacks=[TrainerSnapshots(tmp_path / "w", per_epoch=5)],
    )
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-5"))
    assert epochs_of(tmp_path / "w") == {step: 1 + (step > 5) for step in range(1, 11)}


def test_trainer_takes_searched_steps(tmp_path: Path) -> None:
    trainer = Subspace(Regression(), arguments(tmp_path / "out", 2), basis=basis(), train_dataset=Rows())
    trainer.train()
    np.testing.assert_array_equal(weights(trainer.model), plain_loop(searched, 2)[-1])
    logged = [entry for entry in trainer.state.log_history if "learning_rate" in entry]
    assert [entry["learning_rate"] > 0 for entry in logged] == [True] * 10 and logged[5]["loss"] < logged[0][
        "loss"
    ]  # of the first batch


def test_a_second_training_has_rates_of_its_own(tmp_path: Path) -> None:
    """A preset's rates fall to 0 at the end of each."""
    trainer = Subspace(Regression(), arguments(tmp_path / "out", 2), basis=None, preset="sgd", train_dataset=Rows())
    for _ in range(2):
        before = weights(trainer.model)
        trainer.train()
        assert np.abs(weights(trainer.model) - before).max() > 1e-4


class Outputs(nn.Module):
    """Regression() without a loss, which is the Trainer's to compute."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Regression().network

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.network(x)}


def squares(outputs: dict[str, torch.Tensor], labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    return functional.mse_loss(outputs["logits"], labels)


class Popping(Subspace):
    def compute_loss(self, model: nn.Module, inputs: Any, *_: Any, **__: Any) -> torch.Tensor:
        assert isinstance(inputs, transformers.BatchEncoding)
        labels = inputs.pop("labels")
        return squares(model(**inputs), labels)


@pytest.mark.parametrize("kind", [Popping, Subspace])
def test_losses_that_take_the_labels_out_of_a_batch(kind: type[Subspace], tmp_path: Path) -> None:
    """A line search computes the loss of one batch several times."""
    trainer = kind(
        Outputs(),
        arguments(tmp_path / "out", 2, remove_unused_columns=False),
        basis=basis(),
        train_dataset=Rows(),
        data_collator=lambda rows: transformers.BatchEncoding(transformers.default_data_collator(rows)),
        compute_loss_func=squares if kind is Subspace else None,
    )
    trainer.train()
    np.testing.assert_array_equal(weights(trainer.model), plain_loop(searched, 2)[-1])


def test_labels_are_smoothed_at_each_trial(tmp_path: Path) -> None:
    pieces = [{"input_ids": piece, "labels": piece} for piece in TOKENS.repeat(SAMPLES // len(TOKENS), 1)]
    chosen = arguments(tmp_path / "out", 1, label_smoothing_factor=0.1)
    plain = PlainTrainer(language_model(), chosen, train_dataset=pieces)
    model = language_model()
    trainer = Subspace(model, chosen, basis=random_basis(model), train_dataset=pieces)
    losses = []
    for one in (plain, trainer):
        one.train()
        losses.append([entry["loss"] for entry in one.state.log_history if "loss" in entry])
    assert losses[1][0] == pytest.approx(losses[0][0], rel=1e-4) and losses[1][-1] < losses[1][0]


@pytest.mark.parametrize("by_trainer", [True, False])
def test_each_training_of_a_new_model_has_its_own_optimizer(by_trainer: bool, tmp_path: Path) -> None:
    """With model_init, the Trainer makes the model of each training; otherwise its user may replace the model."""
    given: dict[str, Any] = {"model_init": Regression} if by_trainer else {"model": Regression()}
    trainer = Subspace(args=arguments(tmp_path / "out", 2), basis=basis(), train_dataset=Rows(), **given)
    for _ in range(2):
        trainer.train()
        np.testing.assert_array_equal(weights(trainer.model), plain_loop(searched, 2)[-1])
        if not by_trainer:
            trainer.model = trainer.model_wrapped = Regression()


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
    whole = Subspace(
        Regression(),
        arguments(tmp_path / "out", 2, save_strategy="steps", save_steps=5),
        basis=basis(),
        train_dataset=Rows(),
    )
    whole.train()
    other = Subspace(Regression(), arguments(tmp_path / "out", 2), basis=basis(), train_dataset=Rows())
    other.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-5"))
    np.testing.assert_array_equal(weights(other.model), weights(whole.model))


def test_ranks_of_both_trainers_take_the_steps_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGE), str(Path(__file__).parent)]))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["trainer_parts"])  # so that Transformers is imported once
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [
        context.Process(target=train_rank, args=(tmp_path, common | {"RANK": rank, "LOCAL_RANK": rank}))
        for rank in "01"
    ]
    for process in ranks:
        process.start()
    one = trained_weights(tmp_path, 1)
    for process in ranks:
        process.join(timeout=300)
        assert process.exitcode == 0
    for name, alone in (("rank", one), ("lightning", fitted_weights(1))):
        first, second = (np.load(tmp_path / f"{name}_{rank}.npy") for rank in (0, 1))
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(first, alone, atol=1e-5)


# What a model weighs after a saver and a loader is what it weighed before them.


def by_torch(model: nn.Module, folder: Path) -> Callable[[nn.Module], object]:
    torch.save(model.state_dict(), folder / "model.pt")
    return lambda other: other.load_state_dict(torch.load(folder / "model.pt"))


def by_save_file(model: nn.Module, folder: Path) -> Callable[[nn.Module], object]:
    safetensors.torch.save_file(model.state_dict(), folder / "model.safetensors")
    return lambda other: other.load_state_dict(safetensors.torch.load_file(folder / "model.safetensors"))


def by_save_model(model: nn.Module, folder: Path) -> Callable[[nn.Module], object]:
    safetensors.torch.save_model(model, str(folder / "model.safetensors"))
    return lambda other: safetensors.torch.load_model(other, folder / "model.safetensors")


def by_accelerate(model: nn.Module, folder: Path) -> Callable[[nn.Module], object]:
    accelerate.Accelerator(cpu=True).save_model(model, folder)
    return lambda other: accelerate.load_checkpoint_in_model(other, folder, strict=True)


def by_save_state(model: nn.Module, folder: Path) -> Callable[[nn.Module], object]:
    def prepared(of: nn.Module) -> accelerate.Accelerator:
        accelerator = accelerate.Accelerator(cpu=True)
        accelerator.prepare(of)
        return accelerator

    prepared(model).save_state(folder)
    return lambda other: prepared(other).load_state(folder)


def by_hub(model: nn.Module, folder: Path) -> Callable[[nn.Module], object]:
    huggingface_hub.save_torch_model(model, folder)
    return lambda other: huggingface_hub.load_torch_model(other, folder)


def by_save_pretrained(model: transformers.PreTrainedModel, folder: Path) -> Callable[[nn.Module], object]:
    model.save_pretrained(folder)
    return lambda other: other.load_state_dict(type(model).from_pretrained(folder).state_dict())


def by_lightning(model: nn.Module, folder: Path) -> Callable[[nn.Module], object]:
    class Held(Module):
        def __init__(self) -> None:
            super().__init__(sgd)
            self.network = model

    trainer = lightning.Trainer(max_steps=0, **QUIET)
    trainer.fit(Held(), DataLoader(TensorDataset(*data()), BATCH))
    trainer.save_checkpoint(folder / "last.ckpt")
    state = torch.load(folder / "last.ckpt", weights_only=False)["state_dict"]
    return lambda other: other.load_state_dict({name.removeprefix("network."): value for name, value in state.items()})


def by_copy(model: nn.Module, folder: Path) -> Callable[[nn.Module], object]:
    copied = deepcopy(model)
    return lambda other: other.load_state_dict(copied.state_dict())


def by_pickle(model: nn.Module, folder: Path) -> Callable[[nn.Module], object]:
    pickled = pickle.dumps(model)
    return lambda other: other.load_state_dict(pickle.loads(pickled).state_dict())


def language_model() -> transformers.PreTrainedModel:
    """Its first and its last weight are one."""
    torch.manual_seed(7)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=20, n_positions=8, n_embd=8, n_layer=1, n_head=2, embd_pdrop=0, attn_pdrop=0, resid_pdrop=0
        )
    )


SAVERS = [
    by_torch,
    by_save_file,
    by_save_model,
    by_accelerate,
    by_save_state,
    by_hub,
    by_save_pretrained,
    by_lightning,
    by_copy,
    by_pickle,
]
TOKENS = torch.arange(32).view(4, 8) % 20


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize("tied", [False, True])
def test_savers_keep_all_weights(saver, tied: bool, flatten: bool, tmp_path: Path) -> None:
    """The optimizer has taken a step. Only save_file refuses tied weights, as it does without an optimizer."""
    if saver is by_save_pretrained and not tied:
        pytest.skip("a saver of Hugging Face's models")
    made = language_model if tied else network
    model = made()
    optimizer = dimred.SubspaceOptimizer(model, None, preset="swa", flatten=flatten)
    x, y = data()

    def loss(of: nn.Module) -> torch.Tensor:
        return of(input_ids=TOKENS, labels=TOKENS).loss if tied else functional.mse_loss(of(x), y)

    optimizer.step(lambda: loss(model))
    if saver is by_save_file and tied:
        with pytest.raises(RuntimeError, match="Some tensors share memory"):
            saver(model, tmp_path)
        return
    load = saver(model, tmp_path)
    other = made()
    assert not torch.equal(next(model.parameters()), next(other.parameters()))
    load(other)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in other.state_dict().items())
    assert torch.equal(loss(other.eval()), loss(model.eval()))
    optimizer.step(lambda: loss(model))  # it goes on


def rounded_once(sums: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The nearest values; torch rounds float64 to float32 on its way to bfloat16."""
    near = sums.to(dtype)
    if dtype == torch.bfloat16:
        bits = near.view(torch.int16)
        candidates = torch.stack([(bits + shift).view(dtype) for shift in (0, -1, 1)])  # beside zero is a NaN
        best = (candidates.double() - sums).abs().nan_to_num(torch.inf).argmin(0, keepdim=True)
        near = candidates.gather(0, best)[0]
    return near


def weighted_mean(states: list[dict[str, torch.Tensor]], weights: list[float]) -> dict[str, torch.Tensor]:
    """The float64 sum of each tensor over that of the weights, in its type."""
    return {
        name: rounded_once(
            sum(c * state[name].double() for c, state in zip(weights, states, strict=True)) / sum(weights), like.dtype
        )
        for name, like in states[0].items()
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_transformers_loads_a_merge(dtype: torch.dtype, tmp_path: Path, execute) -> None:
    """Shards and one file, tied weights absent, PyTorch's own files: docs/how-to/merge_checkpoints.md."""
    model = language_model().to(dtype)
    states = []
    for step in (8, 9, 10):
        with torch.no_grad():
            for value in model.parameters():
                value.add_(torch.randn_like(value))
        states.append({name: value.clone() for name, value in model.state_dict().items()})
        model.save_pretrained(tmp_path / f"run/checkpoint-{step}", max_shard_size="2KB" if step == 10 else "1GB")
        torch.save(states[-1], tmp_path / f"step_{step}.pt")
    execute("dimred", "merge", tmp_path / "run", "--kind", "wma", "--output", tmp_path / "merged")
    shards = [file.name for file in sorted((tmp_path / "run/checkpoint-10").glob("*.safetensors"))]
    assert len(shards) > 1
    assert [file.name for file in sorted((tmp_path / "merged").glob("*.safetensors"))] == shards
    expected = weighted_mean(states, [1, 2, 3])
    loaded = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "merged", dtype="auto")
    assert loaded.dtype == dtype
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, expected[name]), name
    execute("dimred", "merge", tmp_path / "step_*.pt", "--kind", "wma", "--output", tmp_path / "of_files")
    flat = safetensors.torch.load_file(tmp_path / "of_files/model.safetensors")
    assert flat.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in flat.items())


def test_lightning_reads_the_step_size_as_the_rate(tmp_path: Path) -> None:
    module = Module(searched)
    logger = CSVLogger(tmp_path)
    trainer = lightning.Trainer(
        max_epochs=1, log_every_n_steps=1, callbacks=[LearningRateMonitor()], **QUIET | {"logger": logger}
    )
    trainer.fit(module, DataLoader(TensorDataset(*data()), BATCH))
    with open(Path(logger.log_dir) / "metrics.csv") as file:
        rates = [float(row["lr-SubspaceOptimizer"]) for row in csv.DictReader(file)]
    model, expected = network(), []
    optimizer = searched(model)
    for x, y in DataLoader(TensorDataset(*data()), BATCH):
        optimizer.step(lambda x=x, y=y: functional.mse_loss(model(x), y))
        expected.append(optimizer.report["step_size"])
    assert (
        rates == pytest.approx([0, 0, *expected[:4]]) and min(expected) > 0
    )  # as the epoch and its five batches begin


def test_the_page_s_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last part alone needs PEFT, which reads back what the descent found."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(REPOSITORY / "docs")
    page = (REPOSITORY / "docs" / "how-to" / "use_with_lightning_and_transformers.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert ["from peft" in block for block in blocks] == [False, False, True]
    has_peft = importlib.util.find_spec("peft") is not None
    (tmp_path / "page.py").write_text("".join(blocks if has_peft else blocks[:-1]))
    torch.manual_seed(5)
    known = runpy.run_path(str(tmp_path / "page.py"))
    assert len(names(tmp_path / "snapshots")) == 60 and len(names(tmp_path / "line")) == 20
    assert known["trainer"].state.log_history[-1]["train_loss"] < 4.5  # log 256 = 5.5 before the first step
    if not has_peft:
        pytest.skip("without peft, which scripts/setup.sh --tests installs: the last part of the page")
    check_adapter(known, tmp_path)


def check_adapter(known: dict[str, Any], folder: Path) -> None:
    from peft import PeftModel

    adapted, basis, saved = known["adapted"], known["basis"], known["saved"]
    trained = {name: value.detach() for name, value in adapted.named_parameters() if value.requires_grad}
    assert basis.names == list(trained)
    assert [name.replace(".default", "") for name in basis.names] == saved.names  # PEFT's files name no adapter
    again = PeftModel.from_pretrained(known["model"].__class__(known["model"].config), folder / "adapter")
    assert all(torch.equal(value, trained[name]) for name, value in again.named_parameters() if name in trained)
    last = dimred.average(folder / "adapters", last=1)
    moved = torch.cat([value.flatten() for value in trained.values()]).numpy()
    assert 0 < np.linalg.norm(moved - last.w) < np.linalg.norm(last.w)  # the descent began there
    np.testing.assert_allclose(saved.project(adapted.state_dict()), saved.project(moved), rtol=1e-6)
    for average in (last, dimred.average(folder / "lora", last=1)):  # which is of a file, under its names
        average.load_into(adapted)
        np.testing.assert_array_equal(
            torch.cat([adapted.get_parameter(name).flatten() for name in trained]).detach(), last.w
        )


def two_gpus(folder: Path) -> transformers.TrainingArguments:
    """The arguments of a process that has two GPUs."""
    chosen = arguments(folder, 1)
    assert chosen.n_gpu <= 1
    chosen._n_gpu = 2
    return chosen


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    for make, text in (
        (lambda: LightningSnapshots(tmp_path, every_steps=2, per_epoch=2), "needs every_steps or per_epoch"),
        (lambda: TrainerSnapshots(tmp_path, every_steps=2, per_epoch=2), "needs every_steps or per_epoch"),
        (
            lambda: TrainerSnapshots(tmp_path, every_steps=2.5),
            r"\[SnapshotCallback\] needs every_steps as a whole number >= 1, received 2.5",
        ),
        (lambda: LightningSnapshots(tmp_path, per_epoch=0), "needs per_epoch as a whole number >= 1, received 0"),
        (lambda: LightningSnapshots(tmp_path, every_steps=1, from_epoch=2), "needs per_epoch if from_epoch is given"),
        (
            lambda: Subspace(Regression(), arguments(tmp_path, 1, gradient_accumulation_steps=2), basis=None),
            "gradient_accumulation_steps = 1",
        ),
        (
            lambda: Subspace(Regression(), two_gpus(tmp_path), basis=None),
            r"needs one GPU in each process, received 2; start the program with torchrun --nproc_per_node=2",
        ),
        (
            lambda: Subspace(Regression(), arguments(tmp_path, 1), basis=None, optimizers=(sgd(network()), None)),
            "received optimizers=",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            make()


def test_a_callback_s_messages_name_what_its_user_can_change(tmp_path: Path) -> None:
    fit(Module(sgd), 1, LightningSnapshots(tmp_path / "w"))
    (tmp_path / "run").mkdir()
    for name in ("config.toml", "manifest.json"):
        (tmp_path / "run" / name).touch()
    cannot = f"needs per_epoch of at most {SAMPLES // BATCH}, the length of an epoch, received 6; "
    for folder, options, text in (
        ("w", {}, "already holds snapshots up to step 5; choose another folder, or resume the training from a "),
        ("run/snapshots", {}, "is a part of the run .*; choose another folder"),
        ("more", {"per_epoch": 6}, rf"\[SnapshotCallback\] {cannot}give a smaller per_epoch, or every_steps"),
    ):
        with pytest.raises(ValueError, match=text):
            fit(Module(sgd), 1, LightningSnapshots(tmp_path / folder, **options))
        recording = TrainerSnapshots(tmp_path / folder, **options)
        with pytest.raises(ValueError, match=text):
            PlainTrainer(
                Regression(), arguments(tmp_path / "out", 1), train_dataset=Rows(), callbacks=[recording]
            ).train()
