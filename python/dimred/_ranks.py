"""The ranks that hold the same weights."""

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

    process_group: for modules without DistributedDataParallel; True is the default group, False this process alone. A
        DistributedDataParallel has a group of its own, and averages gradients itself. Raises ValueError if several
        ranks have neither.
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
                f"{SCOPE} needs a DistributedDataParallel or process_group=True on {dist.get_world_size()} ranks, or "
                "process_group=False if each rank trains alone; received process_group=None"
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
        """Returns this rank's columns of the gradient, averaged over the ranks."""
        if self.size == 1 or self.averages_gradients:
            return whole[own]
        part = torch.empty_like(whole[own])
        dist.reduce_scatter_tensor(part, whole, group=self.group)
        return part.div_(self.size)

    def first_other(self, numbers: Tensor) -> int | None:
        """Returns the first rank whose numbers differ from those of rank 0, or None."""
        of_ranks = self.gather(numbers).view(self.size, -1)
        others = (of_ranks != of_ranks[0]).any(dim=1).nonzero()
        return int(others[0]) if len(others) else None

    def gather(self, part: Tensor) -> Tensor:
        if self.size == 1:
            return part
        whole = part.new_empty(self.size * len(part))
        dist.all_gather_into_tensor(whole, part, group=self.group)
        return whole
