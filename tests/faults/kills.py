"""kill -9 at random instants and inside saves, then the same command again until it finishes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .compare import incomplete, newest_step, progress
from .draws import generator
from .launch import NOTICE_LIMIT, Ended, Fault, Running
from .workplace import Case, Reference, Workplace, resumed_step

KILLS_A_RUN = 4
SHARES = {"stage1": 0.4, "stage2": 0.4, "pca": 0.2}


@dataclass(frozen=True)
class Plan:
    """Whom to kill, and when: so long after the start, or at a system call."""

    ranks: tuple[int, ...]
    seconds: float | None
    fault: Fault | None


def draw_plan(reference: Reference, ranks: int, rng: random.Random) -> Plan:
    """Half of them at any instant, most behind the program's own start; half inside the saves."""
    victims = tuple(range(ranks)) if rng.random() < 0.25 else (rng.randrange(ranks),)
    if rng.random() < 0.5:
        start = rng.choice([0.0, 0.5, 0.5]) * reference.seconds
        return Plan(victims, rng.uniform(start, reference.seconds), None)
    if rng.random() < 0.8:
        victims = (0,)  # which writes the files
    number = rng.randint(1, len(reference.calls))
    return Plan(victims[:1], None, Fault(rng.choice(["exit_before", "exit_after", "tear"]), number))


def disturbed(place: Workplace, name: str, folder: Path, plan: Plan) -> Ended:
    faults = {plan.ranks[0]: plan.fault} if plan.fault else None
    running = Running(place.build, place.command(name, folder), faults)
    if plan.seconds is not None:
        running.sleep(plan.seconds)
        running.kill(plan.ranks)
    return running.wait()


def resume_problem(before: int | None, ended: Ended) -> str:
    """It must go on where the newest state is. What a killed start printed may be lost."""
    resumed = resumed_step(ended)
    lost = ended.killed and resumed is None
    if lost or resumed == before:
        return ""
    return f"resumed at step {resumed}, the newest state is of step {before}"


def after_kill(place: Workplace, name: str, folder: Path, ended: Ended, case: Case) -> str:
    """What is wrong with the folder that the kill left."""
    reference = place.reference(name)
    if ended.hung:
        return "did not end by itself"
    damaged = incomplete(reference.everything, folder)
    if damaged:
        return f"incomplete under its final name: {', '.join(damaged)}"
    case.notice = max(case.notice, ended.notice)
    if ended.notice > NOTICE_LIMIT:
        return f"the other ranks went on for {ended.notice:.1f} s"
    if name == "pca":
        return ""
    repeated = (progress(folder) - (newest_step(folder) or 0)) / reference.interval
    case.repeated = max(case.repeated, repeated)
    return f"{repeated:.2f} save intervals are lost" if repeated > 1 else ""


def killed_run(place: Workplace, name: str, rng: random.Random, kills: int, label: str) -> Case:
    """One run, killed up to `kills` times on its way."""
    case = Case("kills", f"{name} {label}", faults=0)
    folder = place.fresh(name)
    while not case.problem:
        before = newest_step(folder)
        if case.faults == kills:
            case.problem = place.finish(name, folder)
            break
        ended = disturbed(place, name, folder, draw_plan(place.reference(name), place.ranks, rng))
        case.problem = resume_problem(before, ended) if name != "pca" else ""
        if ended.code == 0:
            case.problem = case.problem or place.judge_finished(name, folder, ended)
            break
        if not ended.killed and place.ranks == 1:
            case.problem = f"ended with {ended.code} by itself: {' | '.join(ended.errors)}"
        case.faults += 1
        case.problem = case.problem or after_kill(place, name, folder, ended, case)
    if not case.problem:
        place.remove(folder)
    return case


def slow_disk(place: Workplace, name: str) -> Case:
    """A disk slower than the training: the kill comes when the curve has its last row."""
    case = Case("kills", f"{name} ranks {place.ranks} on a slow disk")
    folder = place.fresh(name)
    fault = Fault("delay:40", 1, 1, "sync")  # a state takes 13 of them, an epoch a tenth of a second
    running = Running(place.build, place.command(name, folder), dict.fromkeys(range(place.ranks), fault))
    last = 3 * place.reference(name).interval
    while progress(folder) < last and running.goes_on():
        time.sleep(0.005)
    running.kill(range(place.ranks))
    case.problem = after_kill(place, name, folder, running.wait(), case)
    case.problem = case.problem or place.finish(name, folder)
    place.remove(folder)
    return case


def cases(place: Workplace, kills: int, seed: int) -> Iterator[Case]:
    """Runs of the three commands until this number of kills has hit."""
    for name in ("stage1", "stage2"):
        yield slow_disk(place, name)
    done, index = 0, 0
    while done < kills:
        rng = generator(seed, "kills", place.ranks, index)
        name = rng.choices(list(SHARES), list(SHARES.values()))[0]
        case = killed_run(place, name, rng, min(KILLS_A_RUN, kills - done), f"ranks {place.ranks} run {index}")
        done, index = done + case.faults, index + 1
        yield case
