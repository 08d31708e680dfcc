"""A run of each kind, what the commands make of it undisturbed, and a folder outside that none of them may touch."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli import cli

from .measured import Ended, apart, run

SMALL = ["--batch_size=64", "--threads=1", "--prefetch=1"]
Stamps = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Use:
    """A command that reads a file, and its result: what must not change silently."""

    name: str
    words: Sequence[str]
    result: Callable[[Site, Ended], Any] | None = None  # None: it must not succeed
    file_size: int | None = None


def ignored(_: Site, __: Ended) -> str:
    """The check of a command that may show the disturbed file as it is."""
    return ""


def printed(_: Site, ended: Ended) -> str:
    return ended.output


def write_data(folder: Path) -> None:
    from faults.workplace import write_data as write

    write(folder)


def write_png(path: Path, pixels: bytes, width: int, height: int) -> None:
    """A grey image."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + name + data + zlib.crc32(name + data).to_bytes(4)

    rows = b"".join(b"\0" + pixels[row * width : (row + 1) * width] for row in range(height))
    head = width.to_bytes(4) + height.to_bytes(4) + b"\x08\0\0\0\0"
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


class Site:
    """Everything below `root`: `work` is made again for each case from `pristine`; `other` holds runs of another seed;
    `outside` is what links lead to. `slowest`: seconds that a refusal may take."""

    def __init__(self, build: Path, root: Path, slowest: float) -> None:
        self.build, self.root, self.slowest = build, root, slowest
        self.work, self.pristine, self.other, self.outside = (
            root / name for name in ("work", "pristine", "other", "outside")
        )
        self.scratch = root / "scratch"
        self.environment = os.environ | {
            "HOME": str(root / "home"),
            "XDG_CACHE_HOME": str(root / "home/.cache"),
            "OMP_NUM_THREADS": "1",
        }
        self._references: dict[str, tuple[Ended, Any]] = {}
        apart(write_data, root / "data")
        (root / "home").mkdir()
        pixels = (root / "data/t10k-images-idx3-ubyte").read_bytes()[16 : 16 + 28 * 28]
        write_png(root / "image.png", pixels, 28, 28)
        for folder, seed in ((self.other, 2), (self.pristine, 1)):
            self._make(seed)
            self.work.rename(folder)

    def dimred(self, *words: str, file_size: int | None = None) -> Ended:
        return run([str(self.build / "bin/dimred"), *words], self.environment, file_size)

    def stage1(self, epochs: int, *more: str) -> list[str]:
        return cli(
            "stage1",
            *SMALL,
            "--total_epochs=3 --snapshots_per_epoch=2 --learning_rate=0.03",
            *more,
            data=f"{self.root}/data",
            epochs=epochs,
            output=f"{self.work}/stage1",
        )

    def stage2(self, epochs: int, output: str, *more: str) -> list[str]:
        return cli(
            "stage2 --preset=robust",
            *SMALL,
            *more,
            checkpoint=f"{self.work}/stage1",
            epochs=epochs,
            output=f"{self.work}/{output}",
        )

    def _make(self, seed: int) -> None:
        given = f"--seed={seed}"
        for words in (
            self.stage1(2, given),
            self.stage2(1, "stage2", "--n_component=2", given),
            ("export", f"{self.work}/stage1", f"--output={self.work}/export", "--score=false", "--threads=1"),
        ):
            ended = self.dimred(*words)
            if ended.code != 0:
                raise RuntimeError(f"an undisturbed {words[0]} ended with {ended.code}: {ended.errors}")

    def fresh(self) -> None:
        """The work folder and the one outside as they were."""
        for folder in (self.work, self.outside, self.scratch):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.pristine, self.work, symlinks=True)
        (self.outside / "folder").mkdir(parents=True)
        (self.outside / "precious").write_text("precious\n")
        (self.outside / "folder/precious").write_text("precious\n")
        self.scratch.mkdir()

    def stamps(self) -> Stamps:
        """The stamps of all that no command may touch: a file that is written gets another change time."""
        found: Stamps = {}
        for folder in (self.outside, self.pristine, self.other, self.root / "data"):
            for path in [folder, *folder.rglob("*")]:
                state = path.lstat()
                found[str(path.relative_to(self.root))] = (
                    state.st_ino,
                    state.st_mode,
                    state.st_size,
                    state.st_mtime_ns,
                    state.st_ctime_ns,
                )
        found |= {str(path.relative_to(self.root)): () for path in self.root.iterdir()}
        return found

    def reference(self, use: Use) -> tuple[Ended, Any]:
        """Its undisturbed end and result."""
        if use.name not in self._references:
            self.fresh()
            ended = self.dimred(*use.words)
            if ended.code != 0:
                raise RuntimeError(f"{use.name} undisturbed: {ended.code}: {ended.errors}")
            assert use.result is not None
            self._references[use.name] = (ended, use.result(self, ended))
        return self._references[use.name]
