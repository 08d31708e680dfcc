#!/usr/bin/env bash
# Measures dimred beside the named peers, and writes the ratios as tables and JSON to runs/benchmark:
#   PCA (n = 60, M = 2,560,000) against scikit-learn full and default and scipy.linalg.svd,
#   one stage-1 epoch against PyTorch loops in Python, stage 2's algebra against a copy of the same bytes,
#   a step of ResNet-20 and ResNet-50 in bfloat16 against float32,
#   TFRecord and packed files read from the page cache against a copy of the same bytes,
#   stage 2's step over 2, 4 and 8 ranks against the wire of MindSpore's scheme.
#   the image pipeline, if DIMRED_PHOTOS (images of any size) and DIMRED_SMALL_IMAGES (images of one size) name folders of class folders.
# It takes about 30 minutes on 2 cores, and 2 GB of disk. No other work may run on the machine.
#   scripts/benchmark.sh [--large]     --large: PCA with M = 25,600,000 (10 GB of disk; the peers need tens of GB of memory)
#   scripts/benchmark.sh --peer mindspore [OPTIONS]   measures MindSpore's PCA, epoch, stage-2 step and recipe beside dimred's instead
#                                      (installs MindSpore by scripts/mindspore.sh; OPTIONS of experiments/benchmarks/mindspore_peer.py; about 15 minutes)
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --peer ] && [ "${2:-}" != mindspore ]; then
  echo "benchmark: --peer takes mindspore, received ${2:-nothing}" >&2
  exit 2
fi
if [ "${1:-}" != --peer ] && [[ $* != '' && $* != --large ]]; then
  echo "benchmark: takes --large or --peer mindspore, received $*" >&2
  exit 2
fi
scripts/setup.sh --benchmarks
out=runs/benchmark
mkdir -p "$out/scratch"
python=.venv/bin/python
if [ "${1:-}" = --peer ]; then
  scripts/mindspore.sh
  exec $python experiments/benchmarks/mindspore_peer.py --scratch "$out/scratch" --json "$out/mindspore.json" "${@:3}"
fi
$python experiments/benchmarks/algebra_ratio.py build/bin/device_algebra --json "$out/algebra.json"
$python experiments/benchmarks/pca_peers.py --scratch "$out/scratch" --json "$out/pca.json" "$@"
$python experiments/benchmarks/epoch_peers.py --output "$out/epoch.json"
$python experiments/benchmarks/precision_step.py --json "$out/precision.json"
$python experiments/benchmarks/wire_schemes.py build/bin/stage2_wire --json "$out/wire.json"
$python experiments/benchmarks/read_rates.py build/bin/read_rate --scratch "$out/scratch" --json "$out/read.json"
images=()
[ -z "${DIMRED_PHOTOS:-}" ] || images+=(--photos "$DIMRED_PHOTOS")
[ -z "${DIMRED_SMALL_IMAGES:-}" ] || images+=(--folder "$DIMRED_SMALL_IMAGES")
[ ${#images[@]} -eq 0 ] || $python experiments/benchmarks/image_peers.py build/bin/image_rate "${images[@]}" --json "$out/images.json"
