"""What a stranger's files may do: replays of known faults and random mutations, and a table. See scripts/hostile.sh."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from faults.draws import generator

from . import replays
from .judge import Verdict, attempt
from .measured import TIME_LIMIT
from .mutations import MUTATIONS
from .site import Site
from .table import Table
from .uses import KINDS, uses

MANY, SHORT = 500, 2  # mutations of every kind of file
SLOWEST = 2.0  # seconds of a refusal; the short form, which runs beside others, only looks for what hangs


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/hostile.sh", description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with bin/")
    parser.add_argument("--short", action="store_true", help=f"some replays, and {SHORT} mutations of every kind")
    parser.add_argument("--mutations", type=int, help=f"of every kind of file; default: {MANY}, short: {SHORT}")
    parser.add_argument("--only", default="", help="cases whose names hold this text")
    parser.add_argument("--seed", type=int, default=1, help="seed of the mutations")
    parser.add_argument("--record", type=Path, help="file that also gets the table")
    return parser.parse_args()


def mutated(site: Site, kind: str, number: int, seed: int, only: str) -> Iterator[Verdict]:
    """The mutations in turn, each of any file of this kind, before any of the commands that use the file."""
    draw, mutations = generator(seed, "hostile", kind, number), list(MUTATIONS)
    mutation = mutations[
        (number + SHORT * list(KINDS).index(kind)) % len(mutations)
    ]  # all of them in the short form, too
    chosen = draw.choice(list(KINDS[kind]))
    use = uses(site)[draw.choice(KINDS[kind][chosen])]

    def disturbed() -> tuple[Path, int]:
        file = site.work / chosen
        given = file.stat().st_size
        MUTATIONS[mutation](file, generator(seed, "bytes", kind, number), site.other / chosen, site.outside / "moved")
        return file, max(given, file.stat().st_size if file.is_file() else 0)

    name = f"{chosen}, {mutation}, number {number}"
    if only in f"mutated {kind}: {use.name}: {name}":
        yield attempt(site, use, use, disturbed, f"mutated {kind}", name)


def verdicts(site: Site, given: argparse.Namespace) -> Iterator[Verdict]:
    yield from replays.all_of(site, given.only, short=given.short)
    count = given.mutations if given.mutations is not None else SHORT if given.short else MANY
    for number in range(count):
        for kind in KINDS:
            yield from mutated(site, kind, number, given.seed, given.only)


def main() -> int:
    given, table, started = arguments(), Table(), time.monotonic()
    slowest = TIME_LIMIT if given.short else SLOWEST
    for stop in (signal.SIGINT, signal.SIGTERM):  # ended early, it tells what it has seen
        signal.signal(stop, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="dimred_hostile_") as root:
        try:
            for verdict in verdicts(Site(given.build.resolve(), Path(root).resolve(), slowest), given):
                table.add(verdict)
        except KeyboardInterrupt:
            table.wrong.append("ended early")
        finally:
            head = f"seed {given.seed}, {time.monotonic() - started:.0f} s, load {os.getloadavg()[0]:.1f}"
            text = f"{head}\n{table.text(slowest)}"
            print(text, flush=True)
    if given.record:
        given.record.write_text(text + "\n")
    return 1 if table.missed(slowest) else 0


if __name__ == "__main__":
    sys.exit(main())
