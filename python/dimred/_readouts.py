"""One set of weights out of several snapshots."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from dimred import _core
from dimred._arguments import one_of, rates_of, require_function, require_kind_of, whole_number
from dimred._sources import open_source, row_values

Weights = NDArray[Any]  # float32, or float64
SCOPE = "[dimred.average]"
FACTORS = ("lora_", "hada_w", "lokr_w")  # as PEFT names them
KINDS = (*_core.merge_kinds, "greedy", "learned")


@dataclass
class Average:
    """w: [M] float32 (float64 of snapshots of float64), sum of coefficients [n] times snapshots. names, shapes: of its
    parameters; empty where the snapshots had none.

    loss: of w, where it was evaluated; gain: (mean, low, high) of the last snapshot's losses minus those of w, with the
        95 % interval of the pairs, where evaluate gives a loss for each sample. evaluations: of weights, spent on all
        that.
    """

    w: Weights
    coefficients: NDArray[np.float64]
    snapshots: list[str]
    names: list[str]
    shapes: list[tuple[int, ...]]
    loss: float | None = None
    gain: tuple[float, float, float] | None = None
    evaluations: int = 0

    def arrays(self) -> dict[str, Weights]:
        """The parameters by name, views of w. Without BatchNorm's running statistics: see recalibrate_batchnorm."""
        if not self.names:
            raise ValueError("[dimred.average] these snapshots have no names: use w")
        return dict(_split(self.w, self.names, self.shapes))

    def load_into(self, model: Any) -> None:
        """Copies them into the parameters of a module of these names, also a tied weight's or without an adapter's.

        ValueError for a name or shape that the model does not have, or for two values of a tied weight; the model then
        stays as it was.
        """
        import torch

        arrays = self.arrays()
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"[dimred.average] needs a torch module to load into, received a {type(model).__name__}")
        parameters = _parameters_of(model, list(arrays))
        first: dict[Any, str] = {}
        for (name, value), parameter in zip(arrays.items(), parameters, strict=True):
            if parameter is None or tuple(parameter.shape) != value.shape:
                raise ValueError(f"[dimred.average] the model has no parameter {name} {list(value.shape)}")
            other = first.setdefault(parameter, name)
            if other != name and not np.array_equal(arrays[other], value):
                raise ValueError(f"[dimred.average] the model ties {other} and {name}, which differ in the snapshots")
        with torch.no_grad():
            for value, parameter in zip(arrays.values(), parameters, strict=True):
                parameter.copy_(torch.from_numpy(value))


def _parameters_of(model: Any, names: list[str]) -> list[Any]:
    """The parameter of each name; None where the model has none."""
    from dimred._modules import adapter_names, aliases, bare, plain_names

    known = {name: parameter for parameter, own in aliases(bare(model)).items() for name in own}
    adapters = adapter_names(model)
    plain = dict(zip(plain_names(list(known), adapters), known.values(), strict=True))
    return [known.get(name, plain.get(short)) for name, short in zip(names, plain_names(names, adapters), strict=True)]


def average(
    source: Any,
    kind: str = "mean",
    *,
    last: int = 10,
    decay: float | None = None,
    alpha: float | None = None,
    gamma: float | None = None,
    evaluate: Callable[[Weights], Any] | None = None,
    loss_and_grad: Callable[..., tuple[Any, Any]] | None = None,
    steps: int | None = None,
    batches: Iterable[Any] | None = None,
) -> Average:
    """An average of the last `last` snapshots of a source, as dimred.fit takes it.

    kind: one of dimred.merge, by whose sums it is: "mean", "linear", "cosine", "minus-sqrt" (by the steps in the
        snapshots' names), "wma", "ema" (by `decay`, 0.9), "pma-ema" (by `alpha`, 0.2), "power" (step^`gamma`, 1, of
        steps in names). "greedy": the best snapshot,
        to which each next best is added where the mean gets better (Wortsman et al. 2022); "learned": `steps` (50) of
        dimred.minimize from the mean in the snapshots' span, by loss_and_grad(w) or loss_and_grad(w, batch) on data
        held out.
    evaluate: w [M] -> its loss on data held out, lower is better; or the losses of all samples, [samples], for an
        interval. Needed for greedy. It sees parameters alone: with BatchNorm, recalibrate inside.

    Memory: one vector, two with evaluate, for greedy three; learned holds the span.

    Raises ValueError for what cannot be averaged, such as the factors of LoRA.
    """
    one_of(SCOPE, "kind", kind, KINDS)
    whole_number(SCOPE, "last", last, 1)
    for name, function in (("evaluate", evaluate), ("loss_and_grad", loss_and_grad)):
        require_function(SCOPE, name, function)
    rates = rates_of(SCOPE, kind, decay, alpha, gamma)
    require_kind_of(SCOPE, kind, "learned", {"steps": steps, "batches": batches})
    if kind == "greedy" and evaluate is None:
        raise ValueError("[dimred.average] greedy needs evaluate")
    if (kind == "learned") != (loss_and_grad is not None):
        raise ValueError("[dimred.average] loss_and_grad and kind='learned' need each other")
    rows = open_source(source)
    taken = range(max(0, rows.rows - last), rows.rows)
    _require_no_factors(rows, taken)
    of_files = isinstance(source, (str, os.PathLike)) or all(isinstance(item, (str, os.PathLike)) for item in source)
    if kind == "power" and (rows.counted or not of_files):
        raise ValueError(
            f"{SCOPE} kind 'power' needs steps in the names of snapshots, received {rows.names[taken[0]]} and others "
            "without"
        )
    judge = _Judge(evaluate)
    if kind == "greedy":
        weights, divisor = _greedy(rows, taken, judge)
    else:
        steps_taken = rows.steps[taken.start :]
        weights, divisor = _core.coefficients("mean" if kind == "learned" else kind, steps_taken, rates)
    w = np.empty(rows.columns, _dtype(rows))
    _core.combine(rows, list(taken), (weights, divisor), w)
    coefficients = np.array(weights) / divisor
    if kind == "learned":
        assert loss_and_grad is not None
        w, coefficients = _learned(rows, taken, w, loss_and_grad, 50 if steps is None else steps, batches)
    parameters = json.loads(rows.layout)["parameters"] if rows.layout else []
    result = Average(
        w,
        coefficients,
        [rows.names[i] for i in taken],
        [p["name"] for p in parameters],
        [tuple(p["shape"]) for p in parameters],
    )
    if evaluate is not None:
        losses = judge(w)
        result.loss, result.gain = float(losses.mean()), _interval(judge(_row(rows, taken[-1])) - losses)
    result.evaluations = judge.count
    return result


def _require_no_factors(rows: _core.Source, taken: range) -> None:
    """Refuses several snapshots of an adapter: the mean of factors A and B is not that of the updates B A. One factor
    alone, beside another that is fixed, has a mean.
    """
    names = [parameter["name"] for parameter in json.loads(rows.layout)["parameters"]] if rows.layout else []
    factors = {part: name for name in names for part in name.split(".") if part.startswith(FACTORS)}
    if len(taken) > 1 and len(factors) > 1:
        raise ValueError(
            f"{SCOPE} has factors of an adapter, {' and '.join(list(factors.values())[:2])}, and a mean of factors is "
            "not a mean of updates; save the adapters by PEFT's save_pretrained and call "
            "dimred.merge(FOLDERS, OUTPUT), with base=DIR for a whole checkpoint"
        )


class _Judge:
    """Losses of weights, and how often they were asked for."""

    def __init__(self, evaluate: Callable[[Weights], Any] | None) -> None:
        self._evaluate, self.count = evaluate, 0

    def __call__(self, w: Weights) -> NDArray[np.float64]:
        assert self._evaluate is not None
        self.count += 1
        before = crc32(w.data)  # an evaluation costs far more
        losses = np.atleast_1d(np.asarray(self._evaluate(w), np.float64))
        if crc32(w.data) != before:
            raise ValueError(
                "[dimred.average] evaluate changed the weights that it was given; let it work on a copy "
                "(torch's vector_to_parameters makes the parameters parts of its vector)"
            )
        if losses.ndim != 1 or np.isnan(losses).any():
            raise ValueError(
                f"[dimred.average] evaluate needs to give a loss or a vector of losses, received shape {losses.shape}, "
                "or NaN"
            )
        return losses


def _dtype(rows: _core.Source) -> type[np.floating[Any]]:
    """The dtype in which the rows lose nothing."""
    return np.float64 if rows.float64 else np.float32


def _row(rows: _core.Source, i: int) -> Weights:
    w = row_values(rows, i)
    if not np.isfinite(w).all():
        raise ValueError(
            f"[dimred.average] {rows.names[i]} has a value that is not finite, at column "
            f"{int(np.argmin(np.isfinite(w)))}"
        )
    return w


def _greedy(rows: _core.Source, taken: range, judge: _Judge) -> tuple[list[float], float]:
    """1 for each that is chosen, and their number."""
    alone = [float(judge(_row(rows, i)).mean()) for i in taken]
    order = sorted(range(len(taken)), key=lambda i: alone[i])
    chosen, best = [order[0]], alone[order[0]]
    total = _row(rows, taken[order[0]]).astype(np.float64)
    for i in order[1:]:
        trial = total + _row(rows, taken[i])
        loss = float(judge((trial / (len(chosen) + 1)).astype(_dtype(rows))).mean())
        if loss < best:
            chosen, best, total = [*chosen, i], loss, trial
    return [float(i in chosen) for i in range(len(taken))], float(len(chosen))


def _learned(
    rows: _core.Source,
    taken: range,
    w: Weights,
    loss_and_grad: Callable[..., Any],
    steps: int,
    batches: Iterable[Any] | None,
) -> tuple[Weights, NDArray[np.float64]]:
    from dimred._basis import Basis
    from dimred._minimize import minimize

    spanned = np.stack([_row(rows, i) for i in taken]).astype(np.float64)
    triangle = np.linalg.qr(spanned.T)
    basis = Basis(np.ascontiguousarray(triangle[0].T, np.float32), None, None)
    done = minimize(loss_and_grad, w, basis, steps=steps, batches=batches, alpha=0.0)
    coefficients = np.linalg.lstsq(triangle[1], triangle[0].T @ done.w.astype(np.float64), rcond=None)[0]
    return done.w, coefficients


def _interval(difference: NDArray[np.float64]) -> tuple[float, float, float] | None:
    """The mean of the differences of pairs with its interval, by the normal distribution."""
    if len(difference) < 2:
        return None
    mean, half = float(difference.mean()), 1.959964 * float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return mean, mean - half, mean + half


def _split(w: Weights, names: list[str], shapes: list[tuple[int, ...]]) -> Iterator[tuple[str, Weights]]:
    begin = 0
    for name, shape in zip(names, shapes, strict=True):
        size = math.prod(shape)
        yield name, w[begin : begin + size].reshape(shape)
        begin += size


def recalibrate_batchnorm(model: Any, batches: Iterable[Any], forward: Callable[[Any], Any] | None = None) -> int:
    """Estimates the running statistics of a torch module's BatchNorm layers for its weights; returns the batches used.

    batches: what forward(batch) takes; by default the model is called on the batch, or on the first part of a tuple or
        list. Each counts alike, so they need to be shuffled and of one size.

    Dropout is off meanwhile; modes and momenta are put back, also after an error, with the statistics as they were.
    Layers that no batch reaches (an auxiliary head's) keep theirs; a warning says how many.
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"[dimred.recalibrate_batchnorm] needs a torch module, received a {type(model).__name__}")
    layers = [
        module
        for module in model.modules()
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.track_running_stats
    ]
    if not layers:
        return 0
    call = forward or (lambda batch: model(batch[0] if isinstance(batch, (tuple, list)) else batch))
    count = 0
    with _estimating(model, layers), torch.no_grad():
        for batch in batches:
            call(batch)
            count += 1
        if count == 0:
            raise ValueError("[dimred.recalibrate_batchnorm] needs batches, received none")
    return count


@contextmanager
def _estimating(model: Any, layers: list[Any]) -> Iterator[None]:
    """All else evaluates; the layers take cumulative means."""
    modes = [(module, module.training) for module in model.modules()]
    before = [(layer, layer.momentum, [buffer.clone() for buffer in layer.buffers()]) for layer in layers]
    kept = before
    model.eval()
    for layer in layers:
        layer.train()
        layer.reset_running_stats()
        layer.momentum = None  # the mean of all batches
    try:
        yield
        kept = [state for state in before if state[0].num_batches_tracked == 0]
    finally:
        for layer, _, buffers in kept:
            for buffer, value in zip(layer.buffers(), buffers, strict=True):
                buffer.copy_(value)
        for layer, momentum, _ in before:
            layer.momentum = momentum
        for module, training in modes:
            module.training = training
    if kept:
        warnings.warn(
            f"[dimred.recalibrate_batchnorm] no batch reached {len(kept)} of {len(before)} BatchNorm layers, which "
            "keep their statistics",
            stacklevel=4,  # above contextlib's frame and recalibrate_batchnorm's
        )
