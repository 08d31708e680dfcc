"""Checks whether dimred runs on a CUDA device with the right numbers, and how fast. scripts/gpu_check.sh starts it.

    python experiments/benchmarks/gpu/check.py --minutes 9 --output runs/gpu_check

Parts run in order of worth, each in a process group of its own with a limit of its own: what one leaves of its time
goes to those behind it, and one that fails or hangs ends none of the others. OUTPUT/gpu_check.json is written after
every part; what the parts print goes to gpu_check.log beside it. Needs the standard library; the parts need pytest and
torch. Exit code 0: no part failed, whatever the bars say; 1: a part failed, or there is no such device; 2: bad options.
--device cpu runs every part that can run there in a small form, which checks the check.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from programs import SOURCES, Failed, run, why_no_device

Line = dict[str, Any]  # of results: a test that has ended, or a figure after one of its rounds


class Part(NamedTuple):
    """One letter of the check. Its command appends lines to $DIMRED_RESULTS."""

    letter: str
    title: str
    seconds: float  # its share of the time
    command: Sequence[str]


def tests(*files: str) -> list[str]:
    """pytest of files in tests/device, whose conftest.py writes the results."""
    folder = SOURCES / "tests" / "device"
    words = [sys.executable, "-um", "pytest", "-vs", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    return words + [str(folder / file) for file in files]


def figures(name: str) -> list[str]:
    """One of those in figures.py."""
    return [sys.executable, "-u", str(Path(__file__).with_name("figures.py")), name]


PARTS = (
    Part("a", "loads; the tests of each room", 45, tests("test_loads.py", "test_programs.py")),
    Part("b", "losses of processor and device agree", 80, tests("test_agreement.py")),
    Part("c", "compute-sanitizer over the kernels", 45, tests("test_sanitizer.py")),
    Part("d", "algebra against a copy", 15, figures("algebra")),
    Part("e", "ConvNet beside PyTorch", 45, figures("convnet")),
    Part("f", "ResNet-50 beside PyTorch", 100, figures("resnet50")),
    Part("g", "the demo", 35, figures("demo")),
    Part("h", "ranks on one device; which device", 50, tests("test_ranks.py", "test_choice.py")),
    Part("i", "kill -9 and resume", 35, tests("test_resume.py")),
    Part("j", "keep or delete", 90, figures("choices")),
)


def run_limited(command: Sequence[str], log: Path, limit: float, environment: dict[str, str]) -> int | None:
    """The exit code of a command whose output goes behind what `log` has; None: it was stopped after `limit` seconds.
    Kills what its group still holds then, and does not wait where a driver that hangs keeps a process."""
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=environment, start_new_session=True
        )
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)


def judge(code: int | None, limit: float, lines: Sequence[Line]) -> tuple[str, str]:
    """A part's result in a word, and why in a line."""
    failed, skipped, passed = (
        [line for line in lines if line.get("outcome") == outcome] for outcome in ("failed", "skipped", "passed")
    )
    if code is None:
        return "timed out", f"stopped after {limit:.0f} s"
    if failed:
        return "failed", f"{failed[0]['test']}: {failed[0]['why']}"
    if code or not lines:
        return "failed", f"exit code {code}, {len(lines)} results"
    if not skipped:
        return "ok", ""
    return "ok in part" if passed else "not run", skipped[0]["why"]


def run_part(part: Part, device: str, limit: float, output: Path) -> Line:
    """Runs it in a folder that is removed, and says what it has shown."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu_check_", dir=output, ignore_cleanup_errors=True) as scratch:
        results = Path(scratch) / "results"
        results.touch()
        given = {"DIMRED_DEVICE": device, "DIMRED_RESULTS": str(results), "TMPDIR": scratch}
        given |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        code = run_limited(part.command, output / "gpu_check.log", limit, os.environ | given)
        lines = [json.loads(line) for line in results.read_text().splitlines() if line.endswith("}")]
    result, why = judge(code, limit, lines)
    report = {"part": part.letter, "title": part.title, "result": result, "why": why, "limit": limit}
    report |= {"seconds": time.monotonic() - start, "tests": [line for line in lines if "test" in line]}
    latest = {line["figure"]: line for line in lines if "figure" in line}  # each round writes all rounds so far
    return report | {"figures": list(latest.values())}


def verdict(values: Sequence[float], bar: float) -> str:
    """What some rounds reach and others miss stays undecided."""
    return "yes" if min(values) >= bar else "NO" if max(values) < bar else "undecided"


def shown(report: Line) -> str:
    """A part's results, for a terminal."""
    lines = [f"{report['result']}{': ' * bool(report['why'])}{report['why']}, {report['seconds']:.1f} s"]
    for figure in report["figures"]:
        values, bar = figure["values"], figure["bar"]
        text = f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"
        lines.append(f"    {figure['figure']}: {text}{f', at least {bar:g}: {verdict(values, bar)}' if bar else ''}")
    return "\n".join(lines)


def described(device: str) -> Line:
    """What the results depend on."""
    report = {"device": device, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    report |= {"python": sys.version.split()[0], "dimred": run("dimred", "--version").output.strip()}
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    if device != "cpu":
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            report["card"] = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False).stdout
    return report


def check(options: argparse.Namespace) -> bool:
    """Runs the parts that were asked for, and writes what each has shown when it ends; whether none has failed."""
    start = time.monotonic()
    path, whole = options.output / "gpu_check.json", described(options.device) | {"parts": []}
    parts = [part for part in PARTS if part.letter in options.parts]
    for i, part in enumerate(parts):
        left = 60 * options.minutes - (time.monotonic() - start)
        limit = max(1.0, left * part.seconds / sum(each.seconds for each in parts[i:]))
        print(f"({part.letter}) {part.title} ... ", end="", flush=True)
        whole["parts"].append(run_part(part, options.device, limit, options.output))
        print(shown(whole["parts"][-1]), flush=True)
        path.with_suffix(".part").write_text(json.dumps(whole, indent=1) + "\n")
        path.with_suffix(".part").replace(path)
    print(path)
    return all(part["result"] not in ("failed", "timed out") for part in whole["parts"])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    letters, shown = [part.letter for part in PARTS], "default: %(default)s"
    titles = ", ".join(f"{part.letter}: {part.title}" for part in PARTS)
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--device", default="cuda", help=f"cuda, cuda:N or cpu; {shown}")
    add("--minutes", type=float, default=9, help=f"time for all parts; {shown}")
    add("--parts", nargs="+", choices=letters, default=letters, metavar="LETTER", help=f"only these of {titles}")
    add("--output", type=Path, default=Path("runs/gpu_check"), help=f"folder of the results; {shown}")
    options = parser.parse_args(arguments)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", options.device):
        parser.error(f"--device needs cuda, cuda:N or cpu, received {options.device}")
    if not 0 < options.minutes < math.inf:
        parser.error(f"--minutes needs a number above 0, received {options.minutes}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Its exit code."""
    options = parse(arguments)
    try:
        if options.device != "cpu" and (reason := why_no_device(options.device)):
            raise Failed(f"needs the device {options.device}, received none: {reason}")
        options.output = options.output.resolve()
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "gpu_check.log").unlink(missing_ok=True)
        return 0 if check(options) else 1
    except (Failed, OSError) as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("gpu_check: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
