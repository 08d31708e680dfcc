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
from typing import Any, BinaryIO, ClassVar, NamedTuple, TypeVar

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
}
BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "BOOL": 1, "U8": 1, "I8": 1}
MOST_DIMENSIONS = 64
MOST_LEVELS = 64  # of dictionaries in one another
FLOATS = ("F32", "F64", "F16", "BF16")
WRAPPERS = ("state_dict", "model_state_dict", "model", "module")  # under which training programs save them
REFUSED = 3  # exit code

Result = TypeVar("Result")


class Refused(Exception):
    """Why, in one line."""


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
    return ", which is a Git LFS pointer; `git lfs pull` in its repository fetches the file" if pointer else ""


def tensor_from(*arguments: Any) -> Tensor:
    """_rebuild_tensor_v2; its metadata says that a tensor is the negative or the conjugate of its storage."""
    storage, offset, shape, stride, _, _, *metadata = arguments
    numbers = (offset, *shape, *stride)
    fits = isinstance(storage, Storage) and all(type(number) is int for number in numbers) and not any(metadata)
    if not fits or len(shape) != len(stride) or len(shape) > MOST_DIMENSIONS:
        raise Refused("has a tensor with arguments that do not fit")
    return Tensor(storage, offset, tuple(shape), tuple(stride))


def parameter_from(tensor: Any, _requires_grad: Any, _hooks: Any) -> Any:
    """_rebuild_parameter."""
    return tensor


class Values(pickle.Unpickler):
    """Plain values alone."""

    allowed: ClassVar[dict[tuple[str, str], Any]] = {}
    refusal = "which plain values do not need; refused, nothing of it was run"

    def find_class(self, module: str, name: str) -> Any:
        """Nothing else can be named."""
        if (module, name) not in self.allowed:
            raise Refused(f"asks for {module}.{name}, {self.refusal}")
        return self.allowed[module, name]


class Weights(Values):
    """Values and tensors."""

    allowed: ClassVar = {
        ("collections", "OrderedDict"): OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2"): tensor_from,
        ("torch._utils", "_rebuild_parameter"): parameter_from,
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
            raise Refused("needs a storage of torch's, received another persistent id")
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


def nothing(*_arguments: Any) -> None:
    """What does not matter for values."""


METADATA = "torch.distributed.checkpoint.metadata"
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
}


class Distributed(Values):
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
        ("torch.serialization", "_get_layout"): nothing,
        ("pathlib", "PosixPath"): nothing,
        ("collections", "OrderedDict"): OrderedDict,
        ("torch", "Size"): tuple,
        **{("torch", name): ElementType(type) for name, type in DTYPES.items()},
    }
    refusal = "which the places of tensors do not need; refused, nothing of it was run"


def value_of(unpickler: Values) -> Any:
    """The value of a pickle."""
    try:
        return unpickler.load()
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"is damaged or is cut off: {type(error).__name__}: {error}") from error


def opened(file: str) -> zipfile.ZipFile:
    """An archive."""
    try:
        return zipfile.ZipFile(file)
    except Exception as error:
        raise Refused(f"is damaged, or cut off at byte {os.path.getsize(file)}: {error}") from error


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
        raise Refused(f"record {record} needs to be stored as it is, neither compressed nor encrypted")
    return info


def content(archive: zipfile.ZipFile, record: str) -> bytes:
    """The bytes of a record."""
    info = plain_record(archive, record)
    return checked(lambda: archive.read(info), record)


def folder_of(names: list[str]) -> str:
    """ "name/" of the one "name/data.pkl"."""
    if any(name.endswith("/constants.pkl") for name in names):
        raise Refused("is a TorchScript program; save its weights alone: torch.save(model.state_dict(), FILE)")
    for name in names:
        if name.endswith("/data.pkl"):
            return name.removesuffix("data.pkl")
    raise Refused("is a zip archive, but has no data.pkl")


class Entry(NamedTuple):
    """A tensor in dictionaries and lists, with the keys that lead to it; of an optimizer or a module's extra state."""

    keys: tuple[Any, ...]
    tensor: Tensor
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
        if isinstance(value, Tensor):
            entries.append(Entry(keys, value, is_state))
            return
        is_state = is_state or is_optimizer(value) or str(*keys[-1:]).endswith("_extra_state")
        for key, item in items_in(value):
            if isinstance(item, (dict, list, tuple)):
                visit(item, (*keys, key), is_state)

    visit(top, (), False)
    return entries


def network_in(top: Any, entries: list[Entry]) -> Any:
    """The key of the dictionary that is the network; None: all is. A loss or an accuracy beside it may be a tensor."""
    within: dict[Any, list[Tensor]] = {}
    for entry in entries:
        if len(entry.keys) > 1 and not entry.is_state and isinstance(dict.get(top, entry.keys[0]), dict):
            within.setdefault(entry.keys[0], []).append(entry.tensor)
    for key in WRAPPERS:
        if key in within:
            return key
    bare = (entry.tensor for entry in entries if len(entry.keys) == 1)
    if not within or any(tensor.elements() > 1 and tensor.storage.type in FLOATS for tensor in bare):
        return None
    networks = [key for key, tensors in within.items() if any(tensor.elements() > 1 for tensor in tensors)]
    networks = networks or list(within)
    if len(networks) > 1:
        raise Refused(
            f"has more than one network, {', '.join(map(str, networks))[:100]}, among the keys {keys_of(top)}; save "
            f"the one that is meant alone: torch.save(torch.load(FILE)[{networks[0]!r}], OTHER)"
        )
    return networks[0]


def keys_of(top: Any) -> str:
    """The keys of a dictionary, for a person."""
    keys = dict.keys(top) if isinstance(top, dict) else ()
    return ", ".join(key for key in keys if isinstance(key, str))[:100] or "something else"


def name_of(keys: tuple[Any, ...]) -> str:
    """With dots, as a module's state_dict() has them."""
    if other := [key for key in keys if type(key) not in (str, int)]:
        raise Refused(f"needs names as text, received the key {other[0]!r}"[:200])
    return ".".join(map(str, keys))


def is_extra(top: Any, entry: Entry) -> bool:
    """Whether it is an element of a list that lies beside the network, as generators' states do."""
    return len(entry.keys) > 1 and not isinstance(dict.get(top, entry.keys[0]), dict)


def state_dict_of(top: Any, most: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The network's tensors by their names, and those beside it."""
    entries = entries_in(top, most) if isinstance(top, dict) else []
    key = network_in(top, entries)
    network: dict[str, Tensor] = {}
    beside: dict[str, Tensor] = {}
    for entry in entries:
        if entry.is_state or (entry.keys[0] != key if key is not None else is_extra(top, entry)):
            beside[".".join(map(str, entry.keys))] = entry.tensor
            continue
        name = name_of(entry.keys if key is None else entry.keys[1:])
        if name in network:
            raise Refused(f"has two tensors called {name}")
        network[name] = entry.tensor
    if not network:
        raise Refused(
            f"needs tensors by name, or a dictionary that has them as {', '.join(WRAPPERS)}; received {keys_of(top)}"
        )
    return network, beside


def require_extents(name: str, *numbers: int) -> None:
    """Refuses a shape, or strides, that 64 bits do not hold."""
    if min(numbers, default=0) < 0 or math.prod(number for number in numbers if number > 0) >= 1 << 63:
        raise Refused(
            f'"{name}" needs extents >= 0 whose product, zeros left out, is below 2^63, received {list(numbers)}'
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
    if not tensor.lies_within():
        raise Refused(f'"{name}" needs a shape and strides within its storage of {storage.elements}')


def as_json(value: Any) -> bytes:
    """In UTF-8, which half of a surrogate pair has no bytes in."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        text = error.object[max(0, error.start - 40) : error.start + 1]
        raise Refused(f"needs names in UTF-8, received {text.split(chr(34))[-1]!r}") from error


def state_dict(archive: zipfile.ZipFile, file: str) -> tuple[str, dict[str, Tensor], dict[str, Tensor]]:
    """The archive's folder, the network's tensors in its pickle, and those beside the network."""
    folder = folder_of(archive.namelist())
    order = f"{folder}byteorder"
    received = content(archive, order) if order in archive.namelist() else b"little"
    if received != b"little":
        raise Refused(f"needs byteorder little, received {received!r}")
    record = f"{folder}data.pkl"
    pickled = io.BytesIO(content(archive, record))
    try:
        tensors, beside = state_dict_of(value_of(Weights(pickled, encoding="utf-8")), os.path.getsize(file))
    except Refused as error:
        raise Refused(f"{record}: {error}") from error
    for name, tensor in tensors.items():
        check(archive, folder, name, tensor)
    most = 8 * os.path.getsize(file)
    if sum(tensor.elements() for tensor in tensors.values()) > most:
        raise Refused(f"needs at most {most} elements for its size, its tensors repeat one another")
    return folder, tensors, beside


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


def table(file: str, out: BinaryIO) -> None:
    """Its tensors as JSON: name, type, shape, strides ([]: in the shape's order), byte in the file, which is null for
    what lies beside the network and is not read."""
    with opened(file) as archive, open(file, "rb") as stream:
        folder, tensors, beside = state_dict(archive, file)
        keys = {tensor.storage.key for tensor in tensors.values()}
        begins = {key: begin_of(archive, f"{folder}data/{key}", stream) for key in keys}
    rows: list[list[Any]] = [
        [
            name,
            tensor.storage.type,
            tensor.shape,
            tensor.strides(),
            begins[tensor.storage.key] + tensor.offset * BYTES[tensor.storage.type],
        ]
        for name, tensor in tensors.items()
    ]
    rows += [[name, tensor.storage.type, [], [], None] for name, tensor in beside.items()]
    out.write(as_json(rows))


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


def stored_chunk(chunk: Chunk, folder: str, dtype: str) -> tuple[tuple[int, ...], int]:
    """Its strides and the byte in its file at which it begins: a record is what torch.save writes of one tensor."""
    path = os.path.join(folder, chunk.file)
    if os.path.basename(chunk.file) != chunk.file or not os.path.isfile(path):
        raise Refused(f"names the file {chunk.file}, which is not beside it")
    if chunk.offset < 0 or chunk.length < 0 or chunk.offset + chunk.length > os.path.getsize(path):
        raise Refused(
            f"{chunk.file} ends before byte {chunk.offset + chunk.length}, where a tensor should{pointer_remark(path)}"
        )
    with open(path, "rb") as stream:
        part = Part(stream, chunk.offset, chunk.length)
        archive = checked(lambda: zipfile.ZipFile(part), f"at byte {chunk.offset} of {chunk.file}")
        with archive:
            inner = folder_of(archive.namelist())
            tensor = value_of(Weights(io.BytesIO(content(archive, f"{inner}data.pkl")), encoding="utf-8"))
            if not isinstance(tensor, Tensor) or tensor.shape != chunk.sizes or tensor.storage.type != dtype:
                raise Refused(f"record at byte {chunk.offset} of {chunk.file} is another tensor than the metadata says")
            check(archive, inner, chunk.file, tensor)
            begin = begin_of(archive, f"{inner}data/{tensor.storage.key}", part)
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
            raise Refused(f'"{name}" has a record at {list(first)}, where the metadata has none')
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
                f'"{name}" of {list(shape)} has a part of {list(chunk.sizes)} at {list(chunk.first)}, outside of it'
            )
    if twice := first_overlap(len(shape), chunks):
        raise Refused(f'"{name}" has parts at {list(twice[0].first)} and {list(twice[1].first)} that overlap')
    held = sum(math.prod(chunk.sizes) for chunk in chunks)
    if held != math.prod(shape):
        raise Refused(f'"{name}" needs {math.prod(shape)} elements, its parts hold {held}')


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
        raise Refused(f'"{name}" has an element type that is unknown here')
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
            raise Refused(f'"{name}" is stored in another shape than its own; export it with Megatron Bridge first')
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
        raise Refused(f"record {bad} is damaged: its CRC-32 differs")


def limit_memory(file: str) -> None:
    """A size that a file names is not allocated before its bytes are seen."""
    with open("/proc/self/status", encoding="ascii") as status:
        used = re.search(r"VmData:\s*(\d+) kB", status.read())
    most = int(used[1] if used else 0) * 1024 + 2 * os.path.getsize(file) + (256 << 20)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main(kind: str, file: str) -> int:
    """The exit code."""
    try:
        limit_memory(file)
        {"table": table, "distributed": distributed, "pairs": pairs, "archive": archive}[kind](file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except Exception as error:
        text = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        print("".join(letter if letter.isprintable() else "?" for letter in text), file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
