"""`dimred store` against servers of HTTP and S3 that work, fail, stall, refuse and cut off."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from cli import cli, completed
from store_servers import BYTES, KEYS, QUICK, S3, HttpFiles, Proxy, files_of, refusal, s3_error, some_files, store

pytest_plugins = ["store_servers"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is to be uploaded."""
    return some_files(tmp_path / "run")


# ---- HTTP


def test_a_file_over_http(web: HttpFiles, tmp_path: Path, dimred: Path) -> None:
    (web.folder / "x.bin").write_bytes(BYTES)
    (web.folder / "none").write_bytes(b"")
    for name in ("x.bin", "none"):
        assert store(dimred, "get", f"{web.url}/{name}", tmp_path / name).returncode == 0
        assert (tmp_path / name).read_bytes() == (web.folder / name).read_bytes()
    assert "  3000000  x.bin" in store(dimred, "ls", f"{web.url}/x.bin").stdout
    command = [dimred, "store", "get", f"{web.url}/x.bin", "here.bin"]  # into the working folder
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "here.bin").read_bytes() == BYTES
    assert store(dimred, "get", f"{web.url}/x.bin", f"{tmp_path}/new/folder/").returncode == 0
    assert [(file.name, file.read_bytes()) for file in (tmp_path / "new" / "folder").iterdir()] == [("x.bin", BYTES)]
    assert "found no file at" in refusal(store(dimred, "get", f"{web.url}/y.bin", tmp_path / "y"), 2)
    assert "cannot write to http or https" in refusal(store(dimred, "put", tmp_path / "x.bin", f"{web.url}/z"), 2)


def test_a_folder_over_http_by_its_listing(web: HttpFiles, folder: Path, tmp_path: Path, dimred: Path) -> None:
    assert store(dimred, "put", folder, f"file://{web.folder}/data").returncode == 0
    assert store(dimred, "get", f"{web.url}/data", tmp_path / "got").returncode == 0
    assert files_of(tmp_path / "got") == files_of(folder)
    (web.folder / "data" / "big.bin").write_bytes(BYTES[:-1] + b"!")
    assert "does not match its digest (after 2 attempts)" in refusal(
        store(dimred, "get", f"{web.url}/data", tmp_path / "again")
    )
    assert not (tmp_path / "again" / "big.bin").exists()


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_is_cut_goes_on(ranges: bool, web: HttpFiles, tmp_path: Path, dimred: Path) -> None:
    (web.folder / "x.bin").write_bytes(BYTES)
    web.ranges, web.cut_after = ranges, 2_000_000
    done = store(dimred, "get", f"{web.url}/x.bin", tmp_path / "x.bin")
    if ranges:
        assert done.returncode == 0, done.stderr
        assert web.sent - 2 == len(BYTES)  # the first byte was asked for alone, before and after
    else:  # every answer is cut at the same place
        refusal(done)
        assert sorted(file.name for file in tmp_path.glob("x.bin*")) == ["x.bin.part", "x.bin.part.of"]
        web.cut_after = None
        assert store(dimred, "get", f"{web.url}/x.bin", tmp_path / "x.bin").returncode == 0
    assert (tmp_path / "x.bin").read_bytes() == BYTES
    assert not list(tmp_path.glob("*.part*"))


def test_a_beginning_of_another_file_is_thrown_away(web: HttpFiles, tmp_path: Path, dimred: Path) -> None:
    (web.folder / "x.bin").write_bytes(BYTES)
    web.cut_after = 1000
    web.statuses = []
    command = [dimred, "store", "get", f"{web.url}/x.bin", tmp_path / "x.bin", "--store_attempts=1"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    web.cut_after = None
    (web.folder / "x.bin").write_bytes(BYTES[::-1])  # of the same length
    assert store(dimred, "get", f"{web.url}/x.bin", tmp_path / "x.bin").returncode == 0
    assert (tmp_path / "x.bin").read_bytes() == BYTES[::-1]


def test_a_busy_server_is_asked_again_and_a_refusing_one_not(web: HttpFiles, tmp_path: Path, dimred: Path) -> None:
    (web.folder / "x.bin").write_bytes(b"x")
    web.statuses = [503]
    assert store(dimred, "get", f"{web.url}/x.bin", tmp_path / "x.bin").returncode == 0
    web.statuses = [503] * 9
    assert "HTTP 503 (after 2 attempts)" in refusal(store(dimred, "get", f"{web.url}/x.bin", tmp_path / "y"))
    web.requests.clear()
    web.statuses = [403] * 9
    assert "credentials are refused (HTTP 403)" in refusal(store(dimred, "get", f"{web.url}/x.bin", tmp_path / "y"))
    assert [path for path, _ in web.requests] == ["/x.bin/_COMPLETE", "/x.bin"]


def test_name_and_password_are_used_and_never_shown(web: HttpFiles, tmp_path: Path, dimred: Path) -> None:
    (web.folder / "x.bin").write_bytes(b"x")
    web.user = "Basic " + base64.b64encode(b"me:secret").decode()
    host = web.url.removeprefix("http://")
    assert store(dimred, "get", f"http://me:secret@{host}/x.bin", tmp_path / "x.bin").returncode == 0
    assert store(dimred, "get", f"http://me:%73ecret@{host}/x.bin", tmp_path / "x2.bin").returncode == 0
    web.user = "Basic other"
    line = refusal(store(dimred, "get", f"http://me:secret@{host}/x.bin?sign=secret", tmp_path / "y"))
    assert f"{web.url}/x.bin?..." in line


def test_a_server_that_answers_everything_is_asked_for_the_file(web: HttpFiles, tmp_path: Path, dimred: Path) -> None:
    """x.php/_COMPLETE is a page, or an error of any kind: the file itself is what was meant."""
    (web.folder / "x.php").write_bytes(b"the file")
    for web.anything in (b"<html>a page</html>", 400, 405):
        assert store(dimred, "get", f"{web.url}/x.php", tmp_path / "x").returncode == 0
        assert (tmp_path / "x").read_bytes() == b"the file"
        (tmp_path / "x").unlink()


def test_a_matrix_comes_without_a_neighbour_that_is_refused(web: HttpFiles, tmp_path: Path, dimred: Path) -> None:
    (web.folder / "m.npy").write_bytes(b"no matrix")
    web.anything = 403
    for query in ("", "?X-Amz-Signature=secret"):
        web.requests.clear()
        done = completed([dimred, "inspect", f"{web.url}/m.npy{query}", f"--store_cache={tmp_path / 'cache'}", *QUICK])
        assert "credentials" not in done.stderr
        assert "m.npy" in done.stderr + done.stdout  # what it is, is another question
        assert ("/m.json" in [path for path, _ in web.requests]) == (not query)


def test_a_server_without_etags(web: HttpFiles, tmp_path: Path, dimred: Path) -> None:
    (web.folder / "x.bin").write_bytes(BYTES)
    web.etags = False
    assert store(dimred, "get", f"{web.url}/x.bin", tmp_path / "x.bin").returncode == 0
    assert (tmp_path / "x.bin").read_bytes() == BYTES


def test_a_silent_server_and_none_at_all(web: HttpFiles, tmp_path: Path, dimred: Path) -> None:
    web.silent = True
    began = time.monotonic()
    assert "(after 2 attempts)" in refusal(store(dimred, "ls", f"{web.url}/x.bin"))
    assert 1 < time.monotonic() - began < 12
    assert "onnect" in refusal(store(dimred, "ls", "http://127.0.0.1:9/x.bin"))


# ---- S3


def test_a_folder_to_s3_and_back(s3: S3, folder: Path, tmp_path: Path, dimred: Path) -> None:
    env = s3.environment()
    assert store(dimred, "put", folder, "s3://bucket/round/run", env=env).returncode == 0
    assert set(s3.keys("round/run")) == set(files_of(folder)) | {"_COMPLETE"}
    assert s3.client.get_object(Bucket="bucket", Key="round/run/big.bin")["Body"].read() == BYTES
    assert store(dimred, "get", "s3://bucket/round/run", tmp_path / "got", env=env).returncode == 0
    assert files_of(tmp_path / "got") == files_of(folder)
    again = store(dimred, "put", folder, "s3://bucket/round/run", env=env)
    assert "uploaded 0 files" in again.stdout
    listed = store(dimred, "ls", "s3://bucket/round/run", env=env).stdout
    assert "  3000000  big.bin\n" in listed


def test_an_upload_that_is_killed_leaves_nothing_half(s3: S3, folder: Path, tmp_path: Path, dimred: Path) -> None:
    env = s3.environment(s3.proxy.port)
    (folder / "big.bin").write_bytes(BYTES * 8)
    s3.proxy.passed, s3.proxy.stall_after = 0, 20_000_000
    command = [dimred, "store", "put", folder, "s3://bucket/killed", "--store_timeout=60"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        end = time.monotonic() + 30
        while s3.proxy.passed < 20_000_000 and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    s3.proxy.stall_after = None
    assert set(s3.keys("killed")) == {"_INCOMPLETE"}
    env = s3.environment()
    assert "is not complete" in refusal(store(dimred, "get", "s3://bucket/killed", tmp_path / "got", env=env))
    assert store(dimred, "put", folder, "s3://bucket/killed", env=env).returncode == 0
    assert set(s3.keys("killed")) == set(files_of(folder)) | {"_COMPLETE"}
    assert store(dimred, "get", "s3://bucket/killed", tmp_path / "got", env=env).returncode == 0
    assert files_of(tmp_path / "got") == files_of(folder)


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (403, "InvalidAccessKeyId", "the credentials are refused"),
        (403, "SignatureDoesNotMatch", "the credentials are"),
        (403, "QuotaExceeded", "the quota is full"),
        (507, "InsufficientStorage", "the quota is full"),
    ],
)
def test_s3_that_refuses(status: int, code: str, said: str, s3: S3, folder: Path, dimred: Path) -> None:
    (folder / "big.bin").unlink()
    s3.proxy.answer = s3_error(status, code)
    try:
        done = store(dimred, "put", folder / "empty", "s3://bucket/refused/x", env=s3.environment(s3.proxy.port))
    finally:
        s3.proxy.answer = None
    line = refusal(done)
    assert said in line
    assert "attempts" not in line
    assert not s3.keys("refused")


def test_s3_that_is_gone_or_has_no_such_bucket(s3: S3, folder: Path, dimred: Path) -> None:
    assert "(after 2 attempts)" in refusal(
        store(
            dimred, "put", folder, "s3://bucket/x", env={**os.environ, **KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
        )
    )
    assert "bucket does not exist" in refusal(store(dimred, "put", folder, "s3://none/x", env=s3.environment()))


def test_s3_that_stalls_is_given_up(s3: S3, folder: Path, dimred: Path) -> None:
    s3.proxy.passed, s3.proxy.stall_after = 0, 1_000_000
    began = time.monotonic()
    try:
        command = cli(
            dimred, "store put", folder / "big.bin", "s3://bucket/stalls/x --store_attempts=1 --store_timeout=1"
        )
        line = refusal(completed(command, env=s3.environment(s3.proxy.port)))
        assert not s3.keys("stalls")  # before the proxy may pass on what it holds
    finally:
        s3.proxy.stall_after = None
    assert "cannot write s3://bucket/stalls/x" in line
    assert time.monotonic() - began < 25


def test_a_part_that_s3_refuses_leaves_no_upload_behind(s3: S3, tmp_path: Path, dimred: Path) -> None:
    """One that is neither completed nor aborted is not seen and costs money."""
    (tmp_path / "large.bin").write_bytes(bytes(25_000_000))
    s3.proxy.refuse_at = b"partNumber=2"
    try:
        command = cli(dimred, "store put", tmp_path / "large.bin", "s3://bucket/parts/x --store_attempts=1")
        line = refusal(completed(command, env=s3.environment(s3.proxy.port)))
    finally:
        s3.proxy.refuse_at = None
    assert "cannot write s3://bucket/parts/x" in line and not s3.keys("parts")
    uploads = s3.client.list_multipart_uploads(Bucket="bucket").get("Uploads", [])
    assert not [upload for upload in uploads if upload["Key"].startswith("parts/")]


def test_s3_is_asked_through_the_environments_proxy(s3: S3, folder: Path, dimred: Path) -> None:
    s3.proxy.passed = 0
    env = s3.environment() | {"AWS_ENDPOINT_URL": "http://s3.invalid:9000", "no_proxy": ""}
    for name in ("http_proxy", "https_proxy"):
        env[name] = f"http://127.0.0.1:{s3.proxy.port}"
    store(dimred, "put", folder / "big.bin", "s3://bucket/proxied/x", env=env)
    assert s3.proxy.passed > 0
    s3.proxy.passed = 0
    done = store(
        dimred,
        "put",
        folder / "big.bin",
        "s3://bucket/direct/x",
        env=env | s3.environment() | {"no_proxy": "127.0.0.1"},
    )
    assert done.returncode == 0 and s3.proxy.passed == 0, done.stderr
    del env["AWS_ENDPOINT_URL"]
    assert "needs ?region=NAME" in refusal(store(dimred, "ls", "s3://bucket/x", env=env))
    env["https_proxy"] = "http://me:secret^word@127.0.0.1:9"
    line = refusal(store(dimred, "ls", "s3://bucket/x?region=eu-west-1", env=env))
    assert "the environment's proxy needs the form" in line


def test_a_folder_whose_download_is_killed_goes_on(web: HttpFiles, s3: S3, tmp_path: Path, dimred: Path) -> None:
    """The files that are whole are not asked for again: neither by `store get` nor by a command."""
    for name in "abcd":
        s3.client.put_object(Bucket="bucket", Key=f"cut/{name}", Body=BYTES[:200_000] + name.encode())
    for command in (
        ["store", "get", "s3://bucket/cut", tmp_path / "got"],
        ["data", "inspect", "--data=s3://bucket/cut", f"--store_cache={tmp_path / 'cache'}"],
    ):
        target = tmp_path / ("got" if command[0] == "store" else "cache")
        with subprocess.Popen(
            [dimred, *command, "--store_timeout=60"],
            env=s3.environment(s3.proxy.port),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            s3.proxy.stall_at, end = b"/cut/c", time.monotonic() + 30
            while not s3.proxy.stalled and time.monotonic() < end:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
        s3.proxy.stall_at, s3.proxy.stalled = None, False
        whole = {file.name: file.stat().st_ino for file in target.rglob("*") if file.name in ("a", "b")}
        assert set(whole) == {"a", "b"}
        done = completed([dimred, *command], env=s3.environment())
        assert "2 already there" in done.stdout, done.stderr
        assert {file.name: file.stat().st_ino for file in target.rglob("*") if file.name in ("a", "b")} == whole


def test_a_key_that_names_an_error_and_a_password_that_is_no_url(s3: S3, folder: Path, dimred: Path) -> None:
    """An object called step_00015070 is no HTTP 507; what Arrow cannot read it says whole."""
    env = s3.environment(9)
    line = refusal(store(dimred, "put", folder / "empty", "s3://bucket/HTTP status 507/QuotaExceeded", env=env))
    assert "quota is full" not in line
    assert "(after 2 attempts)" in line
    assert "%2F" in refusal(store(dimred, "ls", "s3://key:hidden-secret#%zz@bucket/x", env=env))


def test_a_pattern_takes_shards(s3: S3, tmp_path: Path, dimred: Path) -> None:
    for name in ("train-0.rec", "train-1.rec", "test-0.rec"):
        s3.client.put_object(Bucket="bucket", Key=f"shards/{name}", Body=name.encode())
    assert store(dimred, "get", "s3://bucket/shards/train-*", tmp_path / "got", env=s3.environment()).returncode == 0
    assert files_of(tmp_path / "got") == {name: name.encode() for name in ("train-0.rec", "train-1.rec")}


def test_a_put_replaces_a_file_of_this_machine_only_when_told(tmp_path: Path, dimred: Path) -> None:
    new, there, empty = (tmp_path / name for name in ("new", "there", "empty"))
    new.write_bytes(b"new")
    there.write_bytes(b"old")
    empty.write_bytes(b"")
    line = refusal(store(dimred, "put", new, f"file://{there}"), 2)
    assert "exists already; choose another place or give --overwrite" in line
    assert there.read_bytes() == b"old"
    for words in (["--overwrite"], []):  # then the same file is there
        assert store(dimred, "put", new, f"file://{there}", *words).returncode == 0
        assert there.read_bytes() == b"new"
    assert store(dimred, "put", new, f"file://{empty}").returncode == 0
    folder, place = tmp_path / "folder", f"file://{tmp_path}/remote"
    (folder / "sub").mkdir(parents=True)
    for name in ("a", "b", "sub/c"):
        (folder / name).write_bytes(b"old")
    for _ in range(2):  # the same files once more
        assert store(dimred, "put", folder, place).returncode == 0
    (folder / "sub" / "c").write_bytes(b"new")
    assert f"{place}/sub/c exists already" in refusal(store(dimred, "put", folder, place), 2)
    (folder / "sub" / "c").write_bytes(b"old")
    (folder / "b").unlink()
    assert f"would remove {place}/b, which is not in" in refusal(store(dimred, "put", folder, place), 2)
    assert files_of(tmp_path / "remote")["b"] == files_of(tmp_path / "remote")["sub/c"] == b"old"
    (folder / "sub" / "c").write_bytes(b"newer")
    replaced = store(dimred, "put", folder, place, "--overwrite")
    assert replaced.returncode == 0, replaced.stderr
    assert "uploaded 1 file, 5 B, 1 already there" in replaced.stdout  # put under two names, one after the other
    assert set(files_of(tmp_path / "remote")) == {"_COMPLETE", "a", "sub/c"}
    for one in ("d", "sub/d", "a"):  # a reader of the folder would not see it, or would see damage
        for source in (new, folder / "sub"):
            line = refusal(store(dimred, "put", source, f"{place}/{one}", "--overwrite"), 2)
            assert f"in the folder {place} would be missing from the list" in line
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    for name in ("config.toml", "manifest.json", "curve.csv"):
        (run / name).write_bytes(b"of a run")
    for name in ("curve.csv", "config.toml", "steps.csv", "checkpoints/new", "final.h5", "model.pt"):
        line = refusal(store(dimred, "put", new, f"file://{run / name}", "--overwrite"), 2)
        assert "is a part of the run" in line
    assert (run / "curve.csv").read_bytes() == b"of a run"
    assert not (run / "steps.csv").exists()


# ---- what is wrong before any request


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["get", "s4://bucket/x", "y"], "did you mean s3://?"),
        (["get", "/x", "y"], "needs scheme://"),
        (["put", "nowhere", "file:///tmp/x"], "no such file or folder: nowhere"),
        (["gett"], "did you mean get?"),
        (["get", "file:///x", "s3://me:secret@bucket/x"], "a path on this machine, received s3://bucket/x"),
        (["put", "s3://me:secret@bucket/x", "file:///x"], "no such file or folder: s3://bucket/x"),
        (
            ["ls", "s3://AKIA:ab/secret@bucket/x"],
            "as %2F, %3F and %40; a path cannot have an '@' here, received s3://...",
        ),
        (["ls", "http://me:secret@[::1:9/x"], "needs a host, or host:port"),
        (["ls", "http://h:99999/x"], "with a port of 1 to 65535"),
        (["get", "s3://bucket/x"], "get needs URL and file or folder"),
        ([], "needs get, put or ls"),
    ],
)
def test_bad_input(arguments: list[str], said: str, dimred: Path) -> None:
    done = completed([dimred, "store", *arguments])
    assert said in refusal(done, 2)


# ---- OSS, through its S3-compatible interface


class BucketInHost(Proxy):
    """Before a server that has the bucket in the path: takes requests that have it in the host name."""

    def serve(self, client: socket.socket) -> None:
        """One request a connection is all that it passes on, with `Connection: close`."""
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(65536)
        assert re.search(rb"(?im)^host: bucket\.oss\.localhost", head), head
        head = re.sub(rb"^([A-Z]+) /(?=[? ])", rb"\1 /bucket", head)
        head = re.sub(rb"^([A-Z]+) /(?!bucket[? ])", rb"\1 /bucket/", head)
        head = re.sub(rb"(?im)^(connection|host):[^\r]*\r\n", b"", head)
        head = head.replace(b"\r\n", b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n", 1)
        server = socket.create_connection(("127.0.0.1", self.target))
        server.sendall(head)
        threading.Thread(target=self.back, args=(server, client), daemon=True).start()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)


def test_oss_has_the_bucket_in_the_path_or_in_the_host_name(s3: S3, folder: Path, tmp_path: Path, dimred: Path) -> None:
    environment = {name: value for name, value in s3.environment().items() if not name.startswith("AWS_")}
    environment |= {"OSS_ACCESS_KEY_ID": "key", "OSS_ACCESS_KEY_SECRET": "hidden-secret"}
    by_path = ["--store_endpoint", f"http://127.0.0.1:{s3.port}"]
    assert store(dimred, "put", folder, "oss://bucket/oss/run", *by_path, env=environment).returncode == 0
    assert set(s3.keys("oss/run")) >= {"big.bin", "empty"}
    endpoint = f"oss.localhost:{BucketInHost(s3.port).port}"
    words = [f"oss://bucket.{endpoint}/oss/run", tmp_path / "got", "--store_endpoint", f"http://{endpoint}"]
    done = store(dimred, "get", *words, env=environment)
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "got") == files_of(folder)
    line = refusal(store(dimred, "get", "oss://bucket/oss/run", tmp_path / "none", env=environment))
    assert "--store_endpoint or $OSS_ENDPOINT" in line and "hidden-secret" not in line
