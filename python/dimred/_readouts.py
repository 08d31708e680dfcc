"""One set of weights from several snapshots."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from dimred import _core
from dimred._arguments import one_of, rates_of, require_function, require_kind_of, whole_number
from dimred._arrays import is_matrix, tied_names
from dimred._basis import Basis, spelled_names
from dimred._minimize import minimize
from dimred._sources import given_order, layout_of, open_source, row_values

Weights = NDArray[Any]  # float32, or float64
SCOPE = "[dimred.average]"
KINDS = (*_core.merge_kinds, "greedy", "learned")
UNORDERED = ("mean", "greedy", "learned")  # the same for any order of the snapshots


class _Usual(int):
    """The default window, which needs steps in the names of files."""


LAST = _Usual(10)


@dataclass
class Average:
    """The result of average().

    w: [M] float32 (float64 for float64 snapshots), the sum of the coefficients [n] times the snapshots.
    names, shapes: the names and shapes of the parameters; empty where the snapshots had no names.
    loss: the loss of w, if average() evaluated it.
    gain: (mean, low, high) of the last snapshot's losses minus the losses of w, with a 95 % interval over the sample
        pairs. None if evaluate returns one number, or if the snapshots have no order and so no last one.
    evaluations: the number of calls of evaluate.
    tied: the further names of tied weights, each with the name in `names` that has the same values.
    """

    w: Weights
    coefficients: NDArray[np.float64]
    snapshots: list[str]
    names: list[str]
    shapes: list[tuple[int, ...]]
    loss: float | None = None
    gain: tuple[float, float, float] | None = None
    evaluations: int = 0
    tied: dict[str, str] = field(default_factory=dict)

    def arrays(self) -> dict[str, Weights]:
        """Returns the parameters by name, as views of w. BatchNorm's running statistics are not included; see
        recalibrate_batchnorm.
        """
        if not self.names:
            raise ValueError("[dimred.average] these snapshots have no names of parameters; use the vector w")
        return dict(_split(self.w, self.names, self.shapes))

    def load_into(self, model: Any) -> None:
        """Copies the arrays into the parameters of a torch module. A name may also be another name of a tied weight, or
        a name without the adapter's part. Weights that were tied in the snapshots are copied into each of their
        parameters. Parameters without values keep their own, and a warning names the trainable ones.

        Raises ValueError for a name or shape that the model does not have, and for two values of one tied weight. The
        model then stays unchanged.
        """
        import torch

        arrays = self.arrays()
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"[dimred.average] needs a torch module to load into, received a {type(model).__name__}")
        values = arrays | {name: arrays[first] for name, first in self.tied.items()}
        found = dict(zip(values, _parameters_of(model, list(values)), strict=True))
        for name in self.tied:
            if found[name] is None:  # the model has the weight once
                del found[name]
        first: dict[Any, str] = {}
        for name, parameter in found.items():
            value = values[name]
            if parameter is None or tuple(parameter.shape) != value.shape:
                raise ValueError(f"[dimred.average] the model has no parameter {name} {list(value.shape)}")
            other = first.setdefault(parameter, name)
            if other != name and not np.array_equal(values[other], value):
                raise ValueError(f"[dimred.average] the model ties {other} and {name}, but their snapshots differ")
        with torch.no_grad():
            for name, parameter in found.items():
                parameter.copy_(torch.from_numpy(values[name]))
        if left := _left_as_they_are(model, first):
            more = f" and {len(left) - 3} more" if len(left) > 3 else ""
            warnings.warn(
                f"{SCOPE} the average has no values for the model's {', '.join(left[:3])}{more}; they keep their own",
                stacklevel=2,
            )


def _parameters_of(model: Any, names: list[str]) -> list[Any]:
    """Returns the parameter of each name, or None where the model has no such parameter."""
    from dimred._modules import adapter_names, aliases, bare, plain_names

    known = {name: parameter for parameter, own in aliases(bare(model)).items() for name in own}
    adapters = adapter_names(model)
    plain = dict(zip(plain_names(list(known), adapters), known.values(), strict=True))
    return [known.get(name, plain.get(short)) for name, short in zip(names, plain_names(names, adapters), strict=True)]


def _left_as_they_are(model: Any, loaded: Mapping[Any, str]) -> list[str]:
    """Returns the names of the trainable parameters that are not loaded."""
    from dimred._modules import aliases, bare

    known = aliases(bare(model)).items()
    return [names[0] for parameter, names in known if parameter.requires_grad and parameter not in loaded]


def average(
    source: Any,
    kind: str = "mean",
    *,
    last: int = LAST,
    decay: float | None = None,
    alpha: float | None = None,
    gamma: float | None = None,
    evaluate: Callable[[Weights], Any] | None = None,
    loss_and_grad: Callable[..., tuple[Any, Any]] | None = None,
    steps: int | None = None,
    batches: Iterable[Any] | None = None,
) -> Average:
    """Returns an average of the last `last` snapshots of a source.

    source: as dimred.fit takes it. Files, also those of a list, are sorted by the steps in their names, as by
        dimred.merge. If the names have no steps, the given order counts, and all files are averaged unless `last` is
        given. A warning says so if the kind or the window needs an order, and names files of equal values.
    kind: a kind of dimred.merge, or "greedy" or "learned". The default rates are decay 0.9 for "ema", alpha 0.2 for
        "pma-ema" and gamma 1 for "power". "power" needs steps in the names of the snapshots. "greedy" starts from the
        best snapshot and adds each next best one if the mean improves (Wortsman et al. 2022); it needs evaluate.
        "learned" starts from the mean and takes `steps` steps of dimred.minimize (default 50) in the span of the
        snapshots; it needs loss_and_grad.
    evaluate: evaluate(w [M]) returns the loss on held-out data; lower is better. It may return the losses of all
        samples, [samples], which gives `gain` an interval. evaluate sees the parameters only: for a network with
        BatchNorm, recalibrate the statistics inside evaluate.
    loss_and_grad, batches: for "learned", as dimred.minimize takes them, on held-out data.

    Memory: one vector [M]; two with evaluate, and six for "greedy". "learned" holds all averaged snapshots.

    Raises ValueError for snapshots that cannot be averaged, such as LoRA factors. Several checkpoints of one step, or
    checkpoints of several stages, have no order: other kinds than "mean", "greedy" and "learned" are refused, and so is
    a `last` smaller than the number of checkpoints.
    """
    one_of(SCOPE, "kind", kind, KINDS)
    whole_number(SCOPE, "last", last, 1)
    for name, function in (("evaluate", evaluate), ("loss_and_grad", loss_and_grad)):
        require_function(SCOPE, name, function)
    rates = rates_of(SCOPE, kind, decay, alpha, gamma)
    require_kind_of(SCOPE, kind, "learned", {"steps": steps, "batches": batches})
    if kind == "greedy" and evaluate is None:
        raise ValueError("[dimred.average] kind='greedy' needs the argument evaluate")
    if (kind == "learned") != (loss_and_grad is not None):
        raise ValueError("[dimred.average] kind='learned' needs loss_and_grad, and loss_and_grad needs kind='learned'")
    rows = open_source(source, several_runs=True)
    unnumbered = rows.rows > 1 and rows.counted and rows.unordered is None
    taken = range(0 if unnumbered and isinstance(last, _Usual) else max(0, rows.rows - last), rows.rows)
    _require_no_factors(rows, taken)
    _require_order(rows, taken, kind)
    if kind == "power" and (rows.counted or not _is_of_files(source)):
        raise ValueError(
            f"{SCOPE} kind 'power' needs steps in the names of all snapshots, received names without a step, such as "
            f"{rows.names[taken[0]]}"
        )
    judge = _Judge(evaluate)
    if kind == "greedy":
        weights, divisor = _greedy(rows, taken, judge)
    else:
        steps_taken = rows.steps[taken.start :]
        weights, divisor = _core.coefficients("mean" if kind == "learned" else kind, steps_taken, rates)
    w = np.empty(rows.columns, _dtype(rows))
    digests = _core.combine(rows, list(taken), (weights, divisor), w)
    if unnumbered and (notes := _notes(rows, source, taken, digests, kind in UNORDERED and evaluate is None, last)):
        warnings.warn(f"{SCOPE} {'; '.join(notes)}", stacklevel=2)
    coefficients = np.array(weights) / divisor
    if kind == "learned":
        assert loss_and_grad is not None
        w, coefficients = _learned(rows, taken, w, loss_and_grad, 50 if steps is None else steps, batches)
    names, shapes = layout_of(rows)
    result = Average(w, coefficients, [rows.names[i] for i in taken], names, shapes, tied=_tied(source, rows, names))
    if evaluate is not None:
        losses = judge(w)
        result.loss = float(losses.mean())
        if rows.unordered is None:
            result.gain = _interval(judge(_row(rows, taken[-1])) - losses)
    result.evaluations = judge.count
    return result


def _is_of_files(source: Any) -> bool:
    """Returns whether the source is a path or a list of paths."""
    items = [source] if isinstance(source, (str, os.PathLike)) or is_matrix(source) else source
    return all(isinstance(item, (str, os.PathLike)) for item in items)


def _require_order(rows: _core.Source, taken: range, kind: str) -> None:
    """Raises ValueError, as dimred.merge does, for a kind or a window of snapshots whose names give no order."""
    if rows.unordered is None:
        return
    needs = f"needs the order of the checkpoints, but {rows.unordered}; only the plain mean works without an order"
    if kind not in UNORDERED:
        raise ValueError(f"{SCOPE} kind {kind!r} {needs}")
    if len(taken) < rows.rows:
        raise ValueError(
            f"{SCOPE} a window of the last {len(taken)} of {rows.rows} checkpoints {needs}; "
            f"for the mean, give last={rows.rows}"
        )


def _notes(rows: _core.Source, source: Any, taken: range, digests: list[str], any_order: bool, last: int) -> list[str]:
    """Returns what a user should know of an average of files whose names have no steps.

    digests: of the rows taken; "" for a row without a share.
    """
    notes = []
    if len(taken) > last:
        notes.append(f"the names have no steps, so dimred takes all {len(taken)} checkpoints, not the last {last}")
    if not any_order or len(taken) < rows.rows:
        notes.append(given_order(rows, source))
    first: dict[str, str] = {}
    for i, digest in zip(taken, digests, strict=True):
        name = first.setdefault(digest, rows.names[i]) if digest else rows.names[i]
        if name != rows.names[i]:
            notes.append(f"{name} and {rows.names[i]} hold the same values")
    return notes


def _tied(source: Any, rows: _core.Source, names: list[str]) -> dict[str, str]:
    """Returns the further names of tied weights, each with the one of `names` that has the same values."""
    if isinstance(source, (list, tuple)) and isinstance(source[0], Mapping):
        tied = tied_names(source[0])
        known = spelled_names(list(tied.values()), names)
        return {name: known[first] for name, first in tied.items() if first in known}
    return {name: first for name, first in rows.tied_names() if first in names}


def _require_no_factors(rows: _core.Source, taken: range) -> None:
    """Raises ValueError for several snapshots of an adapter: the mean of the factors A and B is not the mean of B A.

    A single factor has a mean if the other factor is fixed.
    """
    names, _ = layout_of(rows)
    factors = {part: name for part, name in zip(_core.adapter_parts(names), names, strict=True) if part}
    if len(taken) > 1 and len(factors) > 1:
        raise ValueError(
            f"{SCOPE} cannot average the factors of an adapter, {' and '.join(list(factors.values())[:2])}: their mean "
            "is not the mean of the updates; save the adapters with PEFT's save_pretrained and call "
            "dimred.merge(FOLDERS, OUTPUT), with base=DIR for a whole checkpoint"
        )


class _Judge:
    """Evaluates weights and counts the evaluations."""

    def __init__(self, evaluate: Callable[[Weights], Any] | None) -> None:
        self._evaluate, self.count = evaluate, 0

    def __call__(self, w: Weights) -> NDArray[np.float64]:
        assert self._evaluate is not None
        self.count += 1
        before = crc32(w.data)  # an evaluation costs far more
        answer = self._evaluate(w)
        if answer is None:
            raise ValueError("[dimred.average] evaluate needs to return a loss or a vector of losses, received None")
        losses = np.atleast_1d(np.asarray(answer, np.float64))
        if crc32(w.data) != before:
            raise ValueError(
                "[dimred.average] evaluate changed the weights that it received; let evaluate work on a copy "
                "(with torch's vector_to_parameters, parameters share memory with the vector)"
            )
        if losses.ndim != 1 or np.isnan(losses).any():
            raise ValueError(
                "[dimred.average] evaluate needs to return a loss or a vector of losses without NaN, received "
                f"{'NaN in ' if losses.ndim == 1 else ''}shape {losses.shape}"
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
    """Returns 1 for each chosen snapshot, and the number of chosen snapshots."""
    alone = [float(judge(_row(rows, i)).mean()) for i in taken]
    order = sorted(range(len(taken)), key=lambda i: alone[i])
    chosen, best = [order[0]], alone[order[0]]
    total = _row(rows, taken[order[0]]).astype(np.float64)
    for i in order[1:]:
        w = _row(rows, taken[i])
        trial = np.empty(len(w), _dtype(rows))
        np.divide(total + w, len(chosen) + 1, out=trial, casting="unsafe")
        loss = float(judge(trial).mean())
        if loss < best:
            chosen, best = [*chosen, i], loss
            total += w
    return [float(i in chosen) for i in range(len(taken))], float(len(chosen))


def _learned(
    rows: _core.Source,
    taken: range,
    w: Weights,
    loss_and_grad: Callable[..., Any],
    steps: int,
    batches: Iterable[Any] | None,
) -> tuple[Weights, NDArray[np.float64]]:
    spanned = np.stack([_row(rows, i) for i in taken]).astype(np.float64)
    left, sizes, right = np.linalg.svd(spanned, full_matrices=False)
    kept = sizes > max(spanned.shape) * np.finfo(np.float64).eps * sizes[0]  # equal snapshots span less
    left, sizes, right = left[:, kept], sizes[kept], right[kept]
    basis = Basis(right.astype(np.float32), None, None)
    done = minimize(loss_and_grad, w, basis, steps=steps, batches=batches, alpha=0.0)
    return done.w, left @ (right @ done.w.astype(np.float64) / sizes)


def _interval(difference: NDArray[np.float64]) -> tuple[float, float, float] | None:
    """Returns the mean of the paired differences with its 95 % interval, by the normal distribution."""
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
    """Estimates the running statistics of a torch module's BatchNorm layers for its present weights. Returns the number
    of batches used.

    batches: the arguments of forward. All batches count equally, so shuffle the data and use one batch size. A batch
        that makes a statistic NaN or infinite is refused.
    forward: by default the function calls the model on the batch, or on the first item of a tuple or list.

    Dropout is off during the estimate. Afterwards the modes and momenta of all layers are restored. After an error the
    statistics are restored, too. A layer that no batch reaches (such as an auxiliary head's) keeps its statistics, and
    a warning says how many such layers there are.
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
            _require_finite(model, layers, count)
            count += 1
        if count == 0:
            raise ValueError("[dimred.recalibrate_batchnorm] needs batches, received none")
    return count


def _require_finite(model: Any, layers: list[Any], batch: int) -> None:
    """Raises ValueError for a statistic that is not finite."""
    for layer in layers:
        if not (layer.running_mean.isfinite().all() and layer.running_var.isfinite().all()):
            name = next(name for name, module in model.named_modules() if module is layer)
            raise ValueError(
                "[dimred.recalibrate_batchnorm] needs batches whose statistics are finite, received NaN or infinity in "
                f"{name or 'the layer'} from batches[{batch}]; look for such values in the data and in the weights"
            )


@contextmanager
def _estimating(model: Any, layers: list[Any]) -> Iterator[None]:
    """Sets the layers to cumulative means, and all other modules to evaluation."""
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
