"""The formulas of docs/explanation/scaling.md, written down a second time, in Python: bytes that a rank sends, memory
of a rank."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, prod

NUMBER = 4  # bytes of an entry of a vector of M
UNIT = 16  # columns: parameters begin at multiples of it, and shares are cut at them within a parameter
MIB = 1 << 20


@dataclass(frozen=True)
class Layout:
    """A vector of M: each parameter begins at a multiple of 16 columns, the rest is padding."""

    shapes: Sequence[Sequence[int]]

    @property
    def sizes(self) -> list[int]:
        return [prod(shape) for shape in self.shapes]

    @property
    def offsets(self) -> list[int]:
        """First column of each parameter, and the end of the last one."""
        offsets = [0]
        for size in self.sizes:
            offsets.append(offsets[-1] + -(-size // UNIT) * UNIT)
        return offsets

    @property
    def columns(self) -> int:
        return self.offsets[-1]

    def cut(self, column: int) -> int:
        """The last place at or before `column` at which a share may begin."""
        if column >= self.columns:
            return self.columns
        index = bisect_right(self.offsets, column) - 1
        within, shape = (min(column - self.offsets[index], self.sizes[index] - 1), self.shapes[index])
        unit = prod(shape[1:]) if len(shape) == 4 else UNIT  # an output channel stays whole
        return self.offsets[index] + within // unit * unit

    def shares(self, ranks: int) -> list[int]:
        """Columns that each rank owns."""
        return [
            end - begin for begin, end in pairwise(self.cut(self.columns * rank // ranks) for rank in range(ranks + 1))
        ]

    def buckets(self, first_mib: float = 1, mib: float = 25) -> list[int]:
        """Columns of each part in which stage 1 sums its gradient, from the end: whole parameters, up to `mib`
        MiB."""
        buckets, end, limit = [], self.columns, first_mib * MIB / NUMBER
        for index in reversed(range(len(self.sizes))):
            begin = self.offsets[index]
            if index == 0 or end - begin >= limit or end - self.offsets[index - 1] > limit:
                buckets.append(end - begin)
                end, limit = begin, mib * MIB / NUMBER
        return buckets


@dataclass(frozen=True)
class Ranks:
    """`size` ranks on `nodes` nodes, node by node."""

    size: int
    nodes: int

    @property
    def of_node(self) -> int:
        return self.size // self.nodes

    def sum(self, count: int, number: int = 8) -> int:
        """Bytes that a ring all-reduce of `count` numbers sends from each rank."""
        return 2 * count * number - -(-2 * count * number // self.size)


def exchange(shares: Sequence[int], ranks: Ranks, rank: int, gathers: int = 1) -> tuple[int, int]:
    """A reduce-scatter and `gathers` all-gathers: bytes that this rank sends, and those of them that go to other
    nodes."""
    own, at_place = shares[rank], sum(shares[rank % ranks.of_node :: ranks.of_node])
    scatter, gather = sum(shares) - own, own * (ranks.nodes - 1) + at_place * (ranks.of_node - 1)
    between = at_place - own + gathers * own * (ranks.nodes - 1)
    return NUMBER * (scatter + gathers * gather), NUMBER * between


def stage1_bytes(layout: Layout, ranks: Ranks, steps: int) -> int:
    """Each step: the gradient in buckets, loss (3), stop flags (2); stop flags once more at the end of the epoch."""
    step = sum(ranks.sum(columns, NUMBER) for columns in layout.buckets()) + ranks.sum(3) + ranks.sum(2)
    return steps * step + ranks.sum(2)


def stage2_bytes(layout: Layout, ranks: Ranks, rank: int, k: int, steps: int, trials: int) -> int:
    """Each step of `robust`: an exchange, k + 2 numbers, loss, stop flags; each trial a loss; stop flags once more."""
    step = exchange(layout.shares(ranks.size), ranks, rank)[0] + ranks.sum(k + 2) + ranks.sum(3) + ranks.sum(2)
    return steps * step + trials * ranks.sum(3) + ranks.sum(2)


def stage1_memory(columns: float, bucket: float, ranks: int) -> float:
    """w, g, and SGD's momentum; on a processor a part of a bucket in which Gloo's ring receives."""
    return NUMBER * (3 * columns + bucket / ranks)


def stage2_memory(columns: float, ranks: int, k: int) -> float:
    """w, g, the start of the search and the gathered direction; this rank's share of P and of five vectors."""
    return NUMBER * columns * (4 + (k + 5) / ranks)


@dataclass(frozen=True)
class Head:
    """A class-sharded last layer, trained by SGD with momentum, and the batch of all ranks."""

    classes: int
    embedding: int
    batch: int
    sampling_ratio: float = 1.0

    def memory(self, ranks: int) -> int:
        """Weights and momentum, with a sample of classes their copy; gradient, logits, features and their gradients."""
        own, sampled = ceil(self.classes / ranks), self.sampling_ratio < 1
        drawn = min(own, ceil(self.sampling_ratio * own) + (self.batch if sampled else 0))
        row = NUMBER * self.embedding
        weights = 2 * own * row + (drawn * row if sampled else 0)
        return weights + drawn * row + NUMBER * self.batch * drawn + 2 * self.batch * row

    def sent(self, ranks: Ranks) -> int:
        """Two counts a rank, features and labels of all, three sums a sample, and the features' gradients."""
        own, others = self.batch // ranks.size, ranks.size - 1
        row = NUMBER * self.embedding
        sums = ranks.sum(2 * ranks.size) + ranks.sum(2 * self.batch) + ranks.sum(self.batch + 1)
        return sums + own * (row + 8) * others + (self.batch - own) * row
