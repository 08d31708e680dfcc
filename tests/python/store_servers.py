"""Servers of remote files on loopback, real ones and ones that misbehave."""

from __future__ import annotations

import http.server
import os
import random
import re
import socket
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli import completed
from record_samples import picture, read_base64, write_tfrecords

KEYS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "hidden-secret",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
QUICK = ["--store_attempts=2", "--store_first_wait=0.05", "--store_timeout=1"]
BYTES = random.Random(1).randbytes(3_000_000)


def store(dimred: Path, *arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `dimred store` with few attempts and short waits."""
    command = [str(dimred), "store", *map(str, arguments), *QUICK]
    return completed(command, env=env)


def refusal(done: subprocess.CompletedProcess[str], code: int = 1) -> str:
    """The one line of a command that failed, which never holds a secret."""
    assert done.returncode == code, done.stderr + done.stdout
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "secret" not in done.stderr + done.stdout
    return done.stderr


class HttpFiles(http.server.ThreadingHTTPServer):
    """A folder over HTTP with byte ranges and etags. Faults are attributes."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cut_after: int | None = None  # bytes of each answer, then the connection is closed
        self.statuses: list[int] = []  # of the next answers
        self.silent = False  # accepts and says nothing
        self.ranges = True
        self.etags = True
        self.anything: bytes | int | None = None  # for what is not there, instead of 404
        self.user: str | None = None  # "Basic ..." that is wanted
        self.sent = 0  # bytes of files
        self.requests: list[tuple[str, str | None]] = []
        super().__init__(("127.0.0.1", 0), HttpFile)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class HttpFile(http.server.BaseHTTPRequestHandler):
    """One request of it."""

    server: HttpFiles

    def log_message(self, *_: object) -> None:
        """Nothing on the tests' terminal."""

    def do_GET(self) -> None:
        server = self.server
        server.requests.append((self.path, self.headers["Range"]))
        while server.silent:
            time.sleep(0.05)
        if server.statuses:
            return self.send_error(server.statuses.pop(0))
        if server.user is not None and self.headers["Authorization"] != server.user:
            return self.send_error(401)
        file = server.folder / urllib.parse.unquote(self.path.split("?")[0]).lstrip("/")
        there = file.is_file()
        if not there and not isinstance(server.anything, bytes):
            return self.send_error(server.anything or 404)
        data = file.read_bytes() if there else server.anything
        state = (file if there else server.folder).stat()
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"] or "") if server.ranges else None
        first = int(wanted[1]) if wanted else 0
        last = int(wanted[2]) + 1 if wanted and wanted[2] else len(data)
        if wanted and first >= len(data):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        part = data[first:last]
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        if server.etags:
            self.send_header("ETag", f'"{state.st_mtime_ns}-{len(data)}"')
        self.end_headers()
        cut = part if server.cut_after is None or len(part) < 2 else part[: server.cut_after]
        try:
            self.wfile.write(cut)
        except (BrokenPipeError, ConnectionResetError):  # the first byte was enough
            return
        server.sent += len(cut)
        self.close_connection = True


class Proxy(threading.Thread):
    """Passes TCP on, until told otherwise."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.passed = 0  # bytes of requests
        self.stall_after: int | None = None  # bytes of requests: then nothing moves any more
        self.stall_at: bytes | None = None  # a request with this in it does not get further
        self.stalled = False
        self.refuse_at: bytes | None = None  # a request with this in it is answered by 503
        self.answer: bytes | None = None  # instead of the server's
        self.start()

    def run(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        if self.answer is not None:
            return self.refuse(client)
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            return client.close()
        threading.Thread(target=self.back, args=(server, client), daemon=True).start()
        try:
            while data := client.recv(65536):
                self.passed += len(data)
                while self.stall_at is not None and self.stall_at in data:
                    self.stalled = True
                    time.sleep(0.02)
                if self.refuse_at is not None and self.refuse_at in data:
                    client.sendall(s3_error(503, "ServiceUnavailable"))
                    return client.close()
                while self.stall_after is not None and self.passed > self.stall_after:
                    time.sleep(0.02)
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def refuse(self, client: socket.socket) -> None:
        """Reads the request to its end, as far as it is known, and gives the one answer."""
        client.settimeout(0.2)
        try:
            while client.recv(1 << 20):
                pass
        except OSError:
            pass
        client.sendall(self.answer)
        client.close()

    @staticmethod
    def back(server: socket.socket, client: socket.socket) -> None:
        try:
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def s3_error(status: int, code: str) -> bytes:
    """What an S3 server answers when it will not."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code} by test</Message></Error>".encode()
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


class S3:
    """moto's server with one bucket, and a proxy before it."""

    def __init__(self) -> None:
        server = pytest.importorskip("moto.server", reason="needs moto[server] of requirements/test.txt")
        self.server = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        self.port = self.server.get_host_and_port()[1]
        self.proxy = Proxy(self.port)
        self.client = __import__("boto3").client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            aws_access_key_id="key",
            aws_secret_access_key="hidden-secret",
            region_name="us-east-1",
        )
        self.client.create_bucket(Bucket="bucket")

    def environment(self, port: int | None = None) -> dict[str, str]:
        """For programs that shall find it (or another port)."""
        return {**os.environ, **KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}"}

    def keys(self, prefix: str) -> dict[str, int]:
        """Objects below a prefix, with their sizes; without markers of folders, which Arrow leaves."""
        found = self.client.list_objects_v2(Bucket="bucket", Prefix=prefix + "/").get("Contents", [])
        return {one["Key"][len(prefix) + 1 :]: one["Size"] for one in found if not one["Key"].endswith("/")}


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """An S3 server of this session."""
    started = S3()
    yield started
    started.server.stop()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[HttpFiles]:
    """An HTTP server of a folder `web` of this test."""
    (tmp_path / "web").mkdir()
    server = HttpFiles(tmp_path / "web")
    yield server
    server.silent = False
    server.shutdown()
    server.server_close()


def files_of(folder: Path) -> dict[str, bytes]:
    """A folder's files by name below it."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def some_files(run: Path) -> Path:
    """A folder of them, with names that need coding."""
    (run / "sub").mkdir(parents=True)
    (run / "big.bin").write_bytes(BYTES)
    (run / "sub" / "a b%20+ü.txt").write_text("text\n")
    (run / "empty").write_bytes(b"")
    return run


def expect_streamed(dimred: Path, url: str, scratch: Path, *words: object) -> None:
    """Puts shards there, and reads them through a cache of less than half of their bytes: the samples are the same."""
    samples = [(picture(number), number % 3) for number in range(24)]
    shards = scratch / "shards"
    shards.mkdir()
    for shard in range(4):
        write_tfrecords(shards / f"train-{shard:05}-of-00004", samples[6 * shard : 6 * shard + 6])
    size = sum(file.stat().st_size for file in shards.iterdir())
    subprocess.run([dimred, "store", "put", shards, url, *words], check=True, capture_output=True)
    narrow = [f"--stream_cache={size * 0.45e-9:.12f}", f"--store_cache={scratch / 'cache'}", "--split=train", "--quiet"]
    command = [dimred, "data", "convert", url, "--to=base64", f"--output={scratch / 'out'}", *narrow, *words]
    done = completed(command)
    assert done.returncode == 0, done.stderr
    assert read_base64(sorted((scratch / "out" / "train").glob("part-*"))) == samples
