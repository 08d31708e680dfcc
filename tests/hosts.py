"""Hosts: network namespaces on one switch, so that bytes sent are counted, and connections slowed, from outside."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from cli import cli
from ranks import environment_of


@dataclass(frozen=True)
class Host:
    """A namespace and its end of the cable."""

    namespace: str
    interface: str
    address: str

    def command(self) -> list[str]:
        return ["ip", "netns", "exec", self.namespace]

    def bytes_sent(self) -> int:
        counter = f"/sys/class/net/{self.interface}/statistics/tx_bytes"
        done = subprocess.run([*self.command(), "cat", counter], check=True, capture_output=True, text=True)
        return int(done.stdout)


def run(*words: object) -> None:
    """A command of `cli`'s words; its failure is the caller's."""
    subprocess.run(cli(*words), check=True, capture_output=True)


def limit(namespace: str, interface: str, rate: str) -> None:
    """Sends at `rate` (of tc: 1gbit) at most."""
    run("tc -n", namespace, "qdisc add dev", interface, "root tbf rate", rate, "burst 512kb latency 100ms")


@contextmanager
def on_a_switch(count: int, rate: str = "") -> Iterator[list[Host]]:
    """`count` hosts that reach one another, each at `rate` each way; gone again afterwards. Throws OSError or
    CalledProcessError where this user may not make any."""
    mark = f"{os.getpid() % 100000}"
    switch = f"dimred{mark}s"
    with ExitStack() as undo:
        run("ip", "netns", "add", switch)
        undo.callback(run, "ip", "netns", "del", switch)
        run(f"ip -n {switch} link add bridge type bridge")
        run(f"ip -n {switch} link set bridge up")
        hosts = [Host(f"dimred{mark}h{i}", f"d{mark}h{i}", f"192.168.177.{i + 1}") for i in range(count)]
        for host in hosts:
            port = f"{host.interface}p"
            run("ip", "netns", "add", host.namespace)
            undo.callback(run, "ip", "netns", "del", host.namespace)
            own = f"ip -n {host.namespace}"
            run(own, "link add", host.interface, "type veth peer name", port, "netns", switch)
            run(f"ip -n {switch} link set {port} master bridge")
            run(f"ip -n {switch} link set {port} up")
            run(own, f"addr add {host.address}/24 dev {host.interface}")
            for interface in (host.interface, "lo"):
                run(own, "link set", interface, "up")
            if rate:
                limit(host.namespace, host.interface, rate)
                limit(switch, port, rate)
        yield hosts


def placed(rank: int, ranks: int, port: int, master: str, node_size: int) -> dict[str, str]:
    """The environment of a rank, `node_size` on each node; `master` is rank 0's address."""
    variables = environment_of(rank, ranks, port)
    variables |= {"MASTER_ADDR": master, "LOCAL_RANK": str(rank % node_size), "LOCAL_WORLD_SIZE": str(node_size)}
    return {**os.environ, **variables}
