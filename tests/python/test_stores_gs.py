"""gs:// against an emulator of Google's storage; what it shares with S3 is tested there."""

from __future__ import annotations

import http.server
import json
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from store_servers import BYTES, Proxy, expect_streamed, files_of, refusal, some_files, store


class Gs:
    """The emulator with one bucket, and a proxy before it."""

    def __init__(self) -> None:
        emulator = pytest.importorskip(
            "gcp_storage_emulator.server", reason="needs gcp-storage-emulator of requirements/test.txt"
        )
        self.server = emulator.create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
        # Clients keep their connections: a server of one thread would wait for the first one's end.
        with patch("http.server.HTTPServer", http.server.ThreadingHTTPServer):
            self.server.start()
        self.port = self.server._api._httpd.server_port
        self.proxy = Proxy(self.port)

    def url(self, path: str, port: int | None = None) -> str:
        """Its endpoint stands in the query."""
        return f"gs://anonymous@{path}?scheme=http&endpoint_override=127.0.0.1:{port or self.port}"

    def ask(self, path: str) -> bytes:
        """The body of the answer to a request by HTTP."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
            return answer.read()

    def objects(self, prefix: str) -> dict[str, bytes]:
        """The objects by name below the prefix, without markers of folders, which Arrow leaves."""
        listing = json.loads(self.ask(f"/storage/v1/b/bucket/o?prefix={urllib.parse.quote(prefix + '/')}"))
        names = [item["name"] for item in listing.get("items", []) if not item["name"].endswith("/")]
        return {
            name[len(prefix) + 1 :]: self.ask(
                f"/download/storage/v1/b/bucket/o/{urllib.parse.quote(name, safe='')}?alt=media"
            )
            for name in names
        }


@pytest.fixture(scope="module")
def gs() -> Iterator[Gs]:
    """A server of this file's tests."""
    started = Gs()
    yield started
    started.server.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is to be uploaded."""
    return some_files(tmp_path / "run")


def test_a_folder_goes_there_and_back(gs: Gs, folder: Path, tmp_path: Path, dimred: Path) -> None:
    url = gs.url("bucket/round/run")
    done = store(dimred, "put", folder, url)
    assert done.returncode == 0, done.stderr
    there = gs.objects("round/run")
    assert there.pop("_COMPLETE", None) is not None
    assert there == files_of(folder)
    assert store(dimred, "get", url, tmp_path / "got").returncode == 0
    assert files_of(tmp_path / "got") == files_of(folder)
    assert "uploaded 0 files" in store(dimred, "put", folder, url).stdout
    assert "  3000000  big.bin\n" in store(dimred, "ls", url).stdout


def test_a_file_of_several_parts(gs: Gs, tmp_path: Path, dimred: Path) -> None:
    (tmp_path / "x").write_bytes(BYTES * 6)  # 18 MB: more than one read of 8
    url = gs.url("bucket/large/x")
    assert store(dimred, "put", tmp_path / "x", url).returncode == 0
    assert gs.objects("large") == {"x": BYTES * 6}
    assert store(dimred, "get", url, tmp_path / "got").returncode == 0
    assert (tmp_path / "got").read_bytes() == BYTES * 6


def test_a_pattern_takes_shards(gs: Gs, tmp_path: Path, dimred: Path) -> None:
    for name in ("train-0", "train-1", "test-0"):
        (tmp_path / name).write_text(name)
        assert store(dimred, "put", tmp_path / name, gs.url(f"bucket/shards/{name}")).returncode == 0
    done = store(dimred, "get", gs.url("bucket/shards/train-*"), tmp_path / "got")
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "got") == {"train-0": b"train-0", "train-1": b"train-1"}


def test_an_upload_that_is_killed_leaves_nothing_half(gs: Gs, folder: Path, tmp_path: Path, dimred: Path) -> None:
    (folder / "big.bin").write_bytes(BYTES * 8)
    gs.proxy.passed, gs.proxy.stall_after = 0, 12_000_000
    command = [dimred, "store", "put", folder, gs.url("bucket/killed", gs.proxy.port), "--store_timeout=60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        end = time.monotonic() + 30
        while gs.proxy.passed < 12_000_000 and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    gs.proxy.stall_after = None
    assert gs.proxy.passed >= 12_000_000
    assert set(gs.objects("killed")) == {"_INCOMPLETE"}
    assert "is not complete" in refusal(store(dimred, "get", gs.url("bucket/killed"), tmp_path / "got"))
    assert store(dimred, "put", folder, gs.url("bucket/killed")).returncode == 0
    assert set(gs.objects("killed")) == set(files_of(folder)) | {"_COMPLETE"}


def test_a_server_that_is_gone_and_a_bucket_that_is_not_there(gs: Gs, folder: Path, dimred: Path) -> None:
    assert "cannot" in refusal(store(dimred, "put", folder, gs.url("bucket/x", 9)))
    line = refusal(store(dimred, "put", folder, gs.url("none/x")))
    assert "none/x" in line


def test_streams_shards(gs: Gs, dimred: Path, tmp_path: Path) -> None:
    expect_streamed(dimred, gs.url("bucket/streamed"), tmp_path, "--store_attempts=1")
