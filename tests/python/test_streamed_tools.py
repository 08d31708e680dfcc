"""TFRecord files at a URL that the tools of `dimred data` read through less disk than they have bytes."""

from __future__ import annotations

import fcntl
import gzip
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli import cli, completed
from record_samples import picture, read_base64, write_tfrecords
from store_servers import S3, HttpFiles
from stored_runs import QUICK

pytest_plugins = ["store_servers"]

SAMPLES = [(picture(number % 23), number % 3) for number in range(64)]


def put_shards(folder: Path, packed: bool = False) -> Path:
    """SAMPLES in eight files, and labels.txt."""
    folder.mkdir(parents=True)
    for shard in range(8):
        file = folder / f"train-{shard:05}-of-00008"
        write_tfrecords(file, SAMPLES[8 * shard : 8 * shard + 8])
        if packed:
            file.write_bytes(gzip.compress(file.read_bytes()))
    (folder / "labels.txt").write_text("0:daisy\n1:rose\n2:tulip\n")
    return folder


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("train-*"))


def conversion(dimred: Path, tmp_path: Path, url: str, *words: object) -> list[object]:
    """The command that converts what is at a URL to Base64 in `out`."""
    command = [dimred, "data", "convert", url, "--to=base64", "--split=train", "--output", tmp_path / "out", "--quiet"]
    return [*command, f"--store_cache={tmp_path / 'cache'}", *QUICK, *words]


@pytest.fixture
def convert(dimred: Path, tmp_path: Path) -> Callable:
    """Converts what is at a URL to Base64, through a room of this size; gives the samples."""

    def run(url: str, cache: float, *words: object, env: dict[str, str] | None = None) -> list[tuple[bytes, int]]:
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        command = conversion(dimred, tmp_path, url, f"--stream_cache={cache / 1e9:.12f}", *words)
        done = completed(command, env=env)
        assert done.returncode == 0, done.stderr
        return read_base64(sorted((out / "train").glob("part-*")))

    return run


@pytest.fixture
def most_bytes(tmp_path: Path) -> Iterator[Callable[[], int]]:
    """The most bytes of shards that the cache has had while the test ran. Each look holds the room's lock, so that none
    leaves while it lasts; a file that gets its name meanwhile is counted once or not at all."""
    most, ended = [0], threading.Event()

    def size(file: Path) -> int:
        try:
            return file.stat().st_size
        except OSError:
            return 0

    def bytes_now() -> int:
        held = 0
        for room in (tmp_path / "cache").glob("streams/*/shards"):
            with (room / "lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                for key in room.glob("*/"):
                    held += size(key / "shard") or sum(size(key / name) for name in ("new", "new.tmp", "new.part"))
        return held

    def watch() -> None:
        while not ended.is_set():
            most[0] = max(most[0], bytes_now())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    yield lambda: most[0]
    ended.set()
    watcher.join()


@pytest.mark.parametrize("packed", [False, True])
def test_a_pattern_of_files(
    convert: Callable, execute: Callable, tmp_path: Path, most_bytes: Callable, packed: bool
) -> None:
    plain = put_shards(tmp_path / "plain")
    shards = put_shards(tmp_path / "there", packed) if packed else plain
    room = size_of(plain) / 2
    if packed:  # how large they become is known once they are indexed
        execute("dimred", "data index", shards, output=shards / "shards.index", data_cache=tmp_path / "index")
    assert convert(f"file://{shards}/train-*", room) == SAMPLES
    assert 0 < most_bytes() <= room


def test_a_folder_over_http_by_its_listing(convert: Callable, dimred: Path, web: HttpFiles, tmp_path: Path) -> None:
    shards = put_shards(tmp_path / "shards")
    subprocess.run([dimred, "store", "put", shards, f"file://{web.folder}/tf"], check=True, capture_output=True)
    for ranges in (True, False):
        web.ranges = ranges
        assert convert(f"{web.url}/tf", size_of(shards) / 3) == SAMPLES
        shutil.rmtree(tmp_path / "cache")


def test_objects_of_s3(convert: Callable, s3: S3, tmp_path: Path) -> None:
    shards = put_shards(tmp_path / "shards")
    for file in shards.iterdir():
        s3.client.upload_file(str(file), "bucket", f"streamed/{file.name}")
    assert convert("s3://bucket/streamed/train-*", size_of(shards) / 3, env=s3.environment()) == SAMPLES


def test_the_index_is_made_once_or_comes_with_the_files(
    convert: Callable, execute: Callable, web: HttpFiles, dimred: Path, tmp_path: Path
) -> None:
    shards = put_shards(tmp_path / "shards")
    room = 2 * size_of(shards)  # so that each file comes once

    def put() -> None:
        shutil.rmtree(web.folder / "tf", ignore_errors=True)
        subprocess.run([dimred, "store", "put", shards, f"file://{web.folder}/tf"], check=True, capture_output=True)

    def fetches() -> list[str]:
        return [path for path, wanted in web.requests if "/train-" in path and wanted != "bytes=0-0"]

    put()
    assert convert(f"{web.url}/tf", room) == SAMPLES
    assert len(fetches()) == 8
    assert convert(f"{web.url}/tf", room) == SAMPLES
    assert len(fetches()) == 8  # nothing new
    cached = next((tmp_path / "cache").glob("streams/*/shards"))
    shutil.rmtree(cached)
    assert convert(f"{web.url}/tf", room) == SAMPLES
    assert len(fetches()) == 16  # no pass before it
    report = execute("dimred", "data index", shards, output=tmp_path / "shards.index", data_cache=tmp_path / "index")
    assert "8 files, 64 records" in report
    shutil.copy(tmp_path / "shards.index", shards)
    put()
    shutil.rmtree(tmp_path / "cache")
    web.requests.clear()
    assert convert(f"{web.url}/tf", room) == SAMPLES
    assert len(fetches()) == 8
    streamed = execute(
        "dimred",
        "data index",
        f"{web.url}/tf",
        "--stream_cache=1",
        output=tmp_path / "b" / "shards.index",
        store_cache=tmp_path / "cache",
    )
    assert "8 files, 64 records" in streamed


def test_a_copy_that_is_damaged_here_is_fetched_again(
    convert: Callable, web: HttpFiles, dimred: Path, tmp_path: Path
) -> None:
    """Nothing is lost of what an earlier start has left in the room, whatever has become of it."""
    shards = put_shards(tmp_path / "shards")
    subprocess.run([dimred, "store", "put", shards, f"file://{web.folder}/tf"], check=True, capture_output=True)
    room = 2 * size_of(shards)
    assert convert(f"{web.url}/tf", room) == SAMPLES
    copies = sorted((tmp_path / "cache").glob("streams/*/shards/*/shard"))
    assert len(copies) == 8
    copies[0].write_bytes(copies[0].read_bytes()[:-50])
    copies[1].write_bytes(b"")
    copies[2].write_bytes(bytes(copies[2].stat().st_size))
    copies[3].unlink()
    web.requests.clear()
    assert convert(f"{web.url}/tf", room, "--on_bad_sample=skip") == SAMPLES
    fetched = [path for path, wanted in web.requests if "/train-" in path and wanted != "bytes=0-0"]
    assert len(fetched) == 4
    shutil.rmtree(next((tmp_path / "cache").glob("streams/*/index")))
    copies[4].write_bytes(copies[4].read_bytes()[:-50])
    assert convert(f"{web.url}/tf", room) == SAMPLES  # no index is made of a damaged copy


@pytest.mark.parametrize("packed", [False, True])
def test_an_index_made_before_the_upload_is_all_that_is_added(
    execute: Callable, dimred: Path, tmp_path: Path, packed: bool
) -> None:
    """The order that docs/reference/stores.md gives: index, send, stream. The caches that indexing leaves beside the
    files stay here."""
    shards = put_shards(tmp_path / "shards", packed)
    execute("dimred", "data", "index", shards, "--output", shards / "shards.index")
    assert (shards / ".dimred").is_dir()
    url = f"file://{tmp_path}/remote"
    execute("dimred", "store", "put", shards, url)
    assert not (tmp_path / "remote" / ".dimred").exists()
    shutil.copytree(shards / ".dimred", tmp_path / "other" / ".dimred")  # as another tool sends it
    for file in shards.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path / "other")
    for place in (url, f"file://{tmp_path}/other"):
        report = execute(
            "dimred",
            "data convert",
            place,
            "--to=base64 --split=train --stream_cache=1",
            output=tmp_path / f"of_{place[-5:]}",
            store_cache=tmp_path / "cache",
        )
        assert f"downloaded {place}: 2 files, " in report
    assert not [path for path in (tmp_path / "cache").rglob(".dimred") if any(path.iterdir())]


def test_what_jumps_among_the_files_needs_room_for_all(fails: Callable, execute: Callable, tmp_path: Path) -> None:
    shards = put_shards(tmp_path / "shards")
    half, all_of_it = (f"--stream_cache={part * size_of(shards) / 1e9:.12f}" for part in (0.5, 1.01))
    tools = {"convert": ["--to=base64", "--split=train", "--shuffle"], "shuffle-split": ["--nranks=2"]}
    for tool, words in tools.items():
        common = ["data", tool, f"file://{shards}/train-*", *words, f"--store_cache={tmp_path / 'cache'}"]
        line = fails(2, *common, "--output", tmp_path / "none", half)
        assert "reads samples in mixed order, so the stream_cache needs room for all files (" in line
        assert not (tmp_path / "none").exists()
        execute("dimred", *common, "--output", tmp_path / tool, all_of_it)
        here = cli("data", tool, shards, *words, output=tmp_path / f"{tool}-here", data_cache=tmp_path / "index")
        execute("dimred", *here)
        for file in (tmp_path / f"{tool}-here").rglob("*"):
            if file.is_file() and file.name != "dimred-data.txt":  # which names the source
                assert file.read_bytes() == (tmp_path / tool / file.relative_to(tmp_path / f"{tool}-here")).read_bytes()


def test_a_damaged_index_at_a_url_is_named_and_made_again(
    convert: Callable, fails: Callable, execute: Callable, dimred: Path, tmp_path: Path
) -> None:
    shards = put_shards(tmp_path / "shards")
    url = f"file://{shards}"
    (shards / "shards.index").write_bytes(b"no index")
    cache = f"--store_cache={tmp_path / 'cache'}"
    error = failure(dimred, tmp_path, f"{url}/train-*", "--stream_cache=1", code=1)
    assert f"[index] {url}/shards.index: " in error and "version 1; write the index again" in error
    words = ["data", "index", f"{url}/train-*", "--stream_cache=1", "--output", f"{url}/shards.index", cache]
    assert "shards.index exists already" in fails(2, *words)
    assert "8 files, 64 records" in execute("dimred", *words, "--overwrite")
    assert convert(f"{url}/train-*", 2 * size_of(shards)) == SAMPLES
    here = ["data", "index", shards, "--output", shards / "shards.index", f"--data_cache={tmp_path / 'index'}"]
    assert "exists already; choose another --output or give --overwrite" in fails(2, *here)
    execute("dimred", *here, "--overwrite")
    execute("dimred", "store", "put", shards, f"file://{tmp_path}/listed")
    words = cli(
        "data index",
        f"file://{tmp_path}/listed",
        "--stream_cache=1",
        cache,
        output=f"file://{tmp_path}/listed/shards.index",
    )
    assert "lists this file and the others of the folder; send the whole folder again" in fails(
        2, *words, "--overwrite"
    )


@pytest.mark.parametrize("streamed", [["--stream_cache=1"], []])
def test_an_index_of_a_folder_fetches_its_training_files_alone(
    streamed: list[str], execute: Callable, fails: Callable, web: HttpFiles, dimred: Path, tmp_path: Path
) -> None:
    shards = put_shards(tmp_path / "shards")
    write_tfrecords(shards / "test-00000-of-00001", SAMPLES[:3])
    (shards / "notes.pdf").write_bytes(bytes(1000))
    (shards / "pictures").mkdir()
    (shards / "pictures" / "a.png").write_bytes(SAMPLES[0][0])
    subprocess.run([dimred, "store", "put", shards, f"file://{web.folder}/tf"], check=True, capture_output=True)
    words = ["data", "index", f"{web.url}/tf", *streamed, f"--store_cache={tmp_path / 'cache'}"]
    assert "8 files, 64 records" in execute("dimred", *words, "--output", tmp_path / "a" / "shards.index")
    fetched = {path.removeprefix("/tf/") for path, _ in web.requests}
    assert {name for name in fetched if name.startswith("train-")} == {file.name for file in shards.glob("train-*")}
    assert not fetched & {"test-00000-of-00001", "notes.pdf", "pictures/a.png", "labels.txt"}
    (web.folder / "other").mkdir()
    (web.folder / "other" / "notes.pdf").write_bytes(bytes(1000))
    subprocess.run(
        [dimred, "store", "put", web.folder / "other", f"file://{web.folder}/others"], check=True, capture_output=True
    )
    words[2] = f"{web.url}/others"
    assert re.search(
        r"found no file to \w+ at http://.*/others", fails(2, *words, "--output", tmp_path / "c" / "shards.index")
    )


def test_an_index_of_bad_records_is_refused(fails: Callable, execute: Callable, tmp_path: Path) -> None:
    shards = put_shards(tmp_path / "shards")
    file = shards / "train-00002-of-00008"
    file.write_bytes(file.read_bytes()[:-10])
    words = ["data", "index", shards, "--output", tmp_path / "shards.index"]
    assert f"[tfrecord] {file}, offset " in fails(1, *words)
    assert not (tmp_path / "shards.index").exists()
    assert "8 files, 63 records, 1 bad one left out, in " in execute("dimred", *words, "--on_bad_sample=skip")
    other = tmp_path / "other"
    other.mkdir()
    for name in ("train-0", "train-1"):
        (other / name).write_bytes(b"something else than records")
    words = ["data", "index", other, "--output", tmp_path / "b" / "shards.index"]
    assert f"[tfrecord] {other}/train-0, offset 0" in fails(1, *words)
    assert "needs at least one good record, received 2 bad ones" in fails(1, *words, "--on_bad_sample=skip")


def failure(dimred: Path, tmp_path: Path, url: str, *words: str, code: int | None = None) -> str:
    """The one line of a conversion that fails."""
    command = conversion(dimred, tmp_path, url, *words)
    done = completed(command)
    assert done.returncode in ((1, 2) if code is None else (code,)), done.stdout
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_what_cannot_be_streamed_is_said_in_one_line(dimred: Path, fails: Callable, tmp_path: Path) -> None:
    shards = put_shards(tmp_path / "there")
    url = f"file://{shards}"
    assert "needs a stream_cache with room for the file file://" in failure(
        dimred, tmp_path, url, "--stream_cache=0.000000001"
    )
    assert "stream_cache needs data at a URL" in failure(dimred, tmp_path, str(shards), "--stream_cache=1")
    assert "stream_cache needs data at a URL" in fails(
        2, "data", "index", shards, "--stream_cache=1", "--output", tmp_path / "shards.index"
    )
    assert "needs a folder" in failure(dimred, tmp_path, f"{url}/train-00000-of-00008", "--stream_cache=1")
    assert "found no file to stream at" in failure(dimred, tmp_path, f"{url}/test-*", "--stream_cache=1")
    assert "streaming needs TFRecord files, received dataset = folder" in failure(
        dimred, tmp_path, url, "--stream_cache=1", "--dataset=folder"
    )
    (shards / "train-00003-of-00008").write_bytes(b"no record")
    line = failure(dimred, tmp_path, url, "--stream_cache=1")
    assert f"[tfrecord] {url}/train-00003-of-00008, offset 0: needs a whole record" in line


def test_a_file_that_is_truncated_on_the_way_is_fetched_again_or_named(
    convert: Callable, dimred: Path, web: HttpFiles, tmp_path: Path
) -> None:
    shards = put_shards(tmp_path / "shards")
    subprocess.run([dimred, "store", "put", shards, f"file://{web.folder}/tf"], check=True, capture_output=True)
    web.cut_after = 5000  # of each answer: it goes on from there
    assert convert(f"{web.url}/tf", size_of(shards) / 3) == SAMPLES
    web.cut_after = None
    shutil.rmtree(tmp_path / "cache")
    file = web.folder / "tf" / "train-00005-of-00008"
    file.write_bytes(file.read_bytes()[:-100])  # for good
    shutil.rmtree(tmp_path / "out")
    line = failure(dimred, tmp_path, f"{web.url}/tf", "--stream_cache=0.001")
    assert f"{web.url}/tf/train-00005-of-00008" in line
