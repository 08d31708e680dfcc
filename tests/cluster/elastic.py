"""torchrun on two hosts of which one dies, and another takes its place."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cli import cli

from .hosts import Hosts, Process, wait_until
from .jobs import BATCH, Job, digest, mpirun, torchrun_on
from .stops import epochs_done
from .table import Table

STAGE_1 = cli(
    *BATCH,
    "--heartbeat_timeout=3 --train_samples=3000 --test_samples=100 --snapshots_per_epoch=1",
    "--learning_rate=0.02 --epochs=24",
)
LAST_CALL = 5  # seconds that a start waits for more than its least number of hosts


def agent(place: Hosts, job: Job, host: str, nodes: str, **variables: object) -> Process:
    return torchrun_on(place, job, host, nodes, 1, LAST_CALL=LAST_CALL, **variables)


def after(job: Job, epochs: int, agents: Sequence[Process]) -> None:
    """Waits until the curve has this number of epochs."""

    def there() -> bool:
        if all(process.poll() is not None for process in agents):
            raise RuntimeError("ended early")
        return epochs_done(job.runs / "one") >= epochs

    wait_until(there, f"{epochs} epochs")


def die(place: Hosts, host: str) -> None:
    """Agent and ranks, all at once; a node's daemon is no part of the job."""
    place.kill(host, but=lambda words: "slurm" in words)


def starts(job: Job) -> int:
    return len(re.findall("^continuing at", job.text(), re.MULTILINE))


def seconds_to_go_on(job: Job, before: int) -> float:
    return wait_until(lambda: starts(job) > before, "going on")


def end_of_stage_1(job: Job, agents: Sequence[Process]) -> None:
    """The other steps are of no interest here."""
    wait_until(lambda: "dimred stage1 ended with" in job.text(), "the end of stage 1")


def replaced(place: Hosts, job: Job, agents: list[Process]) -> str:
    """Two hosts are needed: the first one waits for the third."""
    agents += [agent(place, job, host, "2") for host in ("n1", "n2")]
    after(job, 2, agents)
    die(place, "n2")
    agents.append(agent(place, job, "n3", "2"))
    seconds = seconds_to_go_on(job, 0)
    end_of_stage_1(job, agents)
    return f"goes on after {seconds:.0f} s"


def fewer_then_more(place: Hosts, job: Job, agents: list[Process]) -> str:
    """One host is enough: it goes on alone, and with the third when that has come."""
    agents += [agent(place, job, host, "1:2") for host in ("n1", "n2")]
    after(job, 2, agents)
    die(place, "n2")
    alone = seconds_to_go_on(job, 0)
    after(job, epochs_done(job.runs / "one") + 1, agents)
    agents.append(agent(place, job, "n3", "1:2"))
    seconds = seconds_to_go_on(job, 1)
    end_of_stage_1(job, agents)
    return f"goes on alone after {alone:.0f} s, with another {seconds:.0f} s after its start"


SCENES: dict[str, tuple[Callable[[Hosts, Job, list[Process]], str], bool]] = {
    "a host dies, one takes its place": (replaced, True),
    "a host dies, 1 rank, one more comes": (fewer_then_more, False),
}


def elastic(place: Hosts, build: Path, root: Path, only: str, table: Table) -> None:
    """Where the number of ranks is the same again, so are the bits."""
    expected = ""
    for name, (scene, same) in SCENES.items():
        if only not in f"torchrun {name}":
            continue
        job = Job(build, root / f"elastic_{len(name)}", STAGE_1)
        job.folder.mkdir()
        agents: list[Process] = []
        since = time.monotonic()
        wrong, said = "", ""
        try:
            said = scene(place, job, agents)
            if "dimred stage1 ended with 0" not in job.text() or epochs_done(job.runs / "one") != 24:
                wrong = f"stage 1 did not end well, after {epochs_done(job.runs / 'one')} epochs"
            elif same:
                expected = expected or undisturbed(place, build, root)
                wrong = "" if digest(job.runs / "one") == expected else "other bits than those of an uninterrupted run"
        except RuntimeError as error:
            wrong = str(error)
        finally:
            for process in agents:
                process.kill()
                process.wait()
            for host in ("n1", "n2", "n3"):
                die(place, host)
        table.add(
            "torchrun",
            "2" if same else "2,1,2",
            name,
            "FAILED" if wrong else "passed",
            time.monotonic() - since,
            wrong or said,
        )


def undisturbed(place: Hosts, build: Path, root: Path) -> str:
    job = Job(build, root / "elastic_undisturbed", STAGE_1)
    job.folder.mkdir()
    mpirun(place, job, 2)
    return digest(job.runs / "one")
