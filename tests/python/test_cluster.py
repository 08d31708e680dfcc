"""The job files of scripts/cluster/, as far as they can be tested without a cluster; scripts/cluster_test.sh runs them
under real launchers."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli import completed
from conftest import REPOSITORY
from fashion import few
from ranks import ended, free_port, running

FILES = REPOSITORY / "scripts" / "cluster"
SMALL = "--train_samples=200 --test_samples=50 --global_batch_size=50 --threads=1 --epochs=1"


@pytest.fixture(scope="module")
def manifests() -> dict[str, dict[str, Any]]:
    """The manifests of the Kubernetes job, by kind."""
    return {one["kind"]: one for one in yaml.safe_load_all((FILES / "kubernetes.yaml").read_text())}


def container(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return manifests["Job"]["spec"]["template"]["spec"]["containers"][0]


def variables(manifests: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container(manifests)["env"]}


def test_the_kubernetes_job_agrees_with_itself(manifests: dict[str, dict[str, Any]]) -> None:
    job, service, own = manifests["Job"], manifests["Service"], variables(manifests)
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed"
    assert str(spec["completions"]) == str(spec["parallelism"]) == own["WORLD_SIZE"]
    assert spec["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert own["MASTER_ADDR"] == f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert str(service["spec"]["ports"][0]["port"]) == own["MASTER_PORT"]
    assert service["spec"]["selector"].items() <= spec["template"]["metadata"]["labels"].items()


def test_kubernetes_knows_every_field() -> None:
    program = REPOSITORY / ".cache" / "cluster" / "bin" / "kubernetes-validate"
    if not program.exists():
        pytest.skip("needs Kubernetes' schemas: scripts/cluster_test.sh --install")
    done = completed([program, "--strict", FILES / "kubernetes.yaml"])
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pods_of_the_kubernetes_job_train(
    manifests: dict[str, dict[str, Any]], tmp_path: Path, binaries: Path
) -> None:
    """Their own script, with the variables that Kubernetes and the file give, on one machine."""
    own = variables(manifests) | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "DATA": str(few()),
        "RUNS": str(tmp_path),
        "STAGE_1": f"{SMALL} --snapshots_per_epoch=4",
        "STAGE_2": SMALL,
    }
    path = f"{binaries}:{os.environ['PATH']}"
    script = container(manifests)
    pods = int(own["WORLD_SIZE"])
    environments = [os.environ | own | {"PATH": path, "JOB_COMPLETION_INDEX": str(index)} for index in range(pods)]
    with running([[*script["command"], *script["args"]]] * pods, environments) as processes:
        done = ended(processes)
    assert done.codes == [0, 0], done.errors
    assert json.loads((tmp_path / "two" / "manifest.json").read_text())["ranks"] == 2
    assert "accuracy" in done.output[0]
    assert (tmp_path / "two" / "final.h5").exists()


@pytest.mark.parametrize("file", ["slurm.sbatch", "mpirun.sh", "torchrun.sh"])
def test_a_job_file_goes_through_all_steps_and_stops_at_the_first_that_fails(file: str, tmp_path: Path) -> None:
    """Under stand-ins of the launchers, whose second command fails."""
    for name in ("srun", "mpirun", "torchrun"):
        (tmp_path / name).write_text(
            '#!/bin/bash\nwhile [ "$1" != dimred ]; do shift; done\necho "$2" >> "$LOG"\n[ "$2" != "${FAIL:-}" ]\n'
        )
        (tmp_path / name).chmod(0o755)
    bash = shutil.which("bash")
    assert bash
    for fail, expected in (("", ["stage1", "pca", "stage2", "evaluate"]), ("pca", ["stage1", "pca"])):
        log = tmp_path / f"log{fail}"
        own = {
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "DIMRED": "dimred",
            "TORCHRUN": "torchrun",
            "RUNS": str(tmp_path / "runs"),
            "LOG": str(log),
        }
        done = completed([bash, FILES / file], env=own | {"FAIL": fail})
        assert done.returncode == (1 if fail else 0), done.stderr
        assert log.read_text().split() == expected
        assert f"dimred {expected[-1]} ended with {1 if fail else 0} after" in done.stdout


def test_the_launchers_that_are_here_run_all_steps(binaries: Path) -> None:
    """torchrun on two hosts, mpirun and Slurm where they are installed; one that cannot start is a line of it."""
    words = [REPOSITORY / "scripts" / "cluster_test.sh", "--short", "--build", binaries.parent]
    done = completed(words, timeout=500)
    lines = [line.split() for line in done.stdout.splitlines()]
    if unable := [" ".join(line) for line in lines if line[:1] == ["all"] and "hosts" in line]:
        pytest.skip(unable[0])
    assert done.returncode == 0, done.stdout
    assert sum(line[:1] == ["torchrun"] and "passed" in line for line in lines) == 8
