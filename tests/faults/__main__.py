"""The long version: every suite, and a table. See scripts/faults.sh."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from . import damage, kills, poison, prefixes, writes
from .launch import Build
from .table import Table
from .workplace import Case, Workplace

SUITES = ("kills", "writes", "prefixes", "damage", "poison")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/faults.sh", description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with bin/ and lib/")
    parser.add_argument("--suites", default=",".join(SUITES), help="comma-separated suites (default: %(default)s)")
    parser.add_argument("--ranks", default="1", help="numbers of ranks, e.g. 1,3")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=500, help="kill -9, for each number of ranks")
    parser.add_argument("--writes", type=int, default=100, help="failing calls of each command; 0: all")
    parser.add_argument("--prefixes", type=int, default=0, help="cut-offs of each command; 0: all")
    parser.add_argument("--flips", type=int, default=0, help="flipped bits a file; 0: every byte of the heads")
    parser.add_argument("--loads", type=int, default=10, help="rounds of damaged files through the trainers")
    parser.add_argument("--folder", type=Path, help="folder to work in (default: a temporary one)")
    return parser.parse_args()


def suites_of(place: Workplace, given: argparse.Namespace) -> dict[str, Callable[[], Iterable[Case]]]:
    return {
        "kills": lambda: kills.cases(place, given.kills, given.seed),
        "writes": lambda: writes.cases(place, given.writes),
        "prefixes": lambda: prefixes.cases(place, given.prefixes),
        "damage": lambda: damage.cases(place, given.flips, given.loads, given.seed),
        "poison": lambda: poison.cases(place),
    }


def end_in_order(*_: object) -> None:
    sys.exit(143)


def main() -> int:
    signal.signal(signal.SIGTERM, end_in_order)  # with the table so far, and nothing left behind
    given, table = arguments(), Table()
    chosen = given.suites.split(",")
    unknown = set(chosen) - set(SUITES)
    if unknown:
        print(f"unknown suites: {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="dimred_faults_", dir=given.folder) as root:
        try:
            for ranks in map(int, given.ranks.split(",")):
                place = Workplace(Build(given.build.resolve()), Path(root) / f"ranks{ranks}", ranks)
                for suite in chosen:
                    # A damaged file is read in the same way by any number of ranks.
                    if ranks == 1 or suite in ("kills", "prefixes"):
                        table.run(f"{suite}, ranks {ranks}", suites_of(place, given)[suite]())
        finally:
            print(table.text(), flush=True)
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
