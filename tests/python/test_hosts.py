"""Ranks on two hosts."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cli import cli
from fashion import few
from hosts import Host, on_a_switch, placed
from ranks import Ended, ended, free_port, running

SMALL = cli("--train_samples=2000 --test_samples=100 --global_batch_size=100 --threads=1 --epochs=1", data=few())


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Host]]:
    """Skipped where this user may not make any."""
    with ExitStack() as undo:
        try:
            made = undo.enter_context(on_a_switch(2))
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield made


@pytest.fixture
def names(hosts) -> Iterator[str]:
    """Each host knows its own name as 127.0.1.1, as Debian sets it up; gives the first one's name."""
    folders = [Path("/etc/netns") / host.namespace for host in hosts]
    with ExitStack() as undo:
        for own, folder in enumerate(folders):
            lines = [f"{'127.0.1.1' if i == own else host.address} node{i}" for i, host in enumerate(hosts)]
            folder.mkdir(parents=True)
            undo.callback(shutil.rmtree, folder)
            (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        yield "node0"


def run_on(hosts: list[Host], program: Path, arguments: list[object], master: str = "") -> Ended:
    """One rank a host."""
    port, master = free_port(), master or hosts[0].address
    environments = [placed(rank, len(hosts), port, master, node_size=1) for rank in range(len(hosts))]
    with running([[*host.command(), program, *arguments] for host in hosts], environments) as processes:
        return ended(processes)


def test_both_stages_across_two_hosts_send_what_they_count(hosts, tmp_path: Path, binaries: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    stages = {
        one: ["stage1", *SMALL, "--snapshots_per_epoch=5", "--output", one],
        two: ["stage2", *SMALL, "--n_component=4", "--checkpoint", one, "--output", two],
    }
    for run, arguments in stages.items():
        before = hosts[0].bytes_sent()
        done = run_on(hosts, binaries / "dimred", arguments)
        assert done.codes == [0, 0], done.errors
        sent = hosts[0].bytes_sent() - before
        traffic = json.loads((run / "manifest.json").read_text())["details"]["traffic"]
        counted = sum(kind["bytes_sent"] for kind in traffic.values())
        assert counted > 5e6
        # Headers, acknowledgements, the rendezvous and the signs of life come on top.
        assert counted < sent < 1.03 * counted, (counted, sent)


def test_hosts_that_know_themselves_as_loopback_meet(hosts, names: str, tmp_path: Path, binaries: Path) -> None:
    arguments = cli("stage1 --train_samples=200 --test_samples=50 --global_batch_size=100 --threads=1", data=few())
    done = run_on(hosts, binaries / "dimred", [*arguments, "--epochs=1", "--output", tmp_path / "run"], names)
    assert done.codes == [0, 0], done.errors
