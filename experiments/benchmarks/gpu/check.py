"""Does dimred run on a CUDA device, with the right numbers, and how fast? scripts/gpu_check.sh starts this check.

    python experiments/benchmarks/gpu/check.py --minutes 9 --output runs/gpu_check

Parts run in order of worth, each in a process group of its own with a limit of its own: what one leaves of its time
goes to those behind it, and one that fails or hangs ends none of the others. OUTPUT/gpu_check.json is written after
every part; what the parts print goes to three logs beside it. Needs the standard library; the parts need pytest and
torch. Exit code 0: no part failed, whatever the bars say; 1: a part failed, or there is no such device; 2: bad options.
--device cpu runs every part that can run there in a small form, which checks the check.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import Ended, cut_middle, run_limited
from programs import SOURCES, Failed, run, why_no_device
from rounds import Figure, describe

sys.path[:0] = [str(SOURCES / "experiments"), str(SOURCES / "experiments" / "benchmarks")]
from machine import processor  # noqa: E402
from workbench.text_table import text_table  # noqa: E402

MOST_OF_A_LOG = 4_000_000  # bytes a part; a log has at most four parts
NEEDS_CUDA = "needs a CUDA device"
DEVICE_TESTS = SOURCES / "tests" / "device"


@dataclass(frozen=True)
class Request:
    """What a part is asked: the device, its seconds, the file of its results and a folder that is removed at the
    end."""

    device: str
    seconds: float
    results: Path
    scratch: Path
    output: Path


Command = Callable[[Request], Sequence[str]]


def tests(*files: str) -> Command:
    """pytest of files in tests/device, whose conftest.py writes the results."""

    def command(request: Request) -> Sequence[str]:
        return [
            sys.executable,
            "-u",
            "-m",
            "pytest",
            "-v",
            "-s",
            "-p",
            "no:cacheprovider",
            f"--rootdir={DEVICE_TESTS}",
            f"--basetemp={request.scratch / 'pytest'}",
            *(str(DEVICE_TESTS / file) for file in files),
        ]

    return command


def figures(*parts: str) -> Command:
    """figures.py."""

    def command(request: Request) -> Sequence[str]:
        script = str(Path(__file__).with_name("figures.py"))
        return [
            sys.executable,
            "-u",
            script,
            f"--device={request.device}",
            f"--seconds={request.seconds - 3:.0f}",
            f"--json={request.results}",
            f"--scratch={request.scratch}",
            "--parts",
            *parts,
        ]

    return command


@dataclass(frozen=True)
class Part:
    """One letter of the check."""

    letter: str
    title: str
    log: str
    weight: float  # its share of the time; seconds where nine minutes are given
    command: Command
    most: float = math.inf  # seconds that it takes at most


# (a) to (c) take at most three minutes together.
PARTS = (
    Part("a", "loads; the tests of each room", "a-c.log", 45, tests("test_loads.py", "test_programs.py"), most=60),
    Part("b", "losses of processor and device agree", "a-c.log", 55, tests("test_agreement.py"), most=70),
    Part("c", "compute-sanitizer over the kernels", "a-c.log", 40, tests("test_sanitizer.py"), most=50),
    Part("d", "algebra against a copy", "d-g.log", 15, figures("algebra")),
    Part("e", "epochs of small networks", "d-g.log", 50, figures("convnet", "resnet20")),
    Part("f", "steps of ResNet-50", "d-g.log", 190, figures("large")),
    Part("g", "the demo", "d-g.log", 30, figures("demo")),
    Part("h", "ranks on one device; which device", "h-j.log", 35, tests("test_ranks.py", "test_choice.py")),
    Part("i", "kill -9 and resume", "h-j.log", 20, tests("test_resume.py")),
    Part("j", "keep or delete", "h-j.log", 60, figures("fused_and_graphs", "graphs")),
)


@dataclass
class Outcome:
    """What a part has shown."""

    part: str
    title: str
    result: str = ""  # ok, ok in part, failed, timed out, not run
    why: str = ""
    seconds: float = 0
    limit: float = 0
    tests: list[dict[str, Any]] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    choices: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    turns: dict[str, Any] = field(default_factory=dict)


def read_results(outcome: Outcome, path: Path) -> None:
    """A test a line, or what figures.py has written; nothing where the part did not come so far."""
    text = path.read_text() if path.is_file() else ""
    if text.startswith('{"test"'):
        outcome.tests = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    elif text:
        for name, value in json.loads(text).items():
            setattr(outcome, name, value)


def judge(outcome: Outcome, ended: Ended) -> None:
    """Its result in a word, and why in a line."""
    failed = [test for test in outcome.tests if test["outcome"] == "failed"]
    done = [test for test in outcome.tests if test["outcome"] == "passed"] + outcome.figures + outcome.choices
    left_out = list(
        dict.fromkeys([test["why"] for test in outcome.tests if test["outcome"] == "skipped"] + outcome.missing)
    )
    if ended.code is None:
        outcome.result, outcome.why = "timed out", f"stopped after {outcome.limit:.0f} s"
    elif failed:
        outcome.result, outcome.why = "failed", f"{failed[0]['test']}: {failed[0]['why']}"
    elif ended.code:
        outcome.result, outcome.why = "failed", (left_out or [f"exit code {ended.code}"])[0]
    elif not done:
        outcome.result, outcome.why = "not run", (left_out or ["no results"])[0]
    else:
        outcome.result, outcome.why = ("ok in part", left_out[0]) if left_out else ("ok", "")
    outcome.why = outcome.why.rpartition("not run: ")[2]


def run_part(part: Part, device: str, limit: float, output: Path, scratch: Path) -> Outcome:
    """Runs it; its output goes behind what its log has."""
    outcome = Outcome(part.letter, part.title, limit=limit)
    results = scratch / f"{part.letter}.json"
    request = Request(device, limit, results, scratch, output)
    log = output / part.log
    log.touch()
    begin = log.stat().st_size
    with log.open("a") as stream:
        print(f"\n==== ({part.letter}) {part.title}: at most {limit:.0f} s", file=stream)
    given = os.environ | {
        "DIMRED_DEVICE": device,
        "DIMRED_RESULTS": str(results),
        "DIMRED_SANITIZER_LOG": str(output / "sanitizer.log"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(scratch),
    }
    ended = run_limited(part.command(request), log, limit, given)
    cut_middle(log, begin, MOST_OF_A_LOG)
    outcome.seconds = ended.seconds
    read_results(outcome, results)
    judge(outcome, ended)
    return outcome


def share_of_a_step(outcomes: Sequence[Outcome]) -> dict[str, Any] | None:
    """Both reads of P by ATen of part (d), in per cent of a ResNet-50 step of part (f); None: one is missing."""
    turns: dict[str, Any] = {}
    for outcome in outcomes:
        turns |= outcome.turns
    algebra, steps = turns.get("algebra, aten, P in float32"), turns.get("large", {}).get("dimred")
    if not algebra or not steps:
        return None
    both = statistics.median([a + b for a, b in zip(algebra["project"], algebra["line"], strict=True)])
    return vars(
        Figure("large", "both reads of P, of a step of stage 1", [100 * both / step for step in steps], "%", at_most=2)
    )


def described(device: str) -> dict[str, Any]:
    """What the results depend on."""
    report = {
        "device": device,
        "card": "",
        "processor": processor(),
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": sys.version.split()[0],
        "dimred": run("dimred", "--version").output.strip(),
    }
    if device != "cpu":
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        try:
            done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
            report["card"] = done.stdout.strip()
        except (OSError, subprocess.TimeoutExpired) as error:
            report["card"] = f"unknown: {error}"
    return report


def write(report: dict[str, Any], path: Path) -> None:
    """The file: whole, or the one before."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(report, indent=1) + "\n")
    part.replace(path)


def check(options: argparse.Namespace, scratch: Path) -> list[Outcome]:
    """Runs the parts that were asked for, and writes what each has shown when it ends."""
    start = time.monotonic()
    report = described(options.device) | {"minutes": options.minutes}
    outcomes: list[Outcome] = []
    parts = [part for part in PARTS if part.letter in options.parts]
    for i, part in enumerate(parts):
        left = 60 * options.minutes - (time.monotonic() - start)
        limit = max(1.0, min(part.most, left * part.weight / sum(each.weight for each in parts[i:])))
        print(f"({part.letter}) {part.title} ... ", end="", file=sys.stderr, flush=True)
        outcomes.append(run_part(part, options.device, limit, options.output, scratch))
        said = outcomes[-1]
        print(f"{said.result}{': ' * bool(said.why)}{said.why}, {said.seconds:.1f} s", file=sys.stderr, flush=True)
        share = share_of_a_step(outcomes)
        seconds = time.monotonic() - start
        write(
            report | {"seconds": seconds, "parts": list(map(vars, outcomes)), "algebra_of_a_step": share},
            options.output / "gpu_check.json",
        )
    return outcomes


def tables(outcomes: Sequence[Outcome], judged: bool) -> str:
    """All results, for a terminal."""
    parts = [[f"({o.part})", o.title, o.result, f"{o.seconds:.1f}", o.why[:100]] for o in outcomes]
    text = text_table(["part", "what", "result", "seconds", "why"], parts)
    found = [Figure(**{k: v for k, v in figure.items() if k != "reached"}) for o in outcomes for figure in o.figures]
    share = share_of_a_step(outcomes)
    rows = [figure.row(judged) for figure in [*found, *([Figure(**share)] if share else [])]]
    if rows:
        text += "\n\n" + text_table(["part", "figure", "median (lowest to highest)", "bar", "reached"], rows)
    return "\n".join([text, "", *(describe(one) for o in outcomes for one in o.choices)]).rstrip()


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    letters = [part.letter for part in PARTS]
    shown = "default: %(default)s"
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help=f"cuda, cuda:N or cpu; {shown}")
    parser.add_argument("--minutes", type=float, default=9, help=f"in all; {shown}")
    titles = ", ".join(f"{part.letter}: {part.title}" for part in PARTS)
    parser.add_argument(
        "--parts", nargs="+", choices=letters, default=letters, metavar="LETTER", help=f"only these of {titles}"
    )
    parser.add_argument("--output", type=Path, default=Path("runs/gpu_check"), help=f"folder of the results; {shown}")
    parser.add_argument(
        "--scratch", type=Path, help="folder for up to 5 GB that are removed at the end; default: OUTPUT"
    )
    options = parser.parse_args(arguments)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", options.device):
        parser.error(f"--device needs cuda, cuda:N or cpu, received {options.device}")
    if not 0 < options.minutes < math.inf:
        parser.error(f"--minutes needs a number above 0, received {options.minutes}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Its exit code."""
    options = parse(arguments)
    reason = "" if options.device == "cpu" else why_no_device(options.device)
    if reason:
        print(f"gpu_check: needs the device {options.device}, received none: {reason}", file=sys.stderr)
        return 1
    try:
        options.output = options.output.resolve()
        options.output.mkdir(parents=True, exist_ok=True)
        for name in {part.log for part in PARTS} | {"sanitizer.log"}:
            (options.output / name).unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix="gpu_check_", dir=options.scratch or options.output) as scratch:
            outcomes = check(options, Path(scratch).resolve())
    except (Failed, OSError) as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("gpu_check: interrupted", file=sys.stderr)
        return 130
    print(tables(outcomes, options.device != "cpu"))
    print(f"\n{options.output / 'gpu_check.json'}")
    return 1 if any(outcome.result in ("failed", "timed out") for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
