"""Ranks on two hosts that share a folder, and a table. See scripts/shared_folder_test.sh."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cli import cli
from cluster.table import Table
from fashion import few
from hosts import placed
from ranks import Ended, ended, free_port, running

SOURCE = Path("/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c")
RANKS, EACH = 4, 2  # ranks, and those of a host
BATCH = ("--global_batch_size=60", "--threads=1", "--heartbeat_timeout=3")
STAGE_1 = cli(*BATCH, "--train_samples=600 --test_samples=100 --snapshots_per_epoch=8 --learning_rate=0.02 --epochs=1")
STAGE_2 = (*BATCH, "--n_component=5")


@dataclass(frozen=True)
class TwoHosts:
    """The folder beneath, its mount for each host, and the path under which all ranks find theirs."""

    program: Path
    beneath: Path
    mounts: tuple[Path, Path]
    path: Path
    empty: Path

    def run(self, *words: object, ranks: int = RANKS, second: Path | None = None) -> Ended:
        """One command on all ranks; `second` stands in for the second host's mount."""
        port, commands, environments = free_port(), [], []
        for rank in range(ranks):
            host = self.mounts[0] if rank < EACH else second or self.mounts[1]
            inner = 'mount --bind "$1" "$2"; shift 2; exec "$@"'
            commands.append(["unshare", "--mount", "bash", "-ec", inner, "on", host, self.path, self.program, *words])
            environments.append(placed(rank, ranks, port, "127.0.0.1", EACH) | {"OMP_NUM_THREADS": "1"})
        with running(commands, environments) as processes:
            return ended(processes)


def reason_against() -> str:
    """Why nothing can be tried here; empty where it can."""
    if os.geteuid() != 0:
        return "needs root, for mounts"
    if not Path("/dev/fuse").exists():
        return "needs /dev/fuse"
    missing = [name for name in ("gcc", "pkg-config", "unshare", "fusermount3") if shutil.which(name) is None]
    if missing or not SOURCE.exists():
        return "needs fuse3 and libfuse3-dev; scripts/shared_folder_test.sh --install"
    return ""


@contextmanager
def two_hosts(build: Path, root: Path) -> Iterator[TwoHosts]:
    """Mounted, and unmounted afterwards."""
    program = root / "passthrough_ll"
    flags = subprocess.run(
        ["pkg-config", "fuse3", "--cflags", "--libs"], check=True, capture_output=True, text=True
    ).stdout
    subprocess.run(["gcc", "-O2", str(SOURCE), "-o", str(program), *shlex.split(flags)], check=True)
    hosts = TwoHosts(
        build / "bin" / "dimred", root / "beneath", (root / "a", root / "b"), root / "shared", root / "empty"
    )
    for folder in (hosts.beneath, *hosts.mounts, hosts.path, hosts.empty):
        folder.mkdir()
    with ExitStack() as undo:
        for mount in hosts.mounts:
            subprocess.run([program, "-o", f"source={hosts.beneath},writeback,cache=auto,timeout=1", mount], check=True)
            undo.callback(subprocess.run, ["fusermount3", "-u", "-z", str(mount)], check=False)
        yield hosts


def failed(done: Ended) -> str:
    return (
        "" if done.codes == [0] * len(done.codes) else f"codes {done.codes}: {' '.join(' '.join(done.errors).split())}"
    )


def matrix(hosts: TwoHosts, *options: str) -> str:
    """Four ranks on two hosts write the bytes of one."""
    values = np.random.default_rng(1).standard_normal((9, 100_003)).astype(np.float32).cumsum(0, dtype=np.float32)
    np.save(hosts.beneath / "w.npy", values)
    words = ["--components=5", "--threads=1", "--overwrite", *options]
    problem = failed(hosts.run("pca", hosts.path / "w.npy", "--output", hosts.path / "one.npy", *words, ranks=1))
    for _ in range(3):
        problem = problem or failed(hosts.run("pca", hosts.path / "w.npy", "--output", hosts.path / "p.npy", *words))
        if problem:
            return problem
        one, several = (np.load(hosts.beneath / name) for name in ("one.npy", "p.npy"))
        if wrong := int((one != several).sum()):
            return f"{wrong} of {one.size} values are wrong"
    return ""


def training(hosts: TwoHosts) -> str:
    """Both stages, and the second one again, which goes on from its state."""
    shared = hosts.path
    trained = hosts.run("stage1", f"--data={few()}", *STAGE_1, "--output", shared / "run")
    warned = [text.count("may not reach other hosts (fuse") for text in trained.errors]
    if warned != [1] + [0] * (RANKS - 1):
        return f"{warned} warnings that the lock of the folder may not reach other hosts"
    first = failed(trained)
    second = [*STAGE_2, "--checkpoint", shared / "run", "--output", shared / "boost"]
    first = (
        first
        or failed(hosts.run("stage2", *second, "--epochs=1"))
        or failed(hosts.run("stage2", *second, "--epochs=2"))
    )
    if first:
        return first
    outcome = json.loads((hosts.beneath / "boost" / "manifest.json").read_text())["outcome"]
    return "" if outcome == "finished" else outcome


def no_shared_folder(hosts: TwoHosts, second: Callable[[Path], object]) -> str:
    """A PCA whose second host finds what `second` puts into its folder."""
    shutil.rmtree(hosts.empty)
    hosts.empty.mkdir()
    second(hosts.empty)
    return refused_once(hosts, "pca", hosts.path / "w.npy", "--output", hosts.path / "none.npy", "--components=5")


def refused_once(hosts: TwoHosts, *words: object) -> str:
    """The command, of which the second host has another folder: one line by one rank, and nothing left."""
    before = sorted(hosts.beneath.iterdir())
    done = hosts.run(*words, second=hosts.empty)
    lines = [line for text in done.errors for line in text.splitlines()]
    if 0 in done.codes or len(lines) != 1:
        return f"codes {done.codes}, {len(lines)} lines"
    return "" if sorted(hosts.beneath.iterdir()) == before else "files are left"


def another_file(hosts: TwoHosts, folder: Path) -> None:
    shutil.copy(hosts.beneath / "w.npy", folder)
    (folder / "none.npy.tmp").write_bytes(bytes(2_000_300))


def locks(hosts: TwoHosts) -> str:
    """Whether flock reaches from one host to the other; no fault of ours where it does not."""
    with ExitStack() as held:
        for mount in hosts.mounts:
            file = held.enter_context((mount / "lock").open("a"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return "flock reaches the other host"
    return "flock does not reach the other host"


def cases(hosts: TwoHosts) -> Sequence[tuple[str, Callable[[], str]]]:
    return [
        ("a matrix, three times", lambda: matrix(hosts)),
        ("a random matrix", lambda: matrix(hosts, "--kind=random")),
        ("both stages, and on", lambda: training(hosts)),
        ("not shared: empty", lambda: no_shared_folder(hosts, lambda _: None)),
        (
            "not shared: snapshots alone",
            lambda: no_shared_folder(hosts, lambda to: shutil.copy(hosts.beneath / "w.npy", to)),
        ),
        (
            "not shared: no run",
            lambda: refused_once(
                hosts, "stage2", *STAGE_2, "--checkpoint", hosts.path / "run", "--output", hosts.path / "new"
            ),
        ),
        ("not shared: another file", lambda: no_shared_folder(hosts, lambda to: another_file(hosts, to))),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/shared_folder_test.sh", description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with bin/")
    parser.add_argument("--record", type=Path, help="file that also gets the table")
    given, table = parser.parse_args(), Table()
    if reason := reason_against():
        table.add("fuse", "-", "all", "skipped", why=reason)
        table.end()
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="dimred_shared_") as root,
        two_hosts(given.build.resolve(), Path(root)) as hosts,
    ):
        for name, case in cases(hosts):
            since = time.monotonic()
            wrong = case()
            table.add("fuse", RANKS, name, "FAILED" if wrong else "passed", time.monotonic() - since, wrong)
        table.say(locks(hosts))
    table.end(given.record)
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
