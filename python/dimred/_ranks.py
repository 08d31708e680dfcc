"""Who else holds the same weights."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from dimred._arguments import shown
from dimred._trained import SCOPE


class Ranks:
    """A process group, or this process alone.

    process_group: of bare modules; True is the default group. A DistributedDataParallel brings its own, and averages
        gradients itself.
    """

    def __init__(self, model: Any, process_group: Any) -> None:
        if process_group not in (None, True, False) and not isinstance(process_group, dist.ProcessGroup):
            raise TypeError(f"{SCOPE} needs process_group as a process group or True, received {shown(process_group)}")
        parallel = model if isinstance(model, DistributedDataParallel) else None
        self.averages_gradients = parallel is not None
        self.group = (
            parallel.process_group if parallel is not None else None if process_group is True else process_group
        )
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

    def gather(self, part: Tensor) -> Tensor:
        if self.size == 1:
            return part
        whole = part.new_empty(self.size * len(part))
        dist.all_gather_into_tensor(whole, part, group=self.group)
        return whole
