"""Lists and pickles of pairs as dimred verify reads them, and what it refuses."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import numpy as np
import xxhash
from verified_pairs import listed, pictures, python_2, run  # noqa: F401  fixtures


def test_every_form_of_pickle_holds_the_same(execute, pictures, listed: Path, tmp_path: Path) -> None:
    files, _, pairs, same = pictures
    images, kinds = [files[i].read_bytes() for i in pairs.flatten()], [bool(kind) for kind in same]
    images[5] = b"large" * 30_000  # more than a frame
    forms = [
        python_2(images, kinds),
        *(pickle.dumps((images, kinds), protocol) for protocol in (3, 4, 5)),
        pickle.dumps([tuple(images), list(map(int, kinds))]),
    ]
    for number, form in enumerate(forms):
        (tmp_path / f"{number}.bin").write_bytes(form)
    for line in execute("verify_tool", "--pairs", *(tmp_path / f"{i}.bin" for i in range(len(forms)))).splitlines():
        found = json.loads(line)
        assert found["images"] == [xxhash.xxh3_128_hexdigest(image) for image in images]
        assert found["pairs"] == [[2 * i, 2 * i + 1, kind] for i, kind in enumerate(kinds)]
    found = json.loads(execute("verify_tool", "--pairs", listed))
    digests = [xxhash.xxh3_128_hexdigest(file.read_bytes()) for file in files]
    assert [[found["images"][a], found["images"][b], kind] for a, b, kind in found["pairs"]] == [
        [digests[a], digests[b], kind] for (a, b), kind in zip(pairs, kinds, strict=True)
    ]


class Command:
    """Unpickled, it would leave a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def lines_of(pictures) -> list[str]:
    """A good list."""
    files, _, pairs, same = pictures
    return [f"{files[a]} {files[b]} {int(kind)}" for (a, b), kind in zip(pairs, same, strict=True)]


def test_lists_and_pickles_that_do_not_fit(execute, pictures, tmp_path: Path) -> None:
    files, good, mark = pictures[0], lines_of(pictures), tmp_path / "ran"
    images = [files[0].read_bytes()] * 3
    code = pickle.dumps(([b""], [Command(mark)]))
    cases = [
        (
            "a.txt",
            f"{good[0]}\n{files[0]} {files[1]} 2\n".encode(),
            'a.txt:2: needs a line "path_a path_b 0" or "path_a path_b 1", received ',
        ),
        ("b.txt", f"{files[0]} 1\n".encode(), ':1: needs a line "path_a'),
        ("c.txt", f"{good[0]} 1\n".encode(), ':1: needs a line "path_a'),
        ("d.txt", f"{good[0]}\n\n{files[0]} nothing.png 1\n".encode(), ":3: no such file: "),
        ("code.bin", code, "asks for posix.system, which plain values do not need; refused, nothing of it was run"),
        ("odd.bin", pickle.dumps((images, [True])), "needs two images for each pair, received 3 and 1 pairs"),
        ("kinds.bin", pickle.dumps((images, [2.0])), "needs a pickle of two lists"),
        ("two.bin", pickle.dumps((images[:2], [2])), "needs a pickle of two lists"),
        ("numpy.bin", pickle.dumps((images[:2], [np.True_])), "asks for numpy"),
        ("latin.bin", pickle.dumps((images[:2], [True]), 2), "asks for _codecs.encode"),
        ("empty.bin", pickle.dumps(([b"", b"a"], [True])), "image 0 is empty"),
        ("cut.bin", pickle.dumps((images, [True]))[:-40], "is cut off"),
    ]
    for name, content, _ in cases:
        (tmp_path / name).write_bytes(content)
    answers = execute("verify_tool", "--pairs", *(tmp_path / name for name, *_ in cases)).splitlines()
    for answer, (name, _, text) in zip(answers, cases, strict=True):
        refused = json.loads(answer)["refused"]
        assert text in refused and name in refused, answer
    assert not mark.exists()


def test_refuses_in_one_line(fails, run: Path, pictures, tmp_path: Path) -> None:
    export, good, path = run / "export" / "1", lines_of(pictures), tmp_path / "pairs.txt"

    def refused(code: int, lines: list[str], *options: object) -> str:
        path.write_text("\n".join(lines))
        return fails(code, "verify", export, "--pairs", path, "--threads=1", *options)

    out = ["--output", tmp_path / "out"]
    by_kind = sorted(good, key=lambda line: -int(line[-1]))
    assert "no pair with 0 from pair 1 to pair 4; shuffle the list" in refused(2, by_kind[:40], *out)
    assert "needs at least 10 pairs, received 9" in refused(2, good[:9], *out)
    path.write_text("\n".join(by_kind[:40]))  # before the network's data are read
    assert "shuffle the list" in fails(2, "verify", run, "--pairs", path, "--data", tmp_path / "nowhere", *out)
    (tmp_path / "broken.png").write_bytes(pictures[0][0].read_bytes()[:60])
    assert "broken.png: " in refused(1, [*good, f"broken.png {pictures[0][0]} 1"], *out)
    assert not (tmp_path / "out").exists()
    assert "needs --output FOLDER for an export" in refused(2, good)
    assert "leave out --pad" in refused(2, good, "--pad=2", *out)
    assert "needs a run or an export, then pairs" in fails(2, "verify", export)
