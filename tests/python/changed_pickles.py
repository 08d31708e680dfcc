"""changed_pickles.py READER FOLDER: hands 500 mutations of each file's pickle to checkpoints/read_pickle.py and prints
how many were read and refused. Anything else that it throws, and a tensor or an image without all of its bytes, ends
this with a traceback."""

from __future__ import annotations

import importlib.util
import io
import json
import math
import random
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any


def changed(data: bytes, draws: random.Random) -> bytes:
    """One to four changes: a bit, a byte, a cut, a repeated part, a large number."""
    for _ in range(draws.randint(1, 4)):
        at = draws.randrange(len(data) or 1)
        part = {
            0: bytes([data[at] ^ 1 << draws.randrange(8)]) if data else b"",
            1: bytes([draws.randrange(256)]),
            2: b"",
            3: data[at : at + draws.randrange(64)] * 2,
            4: b"\xff\xff\xff\x7f",
        }[draws.randrange(5)]
        data = data[:at] + part + data[at + 1 :]
    return data


def main(reader: str, folder: Path) -> None:
    """Both counts."""
    spec = importlib.util.spec_from_file_location("read_pickle", reader)
    assert spec and spec.loader
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    read, refused, content = 0, 0, module.content
    module.limit_memory(__file__, 2)
    for seed in ("2.pt", "4.pt", "pairs.bin"):
        sound = (folder / seed).read_bytes()
        if seed.endswith("pt"):
            with zipfile.ZipFile(folder / seed) as archive:
                sound = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
        draws = random.Random(seed)
        for _ in range(500):
            data, out = changed(sound, draws), io.BytesIO()
            module.content = lambda archive, name, data=data: (
                data if name.endswith("data.pkl") else content(archive, name)
            )
            try:
                if seed.endswith("pt"):
                    module.table(folder / seed, out)
                else:
                    (folder / "changed").write_bytes(data)
                    module.pairs(folder / "changed", out)
            except module.Refused:
                refused += 1
                continue
            read += 1
            if seed.endswith("pt"):
                for _, dtype, shape, strides, begin in json.loads(out.getvalue()):
                    if begin is None:
                        continue  # beside the network
                    steps = strides or [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
                    last = sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
                    end = begin + (last + 1) * module.BYTES[dtype] if math.prod(shape) else begin
                    assert 0 < begin <= end <= (folder / seed).stat().st_size
            else:
                count = struct.unpack("<q", out.getvalue()[:8])[0]
                sizes = struct.unpack(f"<{2 * count}q", out.getvalue()[8 : 8 + 16 * count])
                assert len(out.getvalue()) == 8 + 17 * count + sum(sizes)
    print(read, refused)


main(sys.argv[1], Path(sys.argv[2]))
