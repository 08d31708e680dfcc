"""The job files of scripts/cluster/, started as a user starts them, and what a finished one leaves."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cli import cli
from fashion import few

from .hosts import PATIENCE, Hosts, Process, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = REPOSITORY / "scripts" / "cluster"
STEPS = ("stage1", "pca", "stage2", "evaluate")
BATCH = ("--global_batch_size=60", "--threads=1")
STAGE_1 = tuple(
    cli(*BATCH, "--train_samples=600 --test_samples=100 --snapshots_per_epoch=8 --learning_rate=0.02 --epochs=1")
)
STAGE_2 = (*BATCH, "--n_component=5", "--epochs=1")
ENDED = re.compile(r"^dimred (\w+) ended with (\d+) after (\d+) s$", re.MULTILINE)


@dataclass(frozen=True)
class Job:
    """Where a job works, and its options."""

    build: Path
    folder: Path
    stage_1: Sequence[str] = STAGE_1
    stage_2: Sequence[str] = STAGE_2

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    def variables(self) -> dict[str, object]:
        """What the job files read."""
        return {
            "DIMRED": self.build / "bin" / "dimred",
            "DATA": few(),
            "RUNS": self.runs,
            "STAGE_1": " ".join(self.stage_1),
            "STAGE_2": " ".join(self.stage_2),
            "TORCHRUN": Path(sys.executable).with_name("torchrun"),
        }

    def logs(self) -> list[str]:
        """What it has said, by host."""
        return [file.read_text() for file in sorted(self.folder.glob("log*.txt"))]

    def text(self) -> str:
        """All that it has said."""
        return "\n".join(self.logs())


@dataclass
class Outcome:
    """How a job ended: its steps' codes and seconds, and the digest of its last weights."""

    codes: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, int] = field(default_factory=dict)
    digest: str = ""
    problem: str = ""


def state_of(run: Path) -> Path:
    """The newest state's weights."""
    return max((run / "checkpoints").iterdir()) / "weights.f32"


def digest(run: Path) -> str:
    return hashlib.sha256(state_of(run).read_bytes()).hexdigest()


def outcome(job: Job, ranks: int) -> Outcome:
    """Judged by what lies there, not by the launcher's own code."""
    found = Outcome()
    for log in job.logs():  # of each host; the last start's code counts
        last = {step: int(code) for step, code, _ in ENDED.findall(log)}
        found.codes |= {step: max(code, found.codes.get(step, 0)) for step, code in last.items()}
        for step, _, seconds in ENDED.findall(log):
            found.seconds[step] = max(int(seconds), found.seconds.get(step, 0))
    missing = [step for step in STEPS if found.codes.get(step) != 0]
    if missing:
        lines = [line for line in job.text().splitlines() if "error" in line] or job.text().splitlines()[-1:]
        found.problem = f"{missing[0]} did not end well: {(lines or ['it said nothing'])[-1]}"
        return found
    for stage in ("one", "two"):
        manifest = json.loads((job.runs / stage / "manifest.json").read_text())
        if manifest["outcome"] != "finished" or manifest["ranks"] != ranks:
            found.problem = f"{stage} is {manifest['outcome']} on {manifest['ranks']} ranks"
    if job.text().count("accuracy") == 0:
        found.problem = "evaluate printed no accuracy"
    found.digest = digest(job.runs / "two")
    return found


def finish(processes: Sequence[Process], patience: float = PATIENCE) -> None:
    """Waits for all; none is left behind."""
    try:
        wait_until(lambda: all(process.poll() is not None for process in processes), "the job", patience)
    finally:
        for process in processes:
            process.kill()
            process.wait()


# Launchers: each runs a job on a number of ranks.


def torchrun(place: Hosts, job: Job, ranks: int) -> None:
    finish(
        [torchrun_on(place, job, host, nodes=min(2, ranks), each=max(1, ranks // 2)) for host in ("n1", "n2")[:ranks]]
    )


def torchrun_on(place: Hosts, job: Job, host: str, nodes: object, each: int, **variables: object) -> Process:
    """One machine's part, whose agent meets the others at n1."""
    own = {**job.variables(), "NODES": nodes, "RANKS_PER_NODE": each, "FIRST": "n1", **variables}
    return place.start(host, [FILES / "torchrun.sh"], job.folder / f"log_{host}.txt", **own)


def mpirun(place: Hosts, job: Job, ranks: int) -> None:
    finish([place.start("n1", [FILES / "mpirun.sh"], job.log, **job.variables(), HOSTS=f"localhost:{ranks}")])


def slurm(place: Hosts, job: Job, ranks: int) -> None:
    number = submit(place, job, ranks)
    wait_until(lambda: gone(place, number), "the job")


def submit(place: Hosts, job: Job, ranks: int, *options: object) -> str:
    """The job's number."""
    nodes = min(2, ranks)
    words = cli("sbatch --parsable", f"--ntasks-per-node={ranks // nodes}", *options, nodes=nodes, output=job.log)
    return place.ask(*words, FILES / "slurm.sbatch", host="head", **job.variables()).strip()


def gone(place: Hosts, number: str) -> bool:
    """No longer in the queue."""
    return number not in place.ask("squeue", "--noheader", "--format=%i").split()


Launcher = Callable[[Hosts, Job, int], None]
LAUNCHERS: dict[str, Launcher] = {"torchrun": torchrun, "mpirun": mpirun, "slurm": slurm}


def reason_to_skip(launcher: str, place: Hosts) -> str:
    """Why this launcher cannot run here; empty where it can."""
    if launcher == "mpirun" and shutil.which("mpirun") is None:
        return "no mpirun; scripts/cluster_test.sh --install"
    if launcher == "slurm" and not place.slurm:
        return "no Slurm; scripts/cluster_test.sh --install"
    return ""
