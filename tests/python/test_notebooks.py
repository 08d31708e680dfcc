"""Every notebook runs from top to bottom on a small comparison, and is kept without its outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from conftest import REPOSITORY
from nbclient import NotebookClient

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


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebook_runs(file: Path, small_comparison: Path, monkeypatch) -> None:
    monkeypatch.setenv("DIMRED_RUNS", str(small_comparison))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    notebook = nbformat.read(file, as_version=4)
    NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(file.parent)}}
    ).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    warnings = [output.text for output in outputs if output.get("name") == "stderr"]
    assert not warnings
    figures = [output for output in outputs if "image/svg+xml" in output.get("data", {})]
    assert 3 <= len(figures) <= 6
