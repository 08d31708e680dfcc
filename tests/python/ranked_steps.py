"""Steps of SubspaceOptimizer on one of several ranks: a process of test_subspace_optimizer."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.nn import functional

import dimred


def take_steps(kind: str, rank: int, size: int, folder: Path) -> None:
    """Twelve steps on this rank's part of each batch; the weights after them as a file of the folder. The second six of
    several ranks are those of another optimizer, with the first one's state of a distributed checkpoint.

    kind: "ddp" wraps the network, "bare" gives the process group.
    """
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/{kind}_{size}", rank=rank, world_size=size)
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3))
    columns = sum(p.numel() for p in model.parameters())
    rows = np.linalg.qr(np.random.default_rng(2).normal(size=(columns, 5)))[0].T
    network = nn.parallel.DistributedDataParallel(model) if kind == "ddp" else model

    def made() -> dimred.SubspaceOptimizer:
        return dimred.SubspaceOptimizer(
            network,
            dimred.Basis(rows.astype(np.float32), None, None),
            process_group=None if kind == "ddp" else True,
            flatten=kind == "bare",
            weight_decay=0.01,
            alpha=0.02,
        )

    optimizer = made()
    for step in range(12):
        if step == 6 and size > 1:
            checkpoint.save(
                {"optimizer": get_optimizer_state_dict(network, optimizer)}, checkpoint_id=folder / f"{kind}_state"
            )
            optimizer = made()
            parts = {"optimizer": get_optimizer_state_dict(network, optimizer)}
            checkpoint.load(parts, checkpoint_id=folder / f"{kind}_state")
            set_optimizer_state_dict(network, optimizer, parts["optimizer"])
        generator = torch.Generator().manual_seed(step)
        images, labels = torch.randn(12, 6, generator=generator), torch.randint(0, 3, (12,), generator=generator)
        mine = slice(rank * 12 // size, (rank + 1) * 12 // size)
        optimizer.step(lambda x=images[mine], y=labels[mine]: functional.cross_entropy(network(x), y))
    weights = nn.utils.parameters_to_vector(model.parameters()).detach().numpy()
    np.save(folder / f"{kind}_{size}_{rank}.npy", weights)
    dist.barrier()
    os._exit(0)  # Gloo's threads now and then abort the interpreter at its end
