"""The trained weights as one vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils.dlpack import from_dlpack

from dimred._trained import REPLACED, SCOPE, Trained


class FlatWeights:
    """A copy of all parameters as one vector [length], padded at the end, and a gradient of the same length.

    Both are float32, or float64 if a parameter is float64. gather() copies the parameters into the vector, and
    scatter() copies the vector into the parameters; each is one fused pass. If a parameter has a narrower type, the
    vector keeps the bits that the parameter rounds off: gather() takes only values that have changed since scatter().
    """

    def __init__(self, trained: Trained, length: int) -> None:
        self._trained, self.parameters = trained, trained.parameters
        dtype = torch.float64 if any(p.dtype == torch.float64 for p in self.parameters) else torch.float32
        self.vector = torch.zeros(length, dtype=dtype, device=self.parameters[0].device)
        self.gradient = torch.zeros_like(self.vector)
        self.ranges = list(pairwise(accumulate((p.numel() for p in self.parameters), initial=0)))
        self._views, self._gradients = self._parts(self.vector), self._parts(self.gradient)
        self._flattened = False
        with torch.no_grad():
            torch._foreach_copy_(self._views, list(self.parameters))

    @property
    def columns(self) -> int:
        """M, without the padding."""
        return self.ranges[-1][1]

    @property
    def rounds(self) -> bool:
        """Whether the vector holds bits that the parameters round off."""
        return any(p.dtype != self.vector.dtype for p in self.parameters)

    def columns_of(self, rates: Iterable[tuple[Parameter, float]]) -> list[tuple[int, int, float]]:
        """Returns (begin, end, rate) of the trained parameters that need a gradient; neighbours with one rate are
        joined.
        """
        place = dict(zip(self.parameters, self.ranges, strict=True))
        merged: list[tuple[int, int, float]] = []
        for begin, end, rate in sorted((*place[p], rate) for p, rate in rates if p in place and p.requires_grad):
            goes_on = merged and merged[-1][1:] == (begin, rate)
            merged.append((merged.pop()[0] if goes_on else begin, end, rate))
        return merged

    def flatten(self) -> None:
        """Makes the parameters views into the vector, so that no copies are needed. Each view has a storage of its own.

        Raises ValueError, before any change, for a parameter of another type or memory format.
        """
        for i, parameter in enumerate(self.parameters):
            dtype, strides = str(parameter.dtype).removeprefix("torch."), parameter.stride()
            if dtype != "float32" or not parameter.is_contiguous():
                raise ValueError(
                    f"{SCOPE} flatten=True needs contiguous float32 parameters, "
                    f"received {dtype} with strides {strides} ({self._trained.name(i)})"
                )
        for parameter, view in zip(self.parameters, self._views, strict=True):
            # The storage of what comes by DLPack begins and ends with it, so that a saver sees nothing of the others.
            parameter.data = from_dlpack(view)
        self._flattened = True

    def gather(self) -> None:
        """Copies the parameters into the vector. Raises RuntimeError if a parameter was moved since the optimizer was
        made.
        """
        same: list[tuple[Tensor, Parameter]] = []
        rounded: list[tuple[Tensor, Parameter]] = []
        for i, (parameter, view) in enumerate(zip(self.parameters, self._views, strict=True)):
            if not _fits(parameter, view) or (self._flattened and not _lies_in(parameter, view)):
                raise RuntimeError(f"{SCOPE} {self._trained.name(i)} {REPLACED}")
            (same if parameter.dtype == view.dtype else rounded).append((view, parameter))
        if self._flattened:
            return
        with torch.no_grad():
            if same:
                torch._foreach_copy_([view for view, _ in same], [parameter for _, parameter in same])
            for view, parameter in rounded:
                torch.where(view.to(parameter.dtype) == parameter, view, parameter.to(view.dtype), out=view)

    def scatter(self) -> None:
        """Copies the vector into the parameters."""
        if not self._flattened:
            with torch.no_grad():
                torch._foreach_copy_(list(self.parameters), self._views)

    def gather_gradients(self) -> None:
        """Copies the gradients of the parameters as dense numbers; a parameter without a gradient gives 0."""
        views, found, none = [], [], []
        for parameter, view in zip(self.parameters, self._gradients, strict=True):
            if parameter.grad is None:
                none.append(view)
            else:
                views.append(view)
                found.append(parameter.grad if parameter.grad.layout == torch.strided else parameter.grad.to_dense())
        with torch.no_grad():
            if none:
                torch._foreach_zero_(none)
            if found:
                torch._foreach_copy_(views, found)

    @contextmanager
    def shifted(self, shift: Tensor | None) -> Iterator[None]:
        """Adds `shift` to the weights, and restores their exact bits afterwards."""
        if shift is None:
            yield
            return
        own = self.vector.clone()
        self.vector.add_(shift)
        self.scatter()
        try:
            yield
        finally:
            self.vector.copy_(own)
            self.scatter()

    def _parts(self, vector: Tensor) -> list[Tensor]:
        return [vector[a:b].view(p.shape) for p, (a, b) in zip(self.parameters, self.ranges, strict=True)]


def _fits(parameter: Parameter, view: Tensor) -> bool:
    return parameter.device == view.device and parameter.shape == view.shape


def _lies_in(parameter: Parameter, view: Tensor) -> bool:
    return parameter.numel() == 0 or parameter.data_ptr() == view.data_ptr()
