"""The hosts of tests/cluster_hosts.sh, and what runs on them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "cluster_hosts.sh"
PATIENCE = 300  # seconds after which a job hangs, on a busy machine, too
Process = subprocess.Popen[str]


@dataclass(frozen=True)
class Hosts:
    """The hosts that run now; their files are in `folder`."""

    folder: Path
    slurm: bool

    def command(self, host: str, *words: object) -> list[str]:
        return [str(SCRIPT), str(self.folder), "on", host, *map(str, words)]

    def start(self, host: str, words: list[object], log: Path, **variables: object) -> Process:
        """A command that goes on; its output in `log`."""
        with log.open("a") as stream:
            return subprocess.Popen(
                self.command(host, *words),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=environment(**variables),
                text=True,
            )

    def ask(self, *words: object, host: str = "head", **variables: object) -> str:
        """A short command's output; its failure is a fault of ours."""
        done = subprocess.run(
            self.command(host, *words),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env=environment(**variables),
        )
        if done.returncode != 0:
            raise RuntimeError(
                f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stderr or done.stdout}"
            )
        return done.stdout

    def processes(self, host: str) -> dict[int, str]:
        """The commands that run on a host, by process number."""
        mark = (self.folder / "mark").read_text().strip()
        done = subprocess.run(["ip", "netns", "pids", f"{mark}{host}"], capture_output=True, text=True, check=True)
        found = {}
        for word in done.stdout.split():
            try:
                found[int(word)] = (
                    Path(f"/proc/{word}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
            except OSError:  # it has ended meanwhile
                continue
        return found

    def kill(self, host: str, but: Callable[[str], bool] = lambda _: False) -> None:
        """The host dies: everything on it at once, `but` what is no part of the job."""
        for process, words in self.processes(host).items():
            if not but(words):
                os.kill(process, signal.SIGKILL)

    def start_node(self, host: str) -> None:
        """A node's daemon again."""
        with (self.folder / f"{host}.again.out").open("a") as stream:
            subprocess.Popen(
                [SCRIPT, self.folder, "node", host], stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )


def environment(**variables: object) -> dict[str, str]:
    """Ours, without the variables of a launcher that may have started this."""
    foreign = ("SLURM", "OMPI_", "PMIX_", "TORCHELASTIC", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return own | {name: str(value) for name, value in variables.items()}


def reason_against() -> str:
    """Why there can be no hosts here; empty where there can."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    missing = [program for program in ("ip", "nsenter", "unshare") if shutil.which(program) is None]
    return f"needs {', '.join(missing)}" if missing else ""


@contextmanager
def hosts(folder: Path) -> Iterator[Hosts]:
    """Started and ended. Raises RuntimeError where this machine has no namespaces for us."""
    with subprocess.Popen(
        [SCRIPT, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as server:
        try:
            assert server.stdout and server.stderr
            said = server.stdout.readline().split()
            if said[:1] != ["ready"]:
                raise RuntimeError(server.stderr.read().strip().split("\n")[-1])
            yield Hosts(folder, "slurm" in said)
        finally:
            if server.stdin:
                server.stdin.close()
            server.wait(timeout=PATIENCE)


def wait_until(holds: Callable[[], bool], what: str, patience: float = PATIENCE) -> float:
    """Seconds that it took."""
    since = time.monotonic()
    while not holds():
        if time.monotonic() - since > patience:
            raise RuntimeError(f"{what}: not within {patience:.0f} s")
        time.sleep(0.1)
    return time.monotonic() - since
