"""Who else holds the same weights."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from dimred._arguments import shown
from dimred._modules import wrapped
from dimred._trained import SCOPE


class Ranks:
    """A process group, or this process alone.

    process_group: of bare modules; True is the default group, False this process alone. A DistributedDataParallel
        brings its own, and averages gradients itself. ValueError where several ranks have neither.
    """

    def __init__(self, model: Any, process_group: Any) -> None:
        known = (bool, type(None), *((dist.ProcessGroup,) if dist.is_available() else ()))
        if not isinstance(process_group, known):
            raise TypeError(
                f"{SCOPE} needs process_group as a process group, True or False, received {shown(process_group)}"
            )
        parallel = next((module for module in wrapped(model) if isinstance(module, DistributedDataParallel)), None)
        several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        if parallel is None and process_group is None and several:
            raise ValueError(
                f"{SCOPE} needs on {dist.get_world_size()} ranks a DistributedDataParallel, process_group=True, or "
                "process_group=False where each rank descends by itself; received process_group=None"
            )
        self.averages_gradients = parallel is not None
        given: Any = None if isinstance(process_group, bool) else process_group  # None is torch's default group
        self.group = given if parallel is None else parallel.process_group
        alone = parallel is None and not process_group
        self.size = 1 if alone else dist.get_world_size(self.group)
        self.rank = 0 if alone else dist.get_rank(self.group)

    def sum(self, numbers: Tensor) -> Tensor:
        if self.size > 1:
            dist.all_reduce(numbers, group=self.group)
        return numbers

    def mean(self, number: Tensor) -> float:
        return float(self.sum(number.detach().double().reshape(1)) / self.size)

    def own_mean(self, whole: Tensor, own: slice) -> Tensor:
        """The gradient's own columns, averaged unless DistributedDataParallel has done it."""
        if self.size == 1 or self.averages_gradients:
            return whole[own]
        part = torch.empty_like(whole[own])
        dist.reduce_scatter_tensor(part, whole, group=self.group)
        return part.div_(self.size)

    def first_other(self, numbers: Tensor) -> int | None:
        """The first rank whose numbers are not those of rank 0; None where all have the same."""
        of_ranks = self.gather(numbers).view(self.size, -1)
        others = (of_ranks != of_ranks[0]).any(dim=1).nonzero()
        return int(others[0]) if len(others) else None

    def gather(self, part: Tensor) -> Tensor:
        if self.size == 1:
            return part
        whole = part.new_empty(self.size * len(part))
        dist.all_gather_into_tensor(whole, part, group=self.group)
        return whole
