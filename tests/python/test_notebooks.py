"""Every notebook runs from top to bottom on a small comparison, in a copy of its folder; it is kept without outputs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from cli import completed
from conftest import REPOSITORY
from nbclient import NotebookClient
from workbench.palette import palettes

NOTEBOOKS = sorted((REPOSITORY / "experiments" / "notebooks").glob("*.ipynb"))
EXPECTED = {
    "two_stage_curves",
    "spectrum_and_null",
    "trajectory_and_landscape",
    "line_search_telemetry",
    "compare_methods",
}


def test_all_are_there_without_outputs() -> None:
    assert {file.stem for file in NOTEBOOKS} == EXPECTED
    for file in NOTEBOOKS:
        cells = nbformat.read(file, as_version=4).cells
        assert all(cell.outputs == [] and cell.execution_count is None for cell in cells if cell.cell_type == "code"), (
            file
        )
        words = sum(len(cell.source.split()) for cell in cells if cell.cell_type == "markdown")
        assert words > 100, f"{file} explains too little"
        assert "**Needs** " in cells[0].source and "scripts/" in cells[0].source, file


def test_what_opens_them_has_the_versions_of_the_tests() -> None:
    """And says in one line where there are no runs."""
    pins = {
        name: set(re.findall(r"^[\w-]+==[\w.]+", (REPOSITORY / "requirements" / f"{name}.txt").read_text(), re.M))
        for name in ("notebooks", "base", "test")
    }
    assert pins["notebooks"] and pins["notebooks"] <= pins["base"] | pins["test"]
    opened = completed([REPOSITORY / "scripts" / "notebooks.sh", "nowhere"])
    assert opened.returncode == 2 and len(opened.stderr.splitlines()) == 1
    assert "needs a folder of runs, received nowhere; scripts/demo.sh makes runs/demo" in opened.stderr


# What a reader asks for who has no comparison, and the colours of the report.
LAST = "import os, figures\nprint(figures.COLOUR)\nos.environ['DIMRED_RUNS'] = '/'\nfigures.table('results.csv')"


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebook_runs(file: Path, small_comparison: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("DIMRED_RUNS", str(small_comparison))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    folder = shutil.copytree(file.parent, tmp_path / "copy", ignore=shutil.ignore_patterns("*.ipynb", "__pycache__"))
    notebook = nbformat.read(file, as_version=4)
    last = nbformat.v4.new_code_cell(LAST, metadata={"tags": ["raises-exception"]})
    notebook.cells.append(last)
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    printed, error = last.outputs
    light = palettes()["light"]
    colours = dict(re.findall(r"'(\w+)': '(#\w+)'", printed.text))
    assert len(colours) == 10 and all(light[name] == colour for name, colour in colours.items())
    (line,) = error.traceback
    assert line.startswith("/ is no comparison, because results.csv is missing: scripts/compare.sh ")
    outputs = [output for cell in notebook.cells[:-1] if cell.cell_type == "code" for output in cell.outputs]
    warnings = [output.text for output in outputs if output.get("name") == "stderr"]
    assert not [text for text in warnings if "can be slow" not in text]  # matplotlib's, on a busy machine
    plain = [output.get("data", {}) for output in outputs if set(output.get("data", {})) == {"text/plain"}]
    assert not [data for data in plain if " at 0x" in data["text/plain"]]  # an object's address
    figures = [output for output in outputs if "image/svg+xml" in output.get("data", {})]
    assert 3 <= len(figures) <= 6
