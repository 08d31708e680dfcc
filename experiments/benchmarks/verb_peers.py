"""What torch, accelerate and PEFT do in verbs.py, each as a process of its own, and the files that they read.

    python experiments/benchmarks/verb_peers.py NAME PATH...

Each call is the one that the project's own documentation shows.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

RANKS = 2


def dcp_to_torch_save(source: str, output: str) -> None:
    """One file of torch's from a distributed checkpoint."""
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save as convert

    convert(source, output)


def merge_fsdp_weights(source: str, output: str) -> None:
    """One safetensors file from a distributed checkpoint, by accelerate."""
    from accelerate.utils import merge_fsdp_weights as merge

    merge(source, output)


def merge_and_unload(base: str, adapter: str, output: str) -> None:
    """A model with PEFT's adapter in its weights."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
    PeftModel.from_pretrained(model, adapter).merge_and_unload().save_pretrained(output)


def save_rank(rank: int, source: str, output: str) -> None:
    """The part of one rank, which holds every RANKS-th of the rows of each tensor."""
    import torch.distributed
    from safetensors.torch import load_file
    from torch.distributed import checkpoint
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    place = f"file://{output}.store"
    torch.distributed.init_process_group("gloo", init_method=place, rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    files = sorted(Path(source).glob("*.safetensors"))
    whole = {name: tensor for file in files for name, tensor in load_file(file).items()}
    parts = {name: distribute_tensor(whole.pop(name), mesh, [Shard(0)]) for name in list(whole)}
    checkpoint.save({"model": parts}, checkpoint_id=output)
    torch.distributed.destroy_process_group()


def make_distributed(source: str, output: str) -> None:
    """A distributed checkpoint of DTensors, as FSDP2 makes one, of the weights in a folder."""
    from torch import multiprocessing

    multiprocessing.spawn(save_rank, (source, output), nprocs=RANKS)


def make_adapter(base: str, output: str) -> None:
    """An adapter of all linear layers, neither of whose factors is zero."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
    config = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", init_lora_weights=False)
    get_peft_model(model, config).save_pretrained(output)


def versions() -> None:
    """The versions of this environment."""
    print(json.dumps({name: version(name) for name in ("torch", "accelerate", "transformers", "peft")}))


CALLS = {
    call.__name__: call
    for call in (dcp_to_torch_save, merge_fsdp_weights, merge_and_unload, make_distributed, make_adapter, versions)
}


if __name__ == "__main__":
    CALLS[sys.argv[1]](*sys.argv[2:])
