#!/usr/bin/env bash
# A league of fault survival: one small training with dimred, PyTorch DCP, Lightning, Hugging Face's Trainer, Accelerate and MindSpore meets
# kills, damaged saves, a full disk and the like; the table goes to runs/league.txt, each trial to
# runs/league.json; what is there and is not measured again stays. Needs a finished build and scripts/setup.sh --tests; the
# peers that are not installed are named so, the full disk needs root. About 15 minutes on 2 cores.
#   scripts/league.sh [--trials 3] [--seed 1] [--contestants dimred dcp lightning trainer accelerate mindspore]
#                     [--faults kill save sigterm flip truncate disk mutate two] [--mindspore PYTHON] [--output FILE]
#   --mindspore   default: .venv-mindspore/bin/python, which scripts/mindspore.sh makes
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p runs
exec "${DIMRED_PYTHON:-.venv/bin/python}" experiments/benchmarks/league.py --build "${DIMRED_BUILD:-build}" --output runs/league.txt --json runs/league.json "$@"
