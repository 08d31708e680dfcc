"""scripts/setup.sh says what a machine lacks before it installs anything of size."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from cli import completed
from conftest import REPOSITORY


@pytest.fixture
def machine(tmp_path: Path):
    """A machine on which programs say these lines, and every package is installed unless dpkg-query says otherwise."""

    def run(**programs: str) -> subprocess.CompletedProcess:
        for name, line in {"dpkg-query": "install ok installed", "id -u": "0", **programs}.items():
            file = tmp_path / name.replace("_", "-").split()[0]
            file.write_text(f"#!/bin/sh\n{line if line.startswith(('exit', 'case')) else f'echo {line}'}\n")
            file.chmod(0o755)
        return completed(
            [REPOSITORY / "scripts" / "setup.sh", "--no-build"],
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        )

    return run


@pytest.mark.parametrize(("cmake", "libcurl"), [("3.22.1", "8.5.0"), ("3.28.3", "7.81.0")])
def test_what_is_too_old_is_named_with_what_is_needed(cmake: str, libcurl: str, machine) -> None:
    done = machine(cmake=f"cmake version {cmake}", pkg_config=libcurl)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"setup: needs CMake >= 3.25 and libcurl >= 7.85, received CMake {cmake} and libcurl {libcurl}; "
        "Debian 12 and Ubuntu 24.04 have both"
    ]
    assert "Python packages" not in done.stdout


def test_a_package_that_is_not_offered_is_named(machine) -> None:
    done = machine(
        dpkg_query="exit 1",
        apt_get="exit 0",
        apt_cache="case $2 in libgloo-dev) echo 'Candidate: (none)';; *) echo 'Candidate: 1';; esac",
    )
    assert done.returncode == 1
    assert (
        "apt finds no package libgloo-dev: apt-get update failed (see above), or this distribution does not"
        in done.stderr
    )
    assert "Python packages" not in done.stdout


def test_the_versions_are_those_that_the_build_asks_for() -> None:
    text = (REPOSITORY / "scripts" / "setup.sh").read_text()
    assert "least_cmake=3.25 least_libcurl=7.85" in text
    assert "cmake_minimum_required(VERSION 3.25)" in (REPOSITORY / "CMakeLists.txt").read_text()
    assert "find_package(CURL 7.85 REQUIRED)" in (REPOSITORY / "lib" / "stores" / "CMakeLists.txt").read_text()


def test_a_warning_ends_only_a_build_that_asks_for_it(binaries: Path) -> None:
    cached = (binaries.parent / "CMakeCache.txt").read_text()
    asked = re.search(r"^DIMRED_WERROR:\w+=(\w+)$", cached, re.MULTILINE)
    entries = json.loads((binaries.parent / "compile_commands.json").read_text())
    ours = [entry["command"] for entry in entries if " -Wextra " in entry["command"]]
    assert asked
    assert ours
    assert {" -Werror " in command for command in ours} == {asked[1] == "ON"}
    assert re.search(r"^option\(DIMRED_WERROR .* OFF\)$", (REPOSITORY / "CMakeLists.txt").read_text(), re.MULTILINE)
    assert "export DIMRED_WERROR=ON\n" in (REPOSITORY / ".ci" / "run").read_text()
