"""Pickles and zip archives, read with nothing in them run. The programs hold this text and run `python3 -I -S -c TEXT
KIND FILE`, so it needs the standard library alone: what KIND says goes to standard output, a refusal to standard error
as one line.

Allowed in a pickle of weights are plain values, collections.OrderedDict, and tensors and parameters of torch's dense
storages, as torch/serialization.py and torch/_utils.py write them; in one of pairs plain values alone."""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import pickle
import re
import resource
import struct
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO, ClassVar, NamedTuple, NoReturn, TypeVar

STORAGES = {
    "Float": "F32",
    "Double": "F64",
    "Half": "F16",
    "BFloat16": "BF16",
    "Bool": "BOOL",
    "Byte": "U8",
    "Char": "I8",
    "Short": "I16",
    "Int": "I32",
    "Long": "I64",
    "ComplexFloat": "C64",
}
BYTES = {"C64": 8, "F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "BOOL": 1, "U8": 1, "I8": 1}
MOST_DIMENSIONS = 64
MOST_LEVELS = 64  # of dictionaries in one another
WEIGHTS = ("F32", "F64", "F16", "BF16", "C64")
WRAPPERS = ("state_dict", "model_state_dict", "model", "module")  # under which training programs save them
AVERAGE = re.compile(r"(^|[^a-z])(ema|swa|avg|average|averaged|polyak)([^a-z]|$)")  # in the key of averaged weights
OPTIMIZER = re.compile("optim|sched|scaler|criteri")  # in a word of the key of what is no network
TRAINING = re.compile(  # a word of such a key, whole: arcloss is a layer
    "(train|training|val|valid|validation|test|eval|best|data|lr|amp|grad|torch|numpy|np|python|cuda)?"
    "(opt|loss|losse|metric|accuracy|accuracie|callback|loop|hook|rng|random|sampler|loader|dataset|queue|progress|"
    "history|historie|grad|gradient|trainer)s?(state|states|dict|fn|func|function|log|logs)?"
)
LOSS = re.compile("^loss|loss(es)?$")  # in a word of a loss's key, which may also be a layer's: arcloss, loss_net
MODULE = re.compile(  # the last word of a network's key, whatever the words before: history_encoder, metric_fc
    "(model|module|net|network|encoder|decoder|transformer|backbone|head|fc|mlp|layer|linear|proj|projector|projection|"
    "embed|embedding|embedder|embeddings|classifier|tower|adapter|lm|llm)s?"
)
CONTAINER = {"state", "states", "dict", "dicts", "weight", "weights", "param", "params", "parameters"}
COUNTED = re.compile(r"epoch|step|iter|(^|_)(lr|rate|best|time|version|seed|decay|momentum|acc)(_|\d|$)")  # in its key
OTHER_TYPES = re.compile(r"(float[48]_|u?int\d+$|quint|qint|bits)")  # of torch, which torch.save alone writes
TAKERS = "merge, convert and diff read"  # the commands that have --take: each command prints the remarks
REFUSED, UNFIT = 3, 4  # exit codes

Result = TypeVar("Result")


class Refused(Exception):
    """Why, in one line."""


class Unfit(Refused):
    """A file that is whole, but does not hold what the caller asks for."""


class ElementType(NamedTuple):
    """A stand-in for a storage class of torch."""

    name: str  # safetensors' word


class Storage(NamedTuple):
    """A record of the archive."""

    type: str
    key: str
    elements: int


class Tensor(NamedTuple):
    """Elements of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def elements(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    def lies_within(self) -> bool:
        """Whether its storage has every element, and as many as the tensor."""
        if self.offset < 0 or min((*self.shape, *self.stride), default=0) < 0:
            return False
        last = self.offset + sum((n - 1) * step for n, step in zip(self.shape, self.stride, strict=True) if n > 1)
        end = self.offset if self.elements() == 0 else last + 1
        return max(self.elements(), end) <= self.storage.elements

    def strides(self) -> tuple[int, ...]:
        """Empty where the elements lie in the shape's order."""
        ends = itertools.accumulate(self.shape[:0:-1], initial=1, func=lambda step, n: step * n)
        in_order = all(
            n == 1 or step == own for n, step, own in zip(self.shape[::-1], self.stride[::-1], ends, strict=False)
        )
        return () if in_order or self.elements() == 0 else self.stride


def pointer_remark(file: str) -> str:
    """What support/text.h says of a pointer."""
    try:
        with open(file, "rb") as stream:
            pointer = stream.read(64).startswith(b"version https://git-lfs")
    except OSError:
        return ""  # the caller says what is wrong with it
    return ", which is a Git LFS pointer; run `git lfs pull` in its repository to fetch the file" if pointer else ""


def tensor_from(*arguments: Any) -> Tensor:
    """_rebuild_tensor_v2; its metadata says that a tensor is the negative or the conjugate of its storage."""
    storage, offset, shape, stride, _, _, *metadata = arguments
    numbers = (offset, *shape, *stride)
    fits = isinstance(storage, Storage) and storage.type in BYTES and not any(metadata)
    fits = fits and all(type(number) is int for number in numbers)
    if not fits or len(shape) != len(stride) or len(shape) > MOST_DIMENSIONS:
        raise Refused("has a tensor with unknown arguments")
    return Tensor(storage, offset, tuple(shape), tuple(stride))


def other_tensor(*arguments: Any) -> NoReturn:
    """_rebuild_tensor_v3: of a type that no storage class of torch has."""
    dtype = next((value.name for value in arguments if isinstance(value, ElementType) and value.name), "unknown")
    raise Refused(f"has a tensor of type {dtype}; save the tensors with safetensors: {SAVE}")


SAVE = "safetensors.torch.save_file(model.state_dict(), FILE)"
LAYOUTS = {
    "_rebuild_sparse_tensor": f"has a sparse tensor; make it dense with to_dense(), then {SAVE}",
    "_rebuild_nested_tensor": f"has a nested tensor; save its tensors one by one: {SAVE}",
    "_rebuild_qtensor": f"has a quantised tensor; save it with dequantize() or int_repr(): {SAVE}",
}


def parameter_from(tensor: Any, _requires_grad: Any, _hooks: Any) -> Any:
    """_rebuild_parameter."""
    return tensor


def data_of(tensor: Any, *_others: Any) -> Any:
    """_rebuild_parameter_with_state."""
    return tensor


def typed_from(build: Any, _kind: Any, arguments: Any, state: Any) -> Any:
    """_rebuild_from_type_v2: a tensor with attributes of Python; those of a DTensor say what it holds."""
    if build in (tensor_from, parameter_from):
        return build(*arguments)
    if build is not wrapper_from:
        raise Refused("has a tensor with an unknown constructor")
    states = state if type(state) is tuple else (state,)  # of __dict__ and of __slots__
    fields = {name: value for each in states if isinstance(each, dict) for name, value in each.items()}
    wrapper = wrapper_from(*arguments)
    local, spec = (fields.get(name) for name in ("_local_tensor", "_spec"))
    if not isinstance(local, Tensor) or not isinstance(spec, Spec):
        raise Refused("has a DTensor without a local tensor or a DTensorSpec")
    return Sharded(wrapper.type, wrapper.shape, local, spec)


def nothing(*_arguments: Any) -> None:
    """What does not matter for values."""


class Opaque:
    """A stand-in for an object that is no tensor: it takes what a pickle gives it, and keeps nothing."""

    def __new__(cls, *_arguments: Any, **_named: Any) -> Opaque:
        return object.__new__(cls)

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        pass

    def __setstate__(self, _state: Any) -> None:
        pass

    def __setitem__(self, _key: Any, _value: Any) -> None:
        pass

    def append(self, _value: Any) -> None:
        """Takes a value."""

    def extend(self, _values: Any) -> None:
        """Takes values."""


DTYPES = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "complex64": "C64",
}


class Values(pickle.Unpickler):
    """Plain values alone."""

    allowed: ClassVar[dict[tuple[str, str], Any]] = {}
    refusal = "which plain values do not need; refused, nothing of it was run"

    def find_class(self, module: str, name: str) -> Any:
        """Nothing else can be named."""
        if (module, name) in OTHER_COMPLEX:
            of_type = OTHER_COMPLEX[module, name]
            raise Refused(f"has {of_type} tensors; save these tensors as complex64 or as real parts")
        if module == "torch._utils" and name in LAYOUTS:
            raise Refused(LAYOUTS[name])
        if (module, name) not in self.allowed:
            raise Refused(f"asks for {module}.{name}, {self.refusal}")
        return self.allowed[module, name]


class Typed(Values):
    """Values and element types."""

    def find_class(self, module: str, name: str) -> Any:
        """The element types that no storage class has are named in the refusal."""
        other = module == "torch" and OTHER_TYPES.match(name) and name not in DTYPES
        return ElementType(name) if other else super().find_class(module, name)


class Weights(Typed):
    """Values and tensors."""

    allowed: ClassVar = {
        ("collections", "OrderedDict"): OrderedDict,
        ("torch", "Size"): tuple,
        ("torch._utils", "_rebuild_tensor_v2"): tensor_from,
        ("torch._utils", "_rebuild_tensor_v3"): other_tensor,
        ("torch._utils", "_rebuild_parameter"): parameter_from,
        ("torch._utils", "_rebuild_parameter_with_state"): data_of,
        ("torch._tensor", "_rebuild_from_type_v2"): typed_from,
        ("torch", "Tensor"): nothing,
        ("torch.nn.parameter", "Parameter"): nothing,
        ("torch", "device"): nothing,
        ("collections", "Counter"): Opaque,  # a scheduler's milestones
        **{("torch", name): ElementType(type) for name, type in DTYPES.items()},
        ("torch", "UntypedStorage"): ElementType(""),
        ("torch.storage", "UntypedStorage"): ElementType(""),
        **{("torch", f"{name}Storage"): ElementType(type) for name, type in STORAGES.items()},
    }
    refusal = (
        "which weights alone do not need; refused, nothing of it was run "
        "(save the weights alone: torch.save(model.state_dict(), FILE))"
    )

    def persistent_load(self, pid: Any) -> Storage:
        """('storage', class, key, location, elements)."""
        kind, element, key, _, elements = pid
        if (
            kind != "storage"
            or not isinstance(element, ElementType)
            or type(key) is not str
            or type(elements) is not int
        ):
            raise Refused("needs torch's storages, received another persistent id")
        return Storage(element.name, key, elements)


class Fields:
    """A stand-in for a dataclass of torch.distributed.checkpoint: what was set of it."""

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state if isinstance(state, dict) else {"state": state})

    def get(self, name: str, kind: type) -> Any:
        """A field of this type."""
        value = self.__dict__.get(name)
        if not isinstance(value, kind):
            raise Refused(f"needs {name} of type {kind.__name__}, received {type(value).__name__}")
        return value


class TensorMetadata(Fields):
    """The stand-in for TensorStorageMetadata."""


METADATA = "torch.distributed.checkpoint.metadata"
MEMBER = (("builtins", "getattr"), ("__builtin__", "getattr"))  # of an enumeration, as Python 3.11.0 to 3.11.3 write it
OTHER_COMPLEX = {  # safetensors has no such type
    ("torch", "ComplexDoubleStorage"): "complex128",
    ("torch", "complex128"): "complex128",
    ("torch", "complex32"): "complex32",
}


class Distributed(Typed):
    """Where the tensors of a distributed checkpoint lie (torch/distributed/checkpoint/metadata.py)."""

    allowed: ClassVar = {
        **{
            (METADATA, name): type(name, (Fields,), {})
            for name in (
                "Metadata",
                "BytesStorageMetadata",
                "TensorProperties",
                "ChunkStorageMetadata",
                "MetadataIndex",
                "StorageMeta",
            )
        },
        (METADATA, "TensorStorageMetadata"): TensorMetadata,
        **{
            (module, "_StorageInfo"): type("_StorageInfo", (Fields,), {})
            for module in ("torch.distributed.checkpoint.filesystem", "olmo_core.distributed.checkpoint.filesystem")
        },
        (METADATA, "_MEM_FORMAT_ENCODING"): nothing,
        **dict.fromkeys(MEMBER, nothing),
        ("torch.serialization", "_get_layout"): nothing,
        **{  # pathlib._local: Python 3.13
            (module, name): nothing for module in ("pathlib", "pathlib._local") for name in ("PosixPath", "WindowsPath")
        },
        ("collections", "OrderedDict"): OrderedDict,
        ("torch", "Size"): tuple,
        **{("torch", name): ElementType(type) for name, type in DTYPES.items()},
    }
    refusal = "which the places of tensors do not need; refused, nothing of it was run"


class Wrapper(NamedTuple):
    """What _rebuild_wrapper_subclass says of a DTensor."""

    type: str
    shape: tuple[int, ...]


class Sharded(NamedTuple):
    """A rank's part of a tensor, with the DTensorSpec that says which part."""

    type: str
    shape: tuple[int, ...]
    local: Tensor
    spec: Fields

    @property
    def storage(self) -> Storage:
        return self.local.storage

    def elements(self) -> int:
        """The number of elements of the part."""
        return self.local.elements()


class TensorMeta(NamedTuple):
    """The stand-in for TensorMeta."""

    shape: Any
    stride: Any
    dtype: Any


class ShardOrder(NamedTuple):
    """The stand-in for ShardOrderEntry."""

    tensor_dim: Any
    mesh_dims: Any


class Mesh(Fields):
    """The stand-in for DeviceMesh."""


class MeshLayout(Fields):
    """The stand-in for _MeshLayout."""


class Spec(Fields):
    """The stand-in for DTensorSpec."""


class Placement(Fields):
    """A stand-in for a placement; the dimension may be an argument or a field."""

    dim: Any = None

    def __new__(cls, *arguments: Any) -> Placement:
        placement = object.__new__(cls)
        if arguments:
            placement.dim = arguments[0]
        return placement

    def __init__(self, *_arguments: Any) -> None:
        pass


PLACEMENTS = {
    name: type(name, (Placement,), {})
    for name in ("Shard", "Replicate", "Partial", "_Partial", "_StridedShard", "_MaskPartial")
}


def wrapper_from(kind: Any, dtype: Any, size: Any, *_others: Any) -> Wrapper:
    """_rebuild_wrapper_subclass."""
    if kind is not Sharded or not isinstance(dtype, ElementType) or type(size) is not tuple:
        raise Refused("has a tensor subclass other than a DTensor of a dense type")
    return Wrapper(dtype.name, size)


OLD, NEW = "torch.distributed._tensor", "torch.distributed.tensor"  # until torch 2.4, and since


class Ranks(Weights):
    """A rank's part of a state_dict of FSDP: DTensors (torch/distributed/tensor)."""

    allowed: ClassVar = {
        **Weights.allowed,
        ("torch._utils", "_rebuild_wrapper_subclass"): wrapper_from,
        ("torch.serialization", "_get_layout"): nothing,
        **{(module, "DTensor"): Sharded for module in (NEW, f"{NEW}._api", OLD, f"{OLD}.api")},
        **{(module, "DeviceMesh"): Mesh for module in ("torch.distributed.device_mesh", f"{OLD}.device_mesh")},
        ("torch.distributed._mesh_layout", "_MeshLayout"): MeshLayout,
        **{
            (module, name): kind
            for module in (f"{NEW}.placement_types", f"{OLD}.placement_types", f"{NEW}._dtensor_spec")
            for name, kind in {"DTensorSpec": Spec, "TensorMeta": TensorMeta, **PLACEMENTS}.items()
        },
        (f"{NEW}._dtensor_spec", "ShardOrderEntry"): ShardOrder,
    }

    def find_class(self, module: str, name: str) -> Any:
        if name == "ShardedTensor":
            raise Refused(
                "has ShardedTensors of FSDP without a device mesh; give FSDP a device_mesh, or save with "
                "torch.distributed.checkpoint"
            )
        return super().find_class(module, name)


def stage_from(stage: Any) -> Any:
    """ZeroStageEnum."""
    return stage


ZERO_STAGES = {"disabled": 0, "optimizer_states": 1, "gradients": 2, "weights": 3, "max_stage": 3}


def member_from(kind: Any, name: Any) -> Any:
    """A member of an enumeration, by its name."""
    if kind is not stage_from:
        return Opaque()
    if name not in ZERO_STAGES:
        raise Refused(f"has the unknown ZeRO stage {name!r}")
    return ZERO_STAGES[name]


class Zero(Ranks):
    """What DeepSpeed saves of a rank: tensors and plain values; others stand in dictionaries that are not read."""

    opaque: ClassVar = (  # modules, with those in them
        *("accelerate", "argparse", "datetime", "deepspeed", "lightning", "megatron", "numpy", "omegaconf"),
        *("pathlib", "pytorch_lightning", "transformers"),
    )
    opaque_builtins: ClassVar = ("bytearray", "complex", "frozenset", "range", "set", "slice", "xrange")
    allowed: ClassVar = {
        **Ranks.allowed,
        ("deepspeed.runtime.zero.config", "ZeroStageEnum"): stage_from,
        **dict.fromkeys(MEMBER, member_from),
        ("_codecs", "encode"): Opaque,
        ("types", "SimpleNamespace"): Opaque,
        **{("collections", name): Opaque for name in ("defaultdict", "deque")},
    }

    def find_class(self, module: str, name: str) -> Any:
        known = (module, name) in self.allowed
        builtin = module in ("builtins", "__builtin__")  # Python 2's name, by protocol 2
        stands_in = module.split(".")[0] in self.opaque or (builtin and name in self.opaque_builtins)
        return Opaque if stands_in and not known else super().find_class(module, name)


def value_of(unpickler: Values) -> Any:
    """The value of a pickle."""
    try:
        return unpickler.load()
    except Refused:
        raise
    except MemoryError as error:
        raise Refused("is damaged, or needs more memory than a file of its size should (MemoryError)") from error
    except Exception as error:
        raise Refused(f"is damaged or is cut off: {type(error).__name__}: {error}") from error


def opened(file: str) -> zipfile.ZipFile:
    """An archive."""
    try:
        return archive_of(file)
    except Exception as error:
        raise Refused(f"is damaged or cut off at byte {os.path.getsize(file)}: {error}") from error


def archive_of(file: Any) -> zipfile.ZipFile:
    """zipfile's; after torch.serialization.set_crc32_options(False), torch has written no CRC to compare."""
    archive = zipfile.ZipFile(file)
    records = archive.infolist()
    if not any(record.CRC for record in records):
        for record in records:
            record.CRC = None  # type: ignore[assignment]
    return archive


def checked(call: Callable[[], Result], record: str) -> Result:
    """The archive's answer; zipfile compares CRCs, which torch does not."""
    try:
        return call()
    except Exception as error:
        raise Refused(f"record {record} is damaged: {error}") from error


def plain_record(archive: zipfile.ZipFile, record: str) -> zipfile.ZipInfo:
    """A record that is stored as torch.save does it, so that none is larger than its file."""
    info = checked(lambda: archive.getinfo(record), record)
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        raise Refused(f"record {record} needs to be stored without compression or encryption")
    return info


def content(archive: zipfile.ZipFile, record: str) -> bytes:
    """The bytes of a record."""
    info = plain_record(archive, record)
    return checked(lambda: archive.read(info), record)


def folder_of(names: list[str]) -> str:
    """ "name/" of the one "name/data.pkl"."""
    if any(name.endswith("/constants.pkl") for name in names):
        raise Refused("is a TorchScript program; save only the weights: torch.save(model.state_dict(), FILE)")
    for name in names:
        if name.endswith("/data.pkl"):
            return name.removesuffix("data.pkl")
    raise Refused("is a zip archive, but has no data.pkl")


class Entry(NamedTuple):
    """A tensor in dictionaries and lists, with the keys that lead to it; of an optimizer or a module's extra state."""

    keys: tuple[Any, ...]
    tensor: Any  # Tensor or Sharded
    is_state: bool


def items_in(value: Any) -> Any:
    """The keys and values of a dictionary or list; of another value none."""
    return dict.items(value) if isinstance(value, dict) else enumerate(value) if type(value) in (list, tuple) else ()


def is_optimizer(value: Any) -> bool:
    """As torch.optim's state_dict() is laid out."""
    return isinstance(value, dict) and all(dict.__contains__(value, key) for key in ("state", "param_groups"))


def entries_in(top: Any, most: int) -> list[Entry]:
    """All tensors of a value, in its order; a pickle of `most` bytes cannot have more values unless they repeat."""
    entries: list[Entry] = []
    visits = itertools.count()

    def visit(value: Any, keys: tuple[Any, ...], is_state: bool) -> None:
        if next(visits) > most or len(keys) > MOST_LEVELS:
            raise Refused("has dictionaries or lists that repeat or contain one another")
        if isinstance(value, (Tensor, Sharded)):
            entries.append(Entry(keys, value, is_state))
            return
        is_state = is_state or is_optimizer(value) or str(*keys[-1:]).endswith("_extra_state")
        for key, item in items_in(value):
            if isinstance(item, (dict, list, tuple)):
                visit(item, (*keys, key), is_state)

    visit(top, (), False)
    return entries


def networks_in(top: Any, entries: list[Entry]) -> dict[Any, list[Tensor]]:
    """The tensors of each dictionary that may be a network, by its key."""
    within: dict[Any, list[Tensor]] = {}
    for entry in entries:
        if len(entry.keys) > 1 and not entry.is_state and isinstance(dict.get(top, entry.keys[0]), dict):
            within.setdefault(entry.keys[0], []).append(entry.tensor)
    return within


def large_ones(within: dict[Any, list[Tensor]]) -> list[Any]:
    """The keys of those that hold more than numbers."""
    return [key for key, tensors in within.items() if any(tensor.elements() > 1 for tensor in tensors)]


def words_in(key: Any) -> list[str]:
    """The words of a key, in lower case."""
    return [word.lower() for word in re.findall("[A-Z]+(?![a-z])|[A-Z]?[a-z]+", str(key))]


def is_training(key: Any) -> bool:
    """Whether a program keeps what is no network under this key."""
    words = words_in(key)
    if any(map(OPTIMIZER.search, words)) or words in (["amp"], ["message", "hub"]):
        return True
    named = [word for word in words if word not in CONTAINER]
    if not named or MODULE.fullmatch(named[-1]):
        return False
    return any(map(TRAINING.fullmatch, words))


def networks_among(keys: list[Any], within: dict[Any, list[Tensor]]) -> list[Any]:
    """The keys of dictionaries with floating-point numbers that no word calls training state. A loss has weights too,
    of classes for example, but few beside those of the network whose loss it is."""
    floating = [key for key in keys if any(tensor.storage.type in WEIGHTS for tensor in within[key])]
    networks = [key for key in floating if not is_training(key)]
    sizes = {key: sum(tensor.elements() for tensor in within[key]) for key in networks}
    losses = [key for key in networks if any(map(LOSS.search, words_in(key)))]
    return [key for key in networks if key not in losses or 100 * sizes[key] >= max(sizes.values())]


def network_in(top: Any, entries: list[Entry]) -> Any:
    """The key of the dictionary that is the network; None: all is. A loss or an accuracy beside it may be a tensor."""
    within = networks_in(top, entries)
    wrapped = [key for key in WRAPPERS if key in within]
    large = large_ones(within)
    different = [key for key in wrapped if key in large and within[key] != within[wrapped[0]]]
    if wrapped and different and not kinds_in(top, entries).averaged:
        refuse_several([wrapped[0], *different], top)
    if wrapped:
        return wrapped[0]
    bare = (entry.tensor for entry in entries if len(entry.keys) == 1 or is_listed_weight(top, entry))
    if not within or any(tensor.elements() > 1 and tensor.storage.type in WEIGHTS for tensor in bare):
        return None
    candidates = large or list(within)
    networks = networks_among(candidates, within) or candidates
    if len(networks) > 1:
        refuse_both_kinds(networks, kinds_in(top, entries), entries)
        refuse_several(networks, top)
    return networks[0]


def shapes_within(key: Any, entries: list[Entry]) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """The shape of each tensor in the dictionary of this key, by the further keys."""
    return {entry.keys[1:]: entry.tensor.shape for entry in entries if entry.keys[0] == key}


def refuse_both_kinds(networks: list[Any], kinds: Kinds, entries: list[Entry]) -> None:
    """Names --take, which can choose where the two networks are raw weights and their average."""
    raw, averaged = ([key for key in networks if key in of_kind] for of_kind in (kinds.raw, kinds.averaged))
    if len(networks) != 2 or not len(raw) == len(averaged) == 1:
        return
    if shapes_within(raw[0], entries) == shapes_within(averaged[0], entries):
        raise Refused(
            f"has raw weights, {raw[0]}, and averaged weights, {averaged[0]}; with --take raw or averaged, {TAKERS} "
            "one of them"
        )


def refuse_several(networks: list[Any], top: Any) -> NoReturn:
    """Names the keys of networks of which none is meant before the others."""
    raise Refused(
        f"has more than one network, {listed(networks)}, among the keys {keys_of(top)}; save "
        f"only one network: torch.save(torch.load(FILE)[{networks[0]!r}], OTHER)"
    )


def keys_of(top: Any) -> str:
    """The keys of a dictionary, for a person."""
    keys = dict.keys(top) if isinstance(top, dict) else ()
    return ", ".join(key for key in keys if isinstance(key, str))[:100] or "something else"


def name_of(keys: tuple[Any, ...]) -> str:
    """With dots, as a module's state_dict() has them."""
    if other := [key for key in keys if type(key) not in (str, int)]:
        raise Refused(f"needs names as text, received the key {other[0]!r}"[:200])
    return ".".join(map(str, keys))


def is_in_list(top: Any, entry: Entry) -> bool:
    """Whether a list that lies beside the network has it."""
    return len(entry.keys) > 1 and not isinstance(dict.get(top, entry.keys[0]), dict)


def is_listed_weight(top: Any, entry: Entry) -> bool:
    """Whether it is a weight of such a list, as generators' states and an optimizer's tensors are not."""
    floating = entry.tensor.storage.type in WEIGHTS
    return is_in_list(top, entry) and floating and not entry.is_state and not is_training(entry.keys[0])


def are_lists_beside(top: Any, entries: list[Entry]) -> bool:
    """Whether lists lie beside other tensors of the network: lists alone may be several networks."""
    return any(not entry.is_state and not is_in_list(top, entry) for entry in entries)


class Kinds(NamedTuple):
    """The keys of a file's dictionaries of averaged weights and of others."""

    averaged: list[Any]
    raw: list[Any]


def kinds_in(top: Any, entries: list[Entry]) -> Kinds:
    """Lightning's WeightAveraging (lightning/pytorch/callbacks/weight_averaging.py) and mmengine's EMAHook
    (mmengine/hooks/ema_hook.py) save the average as state_dict, and the raw weights beside it."""
    keys = large_ones(networks_in(top, entries))
    raw_beside = "current_model_state"
    if dict.__contains__(top, "message_hub") or items_named(dict.get(top, "meta"), "mmengine_version"):
        raw_beside = "ema_state_dict"
    if "state_dict" in keys and raw_beside in keys:
        return Kinds(["state_dict"], [raw_beside])
    averaged = [key for key in keys if isinstance(key, str) and AVERAGE.search(key.lower())]
    return Kinds(averaged, [key for key in keys if key not in averaged])


def items_named(value: Any, name: str) -> list[Any]:
    """The values that a dictionary has under this name."""
    return [item for key, item in items_in(value) if key == name]


def modes_in(top: Any) -> set[Any]:
    """Whether optimizers of schedule_free were in train mode: the network then holds the point of the next gradient,
    else the average."""
    optimizers = [value for _, value in items_in(top) for value in (value, *(item for _, item in items_in(value)))]
    groups = [group for value in optimizers if is_optimizer(value) for _, group in items_in(value["param_groups"])]
    return {mode for group in groups for mode in items_named(group, "train_mode") if isinstance(mode, bool)}


class Choice(NamedTuple):
    """The key of the network; None: all is. What a person should know of it, and whether the weights are averaged or
    raw, or of a schedule-free optimizer's eval mode or train mode; empty: the file does not say."""

    key: Any
    remark: str = ""
    kind: str = ""


def listed(keys: list[Any]) -> str:
    """Keys for a person."""
    return ", ".join(map(str, keys))[:100]


def taken(top: Any, entries: list[Entry], take: str) -> Choice:
    """The network: of a file that holds raw and averaged weights those that `take` says, or the usual ones."""
    kinds, modes = kinds_in(top, entries), modes_in(top)
    choice = chosen(top, entries, take, kinds, modes)
    if kinds.averaged and choice.key is not None:
        return choice._replace(kind="averaged" if choice.key in kinds.averaged else "raw")
    if take and holds_both(top):
        return choice._replace(kind=take)
    return choice._replace(kind="train mode" if True in modes else "eval mode") if len(modes) == 1 else choice


def chosen(top: Any, entries: list[Entry], take: str, kinds: Kinds, modes: set[Any]) -> Choice:
    """taken() without the kind."""
    if not take:
        key = network_in(top, entries)
        both = f"its raw weights and their average are read; with --take raw or averaged, {TAKERS} one of them"
        return Choice(key, both if holds_both(top) else remark_on(key, kinds, modes))
    if holds_both(top):
        return Choice(None)
    if kinds.averaged:
        found = getattr(kinds, take)
        if found and take == "raw":
            usual = [key for key in WRAPPERS if key in found]
            found = usual[:1] or found
        if len(found) == 1:
            return Choice(found[0])
        if found:
            raise Unfit(f"holds several kinds of {take} weights, {listed(found)}; save one of them alone")
        raise Unfit(f"holds no {take} weights, only {listed(kinds.averaged)}")
    if modes and modes != {take == "raw"}:
        mode, call = ("eval", "train") if take == "raw" else ("train", "eval")
        raise Unfit(
            f"was saved in {mode} mode of a schedule-free optimizer, and holds no {take} weights; call "
            f"optimizer.{call}() before saving"
        )
    if take == "averaged" and not modes:
        raise Unfit(f"holds no averaged weights among its keys {keys_of(top)}")
    return Choice(network_in(top, entries))


def networks_beside(key: Any, top: Any, entries: list[Entry]) -> list[Any]:
    """The keys of other networks than the one that is read; an average of it is none, nor are its own tensors."""
    if key is None:
        return []
    within, kinds = networks_in(top, entries), kinds_in(top, entries)
    others = kinds.averaged if key in kinds.averaged else kinds.raw
    return [other for other in networks_among(others, within) if within[other] != within.get(key)]


def loose_weights(key: Any, top: Any, entries: list[Entry]) -> list[Entry]:
    """Weights that lie beside the network in no dictionary, as no word calls them training state."""
    if key is None:
        return []
    own = {entry.tensor for entry in entries if entry.keys[0] == key}
    bare = [entry for entry in entries if len(entry.keys) == 1 or is_listed_weight(top, entry)]
    floating = [entry for entry in bare if entry.tensor.storage.type in WEIGHTS and entry.tensor.elements() > 1]
    named = [entry for entry in floating if not entry.is_state and not is_training(entry.keys[0])]
    return [entry for entry in named if entry.keys[0] != key and entry.tensor not in own]


def loose_remark(loose: list[Entry]) -> str:
    """Names the first of them."""
    if not loose:
        return ""
    names = ", ".join(".".join(map(str, entry.keys)) for entry in loose[:3])
    few = f"{names}, ..." if len(loose) > 3 else names
    return f"another tensor ({few}) is left out" if len(loose) == 1 else f"other tensors ({few}) are left out"


def numbers_in(value: Any, keys: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The keys of Python's numbers that lie beside tensors of a network."""
    if not isinstance(value, dict) or is_optimizer(value):
        return []
    items = list(dict.items(value))
    beside = any(isinstance(item, (Tensor, Sharded)) for _, item in items)
    found = [(*keys, key) for key, item in items if beside and type(item) in (int, float)]
    for key, item in items:
        if isinstance(item, dict) and not is_training(key) and not str(key).endswith("_extra_state"):
            found += numbers_in(item, (*keys, key))
    return found


def numbers_remark(key: Any, top: Any) -> str:
    """Names the network's numbers that are no tensors; a training program's own beside bare tensors are none."""
    if key is not None:
        names = [".".join(map(str, keys)) for keys in numbers_in(dict.get(top, key))]
    else:
        own = [(keys, dict.get(top, keys[0])) for keys in numbers_in(top) if len(keys) == 1]
        names = [str(name) for (name,), value in own if isinstance(value, float)]
        names = [name for name in names if not is_training(name) and not COUNTED.search(name.lower())]
    few = ", ".join([*names[:3], *(["..."] if len(names) > 3 else [])])
    return f"numbers of Python are no tensors and are left out: {few}" if names else ""


def beside_remark(keys: list[Any], entries: list[Entry]) -> str:
    """Says how large the networks are that are left out."""
    if not keys:
        return ""
    counts = [sum(entry.keys[0] == key for entry in entries) for key in keys]
    parts = [f"{key}: {n} tensor{'s' * (n != 1)}" for key, n in zip(keys, counts, strict=True)]
    subject, verb = ("another network", "is") if len(keys) == 1 else ("other networks", "are")
    return f"{subject} ({listed(parts)}) {verb} left out"


def remark_on(key: Any, kinds: Kinds, modes: set[Any]) -> str:
    """What the usual choice is, where there is another."""
    if kinds.averaged and kinds.raw and key in (*kinds.averaged, *kinds.raw):
        own, other = ("averaged", "raw") if key in kinds.averaged else ("raw", "averaged")
        return f"{key} is read, the {own} weights; with --take {other}, {TAKERS} {listed(getattr(kinds, other))}"
    if len(modes) == 1:
        held = "raw weights, in train mode" if True in modes else "averaged weights, in eval mode"
        return f"a schedule-free optimizer has saved {held}"
    return ""


def plain_names(tensors: dict[str, Tensor], take: str, others: set[str]) -> dict[str, Tensor]:
    """The tensors by the names that their network has, without counts beside them. AveragedModel
    (torch/optim/swa_utils.py) puts "module." before them, ema_pytorch keeps both kinds in one dictionary, and others
    a dictionary beside a decay: ema.shadow."""
    inner = {name.partition(".")[0] + "." for name, tensor in tensors.items() if tensor.elements() > 1}
    wrappers = ["module.", *(inner if take == "averaged" and len(inner) == 1 else ())]
    for prefix in ("ema_model." if take == "averaged" else "online_model.", *wrappers):
        own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        counted = prefix == "module." and "n_averaged" in tensors
        if own and (prefix not in wrappers or own.keys() <= others or counted):
            return own
    return tensors


def require_names(key: Any, averages: dict[str, Any], others: set[str]) -> None:
    """Refuses averages in a list, as torch_ema's shadow_params, whose order alone says of which weights they are."""
    large = [name for name, tensor in averages.items() if tensor.elements() > 1]
    if large and all(name.rpartition(".")[2].isdigit() and name not in others for name in large):
        raise Unfit(
            f"holds the averaged weights as a list, {key}.{large[0]} and others; save these weights under the names "
            "of the raw weights"
        )


def with_raw(averages: dict[str, Any], entries: list[Entry], kinds: Kinds) -> dict[str, Any]:
    """The averages and, where all of them are of one raw network, its tensors that have none, such as frozen ones."""
    networks = {}
    for key in kinds.raw:
        within = [entry for entry in entries if entry.keys[0] == key and not entry.is_state]
        own = {name_of(entry.keys[1:]): entry.tensor for entry in within}
        large = [(name, tensor) for name, tensor in averages.items() if tensor.elements() > 1]
        if all(name in own and own[name].shape == tensor.shape for name, tensor in large):
            networks[key] = own
    usual = [key for key in WRAPPERS if key in networks] or list(networks)
    if not usual or (len(networks) > 1 and usual[0] not in WRAPPERS):
        return averages
    return {name: averages.get(name, tensor) for name, tensor in networks[usual[0]].items()}


def holds_both(top: Any) -> bool:
    """Whether one dictionary holds the raw weights and their average, as ema_pytorch's does."""
    keys = [key for key, _ in items_in(top) if isinstance(key, str)]
    return all(any(key.startswith(prefix) for key in keys) for prefix in ("ema_model.", "online_model."))


def dotted_remark(entries: list[Entry], key: Any) -> str:
    """What a person should know of names that dictionaries within the network give."""
    inner = [keys for keys in (entry.keys[key is not None :] for entry in entries) if len(keys) > 1]
    if not inner:
        return ""
    groups = dict.fromkeys(str(keys[0]) for keys in inner)
    return (
        f"names are dotted, such as {name_of(inner[0])}: the file holds dictionaries within one another, "
        f"{listed([*groups])}"
    )


class Found(NamedTuple):
    """The network's tensors by their names, those beside it, remarks on the choice, and the kind of the weights."""

    network: dict[str, Any]
    beside: dict[str, Any]
    remarks: list[str]
    kind: str


def state_dict_of(top: Any, most: int, take: str = "") -> Found:
    """The network of a value."""
    entries = entries_in(top, most) if isinstance(top, dict) else []
    key, remark, kind = taken(top, entries, take) if isinstance(top, dict) else Choice(None)
    network: dict[str, Tensor] = {}
    beside: dict[str, Tensor] = {}
    read: list[Entry] = []
    others = networks_beside(key, top, entries)
    loose = loose_weights(key, top, entries)
    loose_ones = set(map(id, loose))
    lists = are_lists_beside(top, entries)
    for entry in entries:
        extra = is_in_list(top, entry) and not (lists and is_listed_weight(top, entry))
        if entry.is_state or (entry.keys[0] != key if key is not None else extra):
            if entry.keys[0] not in others and id(entry) not in loose_ones:
                beside[".".join(map(str, entry.keys))] = entry.tensor
            continue
        name = name_of(entry.keys if key is None else entry.keys[1:])
        if name in network:
            raise Refused(f"has two tensors called {name}")
        network[name] = entry.tensor
        read.append(entry)
    if not network and any(map(is_optimizer, (top, *(dict.values(top) if isinstance(top, dict) else ())))):
        raise Refused(
            f"holds an optimizer's state without weights; received {keys_of(top)}; give the weights' files, by a "
            "pattern where this file lies beside them"
        )
    if not network:
        raise Refused(
            f"needs tensors by name, or a dictionary that has them as {', '.join(WRAPPERS)}; received {keys_of(top)}"
        )
    said = (beside_remark(others, entries), loose_remark(loose), numbers_remark(key, top), dotted_remark(read, key))
    remarks = [text for text in (remark, *said) if text]
    if not take:
        return Found(network, beside, remarks, kind)
    names = {name_of(entry.keys[1:]) for entry in entries if entry.keys[0] != key and not entry.is_state}
    named = plain_names(network, take, names)
    if kind == "averaged" and key is not None:
        require_names(key, named, names)
        named = with_raw(named, entries, kinds_in(top, entries))
    kept = set(map(id, named.values()))
    if kind == "averaged":
        beside = {name: tensor for name, tensor in beside.items() if id(tensor) not in kept}
    beside.update((name, tensor) for name, tensor in network.items() if id(tensor) not in kept)
    return Found(named, beside, remarks, kind)


def require_extents(name: str, *numbers: int) -> None:
    """Refuses a shape, or strides, that 64 bits do not hold."""
    if min(numbers, default=0) < 0 or math.prod(number for number in numbers if number > 0) >= 1 << 63:
        raise Refused(
            f'"{name}" needs dimensions >= 0 with a product below 2^63 (without zeros), received {list(numbers)}'
        )


def check(archive: zipfile.ZipFile, folder: str, name: str, tensor: Tensor) -> None:
    """Refuses a tensor that the archive does not have."""
    require_extents(name, *tensor.shape)
    for step in tensor.stride:
        require_extents(name, step)
    storage, record = tensor.storage, f"{folder}data/{tensor.storage.key}"
    stored = checked(lambda: archive.getinfo(record), record).file_size
    if stored != storage.elements * BYTES[storage.type]:
        raise Refused(
            f'"{name}" needs a storage of {storage.elements} elements of {BYTES[storage.type]} bytes, received '
            f"{stored} bytes"
        )
    if tensor.elements() > storage.elements and 0 in tensor.stride:
        raise Refused(f'"{name}" repeats elements of its storage, as expand() does; save the tensor with .clone()')
    if not tensor.lies_within():
        raise Refused(f'"{name}" needs a shape and strides within the storage of {storage.elements}')


def as_json(value: Any) -> bytes:
    """In UTF-8, which half of a surrogate pair has no bytes in."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        text = error.object[max(0, error.start - 40) : error.start + 1]
        raise Refused(f"needs names in UTF-8, received {text.split(chr(34))[-1]!r}") from error


def loaded(archive: zipfile.ZipFile, unpickler: type[Weights]) -> tuple[str, Any]:
    """The archive's folder, and the value of its pickle."""
    folder = folder_of(archive.namelist())
    order = f"{folder}byteorder"
    received = content(archive, order) if order in archive.namelist() else b"little"
    if received != b"little":
        raise Refused(f"needs byteorder little, received {received!r}")
    record = f"{folder}data.pkl"
    pickled = io.BytesIO(content(archive, record))
    try:
        return folder, value_of(unpickler(pickled, encoding="utf-8"))
    except Refused as error:
        raise Refused(f"{record}: {error}") from error


def checked_state_dict(archive: zipfile.ZipFile, file: str, folder: str, top: Any, take: str = "") -> Found:
    """The network's tensors in the value, which the archive has, and those beside the network."""
    try:
        found = state_dict_of(top, os.path.getsize(file), take)
    except Unfit:
        raise
    except Refused as error:
        raise Refused(f"{folder}data.pkl: {error}") from error
    tensors = {name: tensor.local if isinstance(tensor, Sharded) else tensor for name, tensor in found.network.items()}
    check_all(archive, file, folder, tensors)
    return found


def check_all(archive: zipfile.ZipFile, file: str, folder: str, tensors: dict[str, Tensor]) -> None:
    """Refuses tensors that the archive does not have, or that repeat one another."""
    for name, tensor in tensors.items():
        check(archive, folder, name, tensor)
    most = 8 * os.path.getsize(file)
    if sum(tensor.elements() for tensor in tensors.values()) > most:
        raise Refused(f"needs at most {most} elements for a file of this size, but the tensors repeat one another")


def begin_of(archive: zipfile.ZipFile, record: str, stream: BinaryIO | io.RawIOBase) -> int:
    """The byte of the archive's stream at which a record begins, whose CRC holds."""
    info = plain_record(archive, record)

    def compare() -> None:
        with archive.open(info) as stored:
            while stored.read(1 << 20):
                pass

    checked(compare, record)
    stream.seek(info.header_offset + 26)
    return info.header_offset + 30 + sum(struct.unpack("<HH", stream.read(4)))


def rows_of(archive: zipfile.ZipFile, folder: str, file: str, tensors: dict[str, Tensor]) -> dict[str, list[Any]]:
    """Name, type, shape, strides ([]: in the shape's order) and byte in the file of each tensor, whose record's CRC
    holds."""
    with open(file, "rb") as stream:
        keys = {tensor.storage.key for tensor in tensors.values()}
        begins = {key: begin_of(archive, f"{folder}data/{key}", stream) for key in keys}
    return {
        name: [
            name,
            tensor.storage.type,
            tensor.shape,
            tensor.strides(),
            begins[tensor.storage.key] + tensor.offset * BYTES[tensor.storage.type],
        ]
        for name, tensor in tensors.items()
    }


def table(file: str, out: BinaryIO, take: str = "") -> None:
    """Its tensors as JSON: name, type, shape, strides ([]: in the shape's order), byte in the file, which is null for
    what lies beside the network and is not read. A text among them is a remark on the choice, an object says the kind
    of the weights (Choice)."""
    with opened(file) as archive:
        folder, top = loaded(archive, Weights)
        tensors, beside, remarks, kind = checked_state_dict(archive, file, folder, top, take)
        rows = list(rows_of(archive, folder, file, tensors).values())
    rows += [[name, tensor.storage.type, [], [], None] for name, tensor in beside.items()]
    out.write(as_json([*rows, *remarks, *([{"kind": kind}] if kind else [])]))


MOST_RANKS = 1 << 20


def integers_of(archive: zipfile.ZipFile, folder: str, tensor: Tensor) -> list[int]:
    """The elements of a small tensor of ranks, in its order."""
    check(archive, folder, "mesh", tensor)
    if tensor.storage.type not in ("I32", "I64") or tensor.storage.elements > MOST_RANKS:
        raise Refused(f"needs a device mesh of at most {MOST_RANKS} ranks as int32 or int64")
    letter = "i" if tensor.storage.type == "I32" else "q"
    stored = content(archive, f"{folder}data/{tensor.storage.key}")
    numbers = struct.unpack(f"<{tensor.storage.elements}{letter}", stored)
    return [numbers[tensor.offset + place] for place in places_of(tensor.shape, tensor.stride)]


def places_of(shape: tuple[int, ...], stride: tuple[int, ...]) -> list[int]:
    """Where the elements of these strides lie, in the shape's order."""
    if math.prod(shape) > MOST_RANKS:
        raise Refused(f"needs a device mesh of at most {MOST_RANKS} ranks, received {list(shape)}")
    starts = (
        range(0, extent * step, step) if step else [0] * extent for extent, step in zip(shape, stride, strict=True)
    )
    return [sum(place) for place in itertools.product(*starts)]


def integers(value: Any) -> tuple[int, ...]:
    """One or several."""
    numbers = (value,) if type(value) is int else value
    if not isinstance(numbers, (tuple, list)) or not all(type(number) is int and number >= 0 for number in numbers):
        raise Refused("has a DeviceMesh in an unknown form")
    return tuple(numbers)


def mesh_of(archive: zipfile.ZipFile, folder: str, mesh: Any) -> dict[str, Any]:
    """A device mesh: its shape, its ranks in that shape's order, the rank that saved it (or null) and the coordinate of
    that rank (or null). torch keeps a tensor of ranks, or since 2.9 a layout of a longer one."""
    if not isinstance(mesh, Mesh):
        raise Refused("has a DTensor without a DeviceMesh")
    state = mesh.__dict__
    coordinate = state.get("_coordinate_on_dim")
    coordinate = None if coordinate is None else integers(coordinate)
    rank = state.get("_rank")
    ranks = next((state[name] for name in ("mesh", "_mesh", "_rank_map") if isinstance(state.get(name), Tensor)), None)
    if ranks is None or (rank is not None and type(rank) is not int):
        raise Refused("has a DeviceMesh in an unknown form")
    found, shape = integers_of(archive, folder, ranks), ranks.shape
    if "_layout" in state and ranks is state.get("_rank_map"):
        shape, found = laid_out(state["_layout"], found, rank, coordinate)
    return {"shape": shape, "ranks": found, "rank": rank, "coordinate": coordinate}


def laid_out(
    layout: Any, ranks: list[int], rank: int | None, coordinate: tuple[int, ...] | None
) -> tuple[tuple[int, ...], list[int]]:
    """The mesh that a layout makes of ranks: where it is a slice of a larger mesh, the slice that has this rank."""
    if not isinstance(layout, MeshLayout):
        raise Refused("has a DeviceMesh in an unknown form")
    shape, stride = (integers(layout.__dict__.get(name)) for name in ("shape", "stride"))
    begin = 0
    if math.prod(shape) != len(ranks):
        if coordinate is None or rank not in ranks or len(coordinate) != len(stride):
            raise Refused("has a slice of a DeviceMesh without the place of the slice")
        begin = ranks.index(rank) - sum(place * step for place, step in zip(coordinate, stride, strict=True))
    places = [begin + place for place in places_of(shape, stride)]
    if not all(0 <= place < len(ranks) for place in places):
        raise Refused("has a DeviceMesh with a layout outside of the mesh's ranks")
    return shape, [ranks[place] for place in places]


def placements_of(name: str, spec: Fields) -> list[int | None]:
    """For each dimension of the mesh the tensor's dimension that it cuts; null: each of its ranks holds all."""
    placements, order = spec.get("placements", tuple), spec.__dict__.get("shard_order") or ()
    for placement in placements:
        if type(placement) not in (PLACEMENTS["Shard"], PLACEMENTS["Replicate"]):
            raise Refused(f'"{name}" needs placements Shard and Replicate, received {type(placement).__name__}')
    for entry in order:
        if not isinstance(entry, ShardOrder) or list(entry.mesh_dims) != sorted(entry.mesh_dims):
            raise Refused(f'"{name}" is sharded by the dimensions of the mesh in another order than the mesh has')
    dims = [placement.dim for placement in placements]
    if not all(dim is None or (type(dim) is int and dim >= 0) for dim in dims):
        raise Refused(f'"{name}" has a Shard placement without a dimension')
    return dims


def sharded_row(name: str, tensor: Sharded, row: list[Any], mesh: int) -> list[Any]:
    """A row of fsdp()."""
    meta = tensor.spec.__dict__.get("tensor_meta")
    if not all(type(extent) is int for extent in tensor.shape):
        raise Refused(f'"{name}" needs a shape of integers')
    require_extents(name, *tensor.shape)
    if isinstance(meta, TensorMeta) and meta.shape != tensor.shape:
        raise Refused(f'"{name}" has the shape {list(tensor.shape)}, but the DTensorSpec says {meta.shape}'[:300])
    if tensor.type != tensor.local.storage.type:
        raise Refused(f'"{name}" has the type {tensor.type}, but the local tensor has {tensor.local.storage.type}')
    return [name, tensor.type, tensor.shape, placements_of(name, tensor.spec), mesh, *row[2:]]


def fsdp(file: str, out: BinaryIO) -> None:
    """A rank's part of a state_dict as JSON: the meshes (mesh_of); of each DTensor the name, type, whole shape,
    placements (placements_of), number of its mesh, and shape, strides and byte in the file of what the rank has; the
    names of tensors that are no DTensors."""
    with opened(file) as archive:
        folder, top = loaded(archive, Ranks)
        tensors = checked_state_dict(archive, file, folder, top).network
        sharded = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, Sharded)}
        rows = rows_of(archive, folder, file, {name: tensor.local for name, tensor in sharded.items()})
        numbers: dict[int, int] = {}
        meshes: list[Any] = []
        for tensor in sharded.values():
            mesh = tensor.spec.__dict__.get("mesh")
            if id(mesh) not in numbers:
                numbers[id(mesh)] = len(meshes)
                meshes.append(mesh_of(archive, folder, mesh))
    parts = [
        sharded_row(name, tensor, rows[name], numbers[id(tensor.spec.__dict__.get("mesh"))])
        for name, tensor in sharded.items()
    ]
    plain = [name for name in tensors if name not in sharded]
    out.write(as_json({"meshes": meshes, "tensors": parts, "plain": plain}))


def shapes_in(group: Any) -> list[tuple[str, tuple[int, ...]]]:
    """The names and shapes of a dictionary of them."""
    shapes = []
    for name, shape in items_in(group):
        if type(name) is not str or type(shape) is not tuple or not all(type(extent) is int for extent in shape):
            raise Refused("needs param_shapes by name")
        require_extents(name, *shape)
        shapes.append((name, shape))
    return shapes


def only_tensors(of_names: Any) -> dict[str, Tensor]:
    """The tensors of a dictionary by their names."""
    return {name: tensor for name, tensor in items_in(of_names) if type(name) is str and isinstance(tensor, Tensor)}


def refuse_other_parts(top: dict[Any, Any]) -> None:
    """Refuses what is no data-parallel training alone."""
    dims = top.get("checkpoint_parallel_dimensions")
    degrees = dims if isinstance(dims, dict) else {}
    for name, count in {"mp_world_size": top.get("mp_world_size"), **degrees}.items():
        if type(count) is int and count > 1 and name in ("mp_world_size", "tp_degree", "pp_degree"):
            raise Refused(f"comes from model parallelism, {name} {count}; dimred reads only files of data parallelism")
    if any(top.get(name) for name in ("autoep_layers", "ds_autoep_layers")):
        raise Refused("comes from expert parallelism; dimred reads only files of data parallelism")
    if type(top.get("module")) not in (dict, OrderedDict):
        raise Refused("has no module, as in pipeline parallelism; dimred reads only files of data parallelism")


def deepspeed_model(file: str, out: BinaryIO) -> None:
    """A file of model states as JSON: the names and shapes of each group of the optimizer, those of frozen parameters,
    rows of their parts and of the module's other tensors (rows_of), the names of buffers, and [name, name that it
    shares a tensor with]."""
    with opened(file) as archive:
        folder, top = loaded(archive, Zero)
        if not isinstance(top, dict) or any(name not in top for name in ("module", "buffer_names", "param_shapes")):
            raise Refused("is no model state of DeepSpeed, which has module, buffer_names and param_shapes")
        refuse_other_parts(top)
        if type(top["param_shapes"]) is not list:
            raise Refused("does not come from ZeRO: param_shapes is not a list")
        groups = [shapes_in(group) for group in top["param_shapes"]]
        frozen = shapes_in(top.get("frozen_param_shapes"))
        shared = [pair for pair in items_in(top.get("shared_params")) if all(type(name) is str for name in pair)]
        fragments = only_tensors(top.get("frozen_param_fragments"))
        named = {name for group in (*groups, frozen, shared) for name, _ in group}
        others = {name: tensor for name, tensor in only_tensors(top["module"]).items() if name not in named}
        check_all(archive, file, folder, fragments)
        check_all(archive, file, folder, others)
        fragment_rows = list(rows_of(archive, folder, file, fragments).values())
        other_rows = list(rows_of(archive, folder, file, others).values())
    buffers = [name for name in top["buffer_names"] if type(name) is str]
    out.write(
        as_json(
            {
                "groups": groups,
                "frozen": frozen,
                "fragments": fragment_rows,
                "others": other_rows,
                "buffers": buffers,
                "shared": shared,
            }
        )
    )


def partitions_in(count: Any) -> int:
    """How many ranks the groups are cut among."""
    counts = count if type(count) is list else [count]
    if not counts or not all(type(number) is int for number in counts):
        raise Refused("needs a partition_count")
    if len(set(counts)) > 1:
        raise Refused(
            "has groups on different numbers of ranks, as with experts; dimred reads only files of data parallelism"
        )
    return counts[0]


def deepspeed_optimizer(file: str, out: BinaryIO) -> None:
    """A file of optimizer states as JSON: the stage of ZeRO, the number of partitions, rows (rows_of) of this rank's
    flat float32 groups, and the elements of padding behind each parameter of each group (or null)."""
    with opened(file) as archive:
        folder, top = loaded(archive, Zero)
        state = top.get("optimizer_state_dict") if isinstance(top, dict) else None
        if not isinstance(state, dict) or type(state.get("zero_stage")) is not int:
            raise Refused("is no optimizer state of ZeRO: zero_stage is missing")
        stage, partitions = state["zero_stage"], partitions_in(state.get("partition_count"))
        if stage not in (1, 2, 3):
            raise Refused(f"needs ZeRO stage 1, 2 or 3, received {stage}")
        key = "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"
        groups = state.get(key)
        if type(groups) is not list or not all(isinstance(group, Tensor) for group in groups):
            raise Refused(f"needs {key}, a list of tensors")
        tensors = {f"{key}.{i}": group for i, group in enumerate(groups)}
        for name, group in tensors.items():
            if len(group.shape) != 1 or group.strides():
                raise Refused(f'"{name}" needs one dimension without gaps')
        check_all(archive, file, folder, tensors)
        rows = list(rows_of(archive, folder, file, tensors).values())
    paddings = state.get("param_alignment_paddings") if stage < 3 else None
    if paddings is not None:
        paddings = [integers(group) for group in paddings]
    out.write(as_json({"stage": stage, "partitions": partitions, "groups": rows, "paddings": paddings}))


class Part(io.RawIOBase):
    """A part of a file, as a file."""

    def __init__(self, stream: BinaryIO, begin: int, length: int) -> None:
        self._stream, self._begin, self._length, self._at = stream, begin, length, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + (0, self._at, self._length)[whence])
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._length - self._at)
        self._stream.seek(self._begin + self._at)
        found = self._stream.read(left if size < 0 else min(size, left))
        self._at += len(found)
        return found


class Chunk(NamedTuple):
    """A box of a tensor in a record of a file."""

    first: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str
    offset: int
    length: int


def tensor_of(archive: zipfile.ZipFile, part: Part, chunk: Chunk, dtype: str) -> tuple[Tensor, int]:
    """The one tensor of an archive, and the byte of the archive at which its record begins."""
    with archive:
        inner = folder_of(archive.namelist())
        tensor = value_of(Weights(io.BytesIO(content(archive, f"{inner}data.pkl")), encoding="utf-8"))
        if not isinstance(tensor, Tensor) or tensor.shape != chunk.sizes or tensor.storage.type != dtype:
            raise Refused("holds another tensor than the metadata says")
        check(archive, inner, chunk.file, tensor)
        return tensor, begin_of(archive, f"{inner}data/{tensor.storage.key}", part)


def stored_chunk(chunk: Chunk, folder: str, dtype: str) -> tuple[tuple[int, ...], int]:
    """Its strides and the byte in its file at which it begins: a record is what torch.save writes of one tensor."""
    path = os.path.join(folder, chunk.file)
    if os.path.basename(chunk.file) != chunk.file or not os.path.isfile(path):
        raise Refused(f"names the file {chunk.file}, but the folder has no such file")
    if chunk.offset < 0 or chunk.length < 0 or chunk.offset + chunk.length > os.path.getsize(path):
        raise Refused(
            f"{chunk.file} ends before byte {chunk.offset + chunk.length}, the end of a tensor{pointer_remark(path)}"
        )
    with open(path, "rb") as stream:
        part = Part(stream, chunk.offset, chunk.length)
        archive = checked(lambda: archive_of(part), f"at byte {chunk.offset} of {chunk.file}")
        try:
            tensor, begin = tensor_of(archive, part, chunk, dtype)
        except Refused as error:
            raise Refused(f"{chunk.file} at byte {chunk.offset}: {error}") from error
    return tensor.strides(), chunk.offset + begin + tensor.offset * BYTES[dtype]


def sizes_by_offset(about: Fields) -> dict[tuple[int, ...], tuple[int, ...]]:
    """A tensor's chunks. The empty one of a rank that has no share may begin where another's does: it yields."""
    chunks = [(chunk.get("offsets", tuple), chunk.get("sizes", tuple)) for chunk in about.get("chunks", list)]
    return dict(sorted(chunks, key=lambda chunk: math.prod(chunk[1])))


def chunks_of(metadata: Fields) -> dict[str, list[Chunk]]:
    """The chunks of each tensor that hold elements, in the order of their first ones."""
    chunks: dict[str, list[Chunk]] = {}
    sizes_at = {
        name: sizes_by_offset(about)
        for name, about in metadata.get("state_dict_metadata", dict).items()
        if isinstance(about, TensorMetadata)
    }
    for index, info in metadata.get("storage_data", dict).items():
        name, first = index.get("fqn", str), index.__dict__.get("offset")
        if first is None or name not in sizes_at:
            continue  # bytes: a rate, a counter
        if info.__dict__.get("transform_descriptors"):
            raise Refused(f'"{name}" is stored transformed: {info.transform_descriptors}')
        sizes = sizes_at[name].get(first)
        if sizes is None:
            raise Refused(f'"{name}" has a record at {list(first)}, but the metadata has none there')
        if math.prod(sizes) == 0:
            continue  # of a rank that has no share
        place = (info.get("relative_path", str), info.get("offset", int), info.get("length", int))
        chunks.setdefault(name, []).append(Chunk(first, sizes, *place))
    return {name: sorted(of_name) for name, of_name in chunks.items()}


def require_cover(name: str, shape: tuple[int, ...], chunks: list[Chunk]) -> None:
    """Refuses boxes of which not each element of the tensor lies in one alone."""
    for chunk in chunks:
        fits = len(chunk.first) == len(chunk.sizes) == len(shape) and all(
            low >= 0 and 0 < size <= extent - low
            for low, size, extent in zip(chunk.first, chunk.sizes, shape, strict=True)
        )
        if not fits:
            raise Refused(
                f'"{name}" of {list(shape)} has a part of {list(chunk.sizes)} at {list(chunk.first)}, '
                "outside of the tensor"
            )
    if twice := first_overlap(len(shape), chunks):
        raise Refused(f'"{name}" has parts at {list(twice[0].first)} and {list(twice[1].first)} that overlap')
    held = sum(math.prod(chunk.sizes) for chunk in chunks)
    if held != math.prod(shape):
        raise Refused(f'"{name}" needs {math.prod(shape)} elements, but the parts hold {held}')


def first_overlap(dimensions: int, chunks: list[Chunk]) -> tuple[Chunk, Chunk] | None:
    """Two chunks that share an element. They pass in the order of the dimension that is cut most often, so that each
    meets those alone that reach into it."""
    axis = max(range(dimensions), key=lambda each: len({chunk.first[each] for chunk in chunks}), default=0)

    def reaches(chunk: Chunk, other: Chunk, each: int) -> bool:
        return chunk.first[each] + chunk.sizes[each] > other.first[each]

    open_chunks: list[Chunk] = []
    for chunk in sorted(chunks, key=lambda chunk: chunk.first[axis : axis + 1]):
        open_chunks = [other for other in open_chunks if dimensions == 0 or reaches(other, chunk, axis)]
        for other in open_chunks:
            if all(reaches(chunk, other, each) and reaches(other, chunk, each) for each in range(dimensions)):
                return other, chunk
        open_chunks.append(chunk)
    return None


def entry_of(name: str, description: Fields, chunks: list[Chunk], folder: str) -> list[Any]:
    """A row of the table."""
    shape, properties = description.get("size", tuple), description.get("properties", Fields)
    element = properties.state[0] if hasattr(properties, "state") else properties.__dict__.get("dtype")
    if not isinstance(element, ElementType):
        raise Refused(f'"{name}" has an unknown element type')
    if element.name not in BYTES:
        raise Refused(f'"{name}" has the type {element.name}; save the tensors with safetensors: {SAVE}')
    if not all(type(number) is int for each in (shape, *(c.first + c.sizes for c in chunks)) for number in each):
        raise Refused(f'"{name}" needs places and sizes that are integers')
    require_extents(name, *shape)
    require_cover(name, shape, chunks)
    boxes = []
    for chunk in chunks:
        strides, begin = stored_chunk(chunk, folder, element.name)
        boxes.append((chunk.first, chunk.sizes, strides, begin, chunk.file))
    return [name, element.name, shape, boxes]


def distributed(file: str, out: BinaryIO) -> None:
    """The tensors that a .metadata names, as JSON: name, type, shape, and of each box where it begins, its sizes,
    strides ([]: in the order of its sizes), byte and file."""
    with open(file, "rb") as stream:
        metadata = value_of(Distributed(stream))
    if not isinstance(metadata, Fields):
        raise Refused("needs the metadata of torch.distributed.checkpoint, received something else")
    described, folder = metadata.get("state_dict_metadata", dict), os.path.dirname(file)
    chunks = chunks_of(metadata)
    names = [name for name, about in described.items() if isinstance(about, TensorMetadata)]
    for name, about in (metadata.__dict__.get("mcore_data") or {}).items():  # of Megatron
        if about and name in names and "optimizer" not in name.split("."):
            raise Refused(
                f'"{name}" is stored in another shape than the tensor has; '
                "export the checkpoint with Megatron Bridge first"
            )
    out.write(as_json([entry_of(name, described[name], chunks.get(name, []), folder) for name in names]))


def pairs(file: str, out: BinaryIO) -> None:
    """(images as bytes, booleans): the number of pairs, the images' sizes, the booleans as bytes, the images."""
    with open(file, "rb") as stream:
        top = value_of(Values(stream, encoding="bytes"))
    if not (
        isinstance(top, (tuple, list))
        and len(top) == 2
        and all(isinstance(part, (tuple, list)) for part in top)
        and all(isinstance(image, bytes) for image in top[0])
        and all(isinstance(same, int) and same in (0, 1) for same in top[1])
    ):
        raise Refused("needs a pickle of two lists, images as bytes and booleans")
    images, same = top
    if len(images) != 2 * len(same):
        raise Refused(f"needs two images for each pair, received {len(images)} and {len(same)} pairs")
    if b"" in images:
        raise Refused(f"image {images.index(b'')} is empty")
    out.write(struct.pack(f"<{1 + len(images)}q", len(same), *map(len, images)) + bytes(same))
    out.writelines(images)


def archive(file: str, _out: BinaryIO) -> None:
    """Nothing, where every record's CRC holds."""
    with opened(file) as records:
        bad = checked(records.testzip, "of the archive")
    if bad is not None:
        raise Refused(f"record {bad} is damaged: the CRC-32 does not match")


def limit_memory(file: str, per_byte: int) -> None:
    """A size that a file names is not allocated before its bytes are seen. per_byte: of the file, what it may hold."""
    with open("/proc/self/status", encoding="ascii") as status:
        used = re.search(r"VmData:\s*(\d+) kB", status.read())
    most = int(used[1] if used else 0) * 1024 + per_byte * os.path.getsize(file) + (256 << 20)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


READERS: dict[str, Callable[[str, BinaryIO], None]] = {
    "table": table,
    "table of raw": lambda file, out: table(file, out, "raw"),
    "table of averaged": lambda file, out: table(file, out, "averaged"),
    "distributed": distributed,
    "pairs": pairs,
    "archive": archive,
    "fsdp": fsdp,
    "deepspeed_model": deepspeed_model,
    "deepspeed_optimizer": deepspeed_optimizer,
}


def main(kind: str, file: str) -> int:
    """The exit code."""
    try:
        limit_memory(file, 64 if kind == "distributed" else 2)  # whose small file has many objects
        READERS[kind](file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except Exception as error:
        text = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        print("".join(letter if letter.isprintable() else "?" for letter in text), file=sys.stderr)
        return UNFIT if isinstance(error, Unfit) else REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
