"""Ranks on two hosts that share a folder, and a table. See scripts/shared_folder_test.sh."""

from __future__ import annotations

import argparse
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
from cluster.table import Table
from fashion import few
from hosts import placed
from ranks import Ended, ended, free_port

SOURCE = Path("/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c")
RANKS, EACH = 4, 2  # ranks, and those of a host
BATCH = ("--global_batch_size=60", "--threads=1", "--heartbeat_timeout=3")
STAGE_1 = (*BATCH, "--train_samples=600", "--test_samples=100", "--snapshots_per_epoch=8", "--learning_rate=0.02", "--epochs=1")
STAGE_2 = (*BATCH, "--n_component=5", "--epochs=1")


@dataclass(frozen=True)
class Place:
    """The folder beneath, what each host has in its place, and the path under which all ranks find it."""

    program: Path
    beneath: Path
    mounts: tuple[Path, Path]
    path: Path
    empty: Path

    def run(self, *words: object, ranks: int = RANKS, second: Path | None = None) -> Ended:
        """One command on all ranks; `second` stands in for the second host's mount."""
        port, processes = free_port(), []
        for rank in range(ranks):
            host = self.mounts[0] if rank < EACH else second or self.mounts[1]
            inner = 'mount --bind "$1" "$2"; shift 2; exec "$@"'
            command = ["unshare", "--mount", "bash", "-ec", inner, "on", host, self.path, self.program, *words]
            processes.append(subprocess.Popen([*map(str, command)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                              env=placed(rank, ranks, port, "127.0.0.1", EACH) | {"OMP_NUM_THREADS": "1"}))  # fmt: skip
        try:
            return ended(processes)
        finally:
            for process in processes:
                process.kill()
                process.wait()


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
def two_hosts(build: Path, root: Path) -> Iterator[Place]:
    """Mounted, and unmounted afterwards."""
    program = root / "passthrough_ll"
    flags = subprocess.run(["pkg-config", "fuse3", "--cflags", "--libs"], check=True, capture_output=True, text=True).stdout
    subprocess.run(["gcc", "-O2", str(SOURCE), "-o", str(program), *shlex.split(flags)], check=True)
    place = Place(build / "bin" / "dimred", root / "beneath", (root / "a", root / "b"), root / "shared", root / "empty")
    for folder in (place.beneath, *place.mounts, place.path, place.empty):
        folder.mkdir()
    with ExitStack() as undo:
        for mount in place.mounts:
            subprocess.run([program, "-o", f"source={place.beneath},writeback,cache=auto,timeout=1", mount], check=True)
            undo.callback(subprocess.run, ["fusermount3", "-u", "-z", str(mount)], check=False)
        yield place


def failed(done: Ended) -> str:
    return "" if done.codes == [0] * len(done.codes) else f"codes {done.codes}: {' '.join(' '.join(done.errors).split())}"


def matrix(place: Place, *options: str) -> str:
    """Four ranks on two hosts write the bytes of one."""
    values = np.random.default_rng(1).standard_normal((9, 100_003)).astype(np.float32).cumsum(0, dtype=np.float32)
    np.save(place.beneath / "w.npy", values)
    words = ["--components=5", "--threads=1", "--overwrite", *options]
    problem = failed(place.run("pca", place.path / "w.npy", "--output", place.path / "one.npy", *words, ranks=1))
    for _ in range(3):
        problem = problem or failed(place.run("pca", place.path / "w.npy", "--output", place.path / "p.npy", *words))
        if problem:
            return problem
        one, several = (np.load(place.beneath / name) for name in ("one.npy", "p.npy"))
        if wrong := int((one != several).sum()):
            return f"{wrong} of {one.size} values are wrong"
    return ""


def training(place: Place) -> str:
    """Both stages, and the second one again, which goes on from its state."""
    shared = place.path
    first = failed(place.run("stage1", f"--data={few()}", *STAGE_1, "--output", shared / "run"))
    second = [*STAGE_2[:-1], "--checkpoint", shared / "run", "--output", shared / "boost"]
    first = first or failed(place.run("stage2", *second, "--epochs=1")) or failed(place.run("stage2", *second, "--epochs=2"))
    if first:
        return first
    outcome = json.loads((place.beneath / "boost" / "manifest.json").read_text())["outcome"]
    return "" if outcome == "finished" else outcome


def no_shared_folder(place: Place, second: Callable[[Path], object]) -> str:
    """Refused on one line by one rank, with nothing left."""
    shutil.rmtree(place.empty)
    place.empty.mkdir()
    second(place.empty)
    before = sorted(place.beneath.iterdir())
    done = place.run("pca", place.path / "w.npy", "--output", place.path / "none.npy", "--components=5", second=place.empty)
    lines = [line for text in done.errors for line in text.splitlines()]
    if 0 in done.codes or len(lines) != 1:
        return f"codes {done.codes}, {len(lines)} lines"
    return "" if sorted(place.beneath.iterdir()) == before else "files are left"


def another_file(place: Place, folder: Path) -> None:
    shutil.copy(place.beneath / "w.npy", folder)
    (folder / "none.npy.tmp").write_bytes(bytes(2_000_300))


def locks(place: Place) -> str:
    """Whether flock reaches from one host to the other; no fault of ours where it does not."""
    script = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print('taken', flush=True); input()"
    holders = [subprocess.Popen([sys.executable, "-c", script, mount / "lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True) for mount in place.mounts]  # fmt: skip
    said = [holder.stdout.readline().strip() for holder in holders if holder.stdout]
    for holder in holders:
        holder.communicate("\n")
    return "flock reaches the other host" if "" in said else "flock does not reach the other host"


def cases(place: Place) -> Sequence[tuple[str, Callable[[], str]]]:
    return [
        ("a matrix, three times", lambda: matrix(place)),
        ("a random matrix", lambda: matrix(place, "--kind=random")),
        ("both stages, and on", lambda: training(place)),
        ("not shared: empty", lambda: no_shared_folder(place, lambda _: None)),
        ("not shared: snapshots alone", lambda: no_shared_folder(place, lambda to: shutil.copy(place.beneath / "w.npy", to))),
        ("not shared: another file", lambda: no_shared_folder(place, lambda to: another_file(place, to))),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/shared_folder_test.sh", description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with bin/")
    parser.add_argument("--record", type=Path, help="file that also gets the table")
    given, table = parser.parse_args(), Table()
    if reason := reason_against():
        table.add("fuse", "-", "all", "skipped", why=reason)
        return 0
    with tempfile.TemporaryDirectory(prefix="dimred_shared_") as root, two_hosts(given.build.resolve(), Path(root)) as place:
        for name, case in cases(place):
            since = time.monotonic()
            wrong = case()
            table.add("fuse", RANKS, name, "FAILED" if wrong else "passed", time.monotonic() - since, wrong)
        table.say(locks(place))
    table.end()
    if given.record:
        given.record.write_text("\n".join(table.lines) + "\n")
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
