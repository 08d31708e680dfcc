"""Measures the exchange by nodes against the direct exchange between hosts with slow connections: bytes and seconds.

    python experiments/benchmarks/exchange_nodes.py build/bin/exchange --json exchange.json

Hosts are network namespaces on a switch, 1 Gbit/s each way (tc's tbf); needs root. The direct exchange is the same
program, told that all ranks are on one node.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from hosts import Host, on_a_switch, placed
from machine import processor
from ranks import ended, free_port


def run_once(program: Path, hosts: list[Host], ranks: int, columns: int, rounds: int, node_size: int) -> dict[str, Any]:
    """Rank 0's line, and the bytes that left each host in all; ranks lie on the hosts in blocks."""
    port, before = free_port(), [host.bytes_sent() for host in hosts]
    processes = [
        subprocess.Popen(
            [*hosts[rank * len(hosts) // ranks].command(), str(program), str(columns), str(rounds)],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=placed(rank, ranks, port, hosts[0].address, node_size),
        )
        for rank in range(ranks)
    ]
    done = ended(processes, patience=600)
    if any(done.codes):
        raise SystemExit("\n".join(done.errors))
    sent = [host.bytes_sent() - earlier for host, earlier in zip(hosts, before, strict=True)]
    return json.loads(done.output[0]) | {"left_host": sent}


def main() -> None:
    """Prints two lines for each layout; writes every round to --json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--layouts", nargs="+", default=["2x4", "4x2"], help="layouts as nodes x ranks of each node")
    parser.add_argument("--columns", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {
        "processor": processor(),
        "rate": options.rate,
        "columns": options.columns,
        "layouts": {},
    }
    for layout in options.layouts:
        nodes, node_size = map(int, layout.split("x"))
        ranks = nodes * node_size
        runs: dict[str, list[dict[str, Any]]] = {"by node": [], "direct": []}
        with on_a_switch(nodes, options.rate) as hosts:
            for _ in range(options.turns):
                for name, size in (("by node", node_size), ("direct", ranks)):
                    runs[name].append(run_once(options.program, hosts, ranks, options.columns, options.rounds, size))
        results["layouts"][layout] = runs
        ratios = [
            statistics.median(b["seconds"]) / statistics.median(a["seconds"])
            for a, b in zip(*runs.values(), strict=True)
        ]
        bound = (
            2 * 4 * options.columns * (nodes - 1) / nodes
        )  # each column once for each other node, of a vector each way
        for name, all_of in runs.items():
            left = max(max(one["left_host"]) for one in all_of) / (options.rounds + 1)
            seconds = statistics.median(s for one in all_of for s in one["seconds"])
            print(
                f"{layout} {name:8}: {seconds:.2f} s, {left / 1e6:.1f} MB leave a host, {left / bound:.3f} of the least"
            )
        print(
            f"{layout} direct takes {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} - {max(ratios):.2f}) times as long"
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
