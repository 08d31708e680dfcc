"""Tests on a CUDA device: all are skipped, and counted, where torch finds none.

DIMRED_DEVICE=cuda:1 names another device; DIMRED_DEVICE=cpu runs them on a processor with tiny sizes, which checks the
tests themselves.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments" / "benchmarks"))
DEVICE = os.environ.get("DIMRED_DEVICE", "cuda")


@pytest.fixture(scope="session", autouse=True)
def device() -> torch.device:
    """That the tests are of."""
    if DEVICE != "cpu" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device(DEVICE)
