"""What dimred.fit takes, as rows for the core."""

from __future__ import annotations

import glob
import json
import os
import pickle
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dimred import _core
from dimred._arrays import FLOATS, Row, Tensor, is_matrix, matrix_rows, state_row

OWN = {".h5", ".safetensors", ".npy"}  # what the core opens by itself
TORCH = {".pt", ".pth", ".bin", ".ckpt"}
INDEX = ".safetensors.index.json"
WRAPPERS = ("state_dict", "model_state_dict", "model", "module")  # under which training scripts save it
SAFETENSORS = {dtype: name for name, dtype in FLOATS.items()}


def open_source(source: Any) -> _core.Source:
    """The snapshot matrix: see dimred.fit."""
    if isinstance(source, (str, os.PathLike)):
        return _open_path(os.fspath(source))
    if is_matrix(source):
        return _core.open_arrays(matrix_rows(source))
    if isinstance(source, Mapping) or not isinstance(source, Sequence) or isinstance(source, bytes):
        raise TypeError(f"[dimred.fit] needs a path, an array or a list, received {type(source).__name__}")
    items = list(source)
    if not items:
        raise ValueError("[dimred.fit] needs snapshots, received an empty list")
    if all(isinstance(item, (str, os.PathLike)) for item in items):
        return _open_files([Path(item) for item in items])
    return _core.open_arrays([_item_row(i, item) for i, item in enumerate(items)])


def _item_row(index: int, item: Any) -> Row:
    name = f"list[{index}]"
    if isinstance(item, Mapping):
        return state_row(name, item)
    if is_matrix(item):
        return name, [("", *tensor[1:]) for tensor in state_row(name, {"": item})[1]]
    raise TypeError(f"[dimred.fit] needs a list of paths, of state dicts or of vectors, received {type(item).__name__} in it")


def natural(path: Path) -> list[Any]:
    """A key that puts step_2 before step_10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", path.name) if part]


def _open_path(text: str) -> _core.Source:
    path = Path(text)
    if not path.exists() and glob.has_magic(text):
        found = sorted((Path(name) for name in glob.glob(text)), key=natural)
        if not found:
            raise FileNotFoundError(f"[dimred.fit] no file fits the pattern '{text}'")
        return _open_files(found)
    if not path.exists():
        raise FileNotFoundError(f"[dimred.fit] '{text}' does not exist")
    if not path.is_dir():
        return _core.open_path(text) if path.suffix in (".npy", ".txt") else _open_files([path])
    if (path / "snapshots").is_dir():
        path = path / "snapshots"
    files = _files_in(path)
    if not files:
        raise ValueError(f"[dimred.fit] the folder '{path}' holds no snapshots ({', '.join(sorted((OWN | TORCH) - {'.npy'}))})")
    if not _is_index(files[0]) and files[0].suffix in OWN and files[0].parent == path:
        return _core.open_path(str(path))  # also compares the files with a run's own list
    return _open_files(files)


def _files_in(folder: Path) -> list[Path]:
    """A folder's snapshots of one kind; of checkpoint folders, the weights in each."""
    if (index := _index_of(folder)) is not None:
        return [index]
    for suffixes in ({".h5"}, {".safetensors"}, TORCH):
        files = sorted((file for file in folder.iterdir() if file.suffix in suffixes), key=natural)
        if files:
            return files
    inner = (_weights_in(child) for child in sorted(folder.iterdir(), key=natural) if child.is_dir())
    return [file for file in inner if file is not None]


def _weights_in(folder: Path) -> Path | None:
    """The weights in a checkpoint's folder as Hugging Face and Lightning write them."""
    names = (folder / name for name in ("model.safetensors", "pytorch_model.bin"))
    return _index_of(folder) or next((path for path in names if path.exists()), None)


def _index_of(folder: Path) -> Path | None:
    return next((file for file in folder.iterdir() if _is_index(file)), None)


def _is_index(file: Path) -> bool:
    return file.name.endswith(INDEX)


def _open_files(files: list[Path]) -> _core.Source:
    weights = [(_weights_in(file) or file) if file.is_dir() else file for file in files]
    for file in weights:
        if not file.exists():
            raise FileNotFoundError(f"[dimred.fit] '{file}' does not exist")
        if file.is_dir() or not (_is_index(file) or file.suffix in TORCH | {".h5", ".safetensors"}):
            raise ValueError(f"[dimred.fit] '{file}' is no snapshot: needs .h5, .safetensors or {', '.join(sorted(TORCH))}")
    if all(file.suffix in OWN for file in weights):
        return _core.open_files([str(file) for file in weights])
    return _core.open_arrays([_file_row(file) for file in weights])


def _file_row(file: Path) -> Row:
    if _is_index(file):
        return str(file), _sharded(file)
    if file.suffix in TORCH:
        return state_row(str(file), _torch_state(file))
    if file.suffix == ".safetensors":
        return str(file), _mapped(file)
    raise ValueError(f"[dimred.fit] needs snapshots of one kind, received '{file}' among others")


def _sharded(index: Path) -> list[Tensor]:
    """The tensors of all shards that a Hugging Face index names, shard behind shard."""
    try:
        shard_of = dict(json.loads(index.read_text())["weight_map"])
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"[dimred.fit] '{index}' is damaged: it has no weight_map ({error})") from None
    tensors: list[Tensor] = []
    for shard in sorted(set(shard_of.values())):
        if Path(shard).name != shard or not (index.parent / shard).exists():
            raise FileNotFoundError(f"[dimred.fit] '{index}' names the shard '{shard}', which is not beside it")
        tensors += [tensor for tensor in _mapped(index.parent / shard) if shard_of.get(tensor[0]) == shard]
    missing = {name for name, shard in shard_of.items()} - _names(index.parent, set(shard_of.values()))
    if missing:
        raise OSError(f"[dimred.fit] '{index}' names the tensor '{min(missing)}', which none of its shards holds")
    return tensors


def _names(folder: Path, shards: set[str]) -> set[str]:
    return {tensor[0] for shard in shards for tensor in _core.safetensors_header(str(folder / shard))}


def _mapped(file: Path) -> list[Tensor]:
    """The float tensors of a safetensors file, mapped into memory."""
    header = _core.safetensors_header(str(file))
    data = np.memmap(file, np.uint8, "r")
    tensors: list[Tensor] = []
    for name, dtype, shape, offset in header:
        if dtype not in SAFETENSORS:
            continue
        stored = np.dtype(np.uint16 if dtype == "BF16" else SAFETENSORS[dtype])
        size = int(np.prod(shape, dtype=np.int64)) * stored.itemsize
        tensors.append((name, tuple(shape), dtype, data[offset : offset + size].view(stored)))
    return tensors


def _torch_state(file: Path) -> Mapping[str, Any]:
    """The state dict in a file of torch.save; nothing in it is run, and its tensors are mapped, not read."""
    try:
        import torch
    except ImportError:
        raise ImportError(f"[dimred.fit] needs torch to read '{file}': pip install torch, or save safetensors") from None
    try:
        state = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except (RuntimeError, ValueError, LookupError, AttributeError, EOFError, pickle.UnpicklingError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"[dimred.fit] torch.load(weights_only=True) refuses '{file}': {reason}") from None
    for key in WRAPPERS:
        if isinstance(state, Mapping) and isinstance(state.get(key), Mapping):
            return dict(state[key])
    if not isinstance(state, Mapping) or not any(hasattr(value, "dtype") for value in state.values()):
        held = ", ".join(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise ValueError(f"[dimred.fit] '{file}' holds no state dict (nor under {', '.join(WRAPPERS)}), but {held}")
    return state
