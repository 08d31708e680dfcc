#!/usr/bin/env bash
# Tries the commands of a first-time user, wrong commands included. Each command must do what the user meant, or name exactly the command
# that does. The script prints a line for each command, and its exit code is 1 if a command falls short. It needs a finished build and
# takes about three minutes on 2 cores. It uses a folder of images for each class, Fashion-MNIST, and photographs. DATA is a folder of
# photographs with train/ and test/, or a folder with flowers-sample.tar; without DATA the photographs are skipped.
#   DATA=FOLDER scripts/newcomer.sh [FILE]    FILE also receives the whole transcript
set -uo pipefail
record=$(realpath "${1:-/dev/null}") photographs=${DATA:+$(realpath "$DATA")}
cd "$(dirname "$0")/.." || exit
# shellcheck source=scripts/needs_build.sh
. scripts/needs_build.sh
needs_build newcomer "${DIMRED_PYTHON:-.venv/bin/python}" "${DIMRED_BUILD:-build}/bin/dimred-train"
build=$(realpath "${DIMRED_BUILD:-build}") python=$(realpath -s "${DIMRED_PYTHON:-.venv/bin/python}") tests=$PWD/tests
place=$(mktemp -d -t dimred_newcomer.XXXXXX)
trap 'rm -rf "$place"' EXIT
export PATH=$build/bin:$PATH HOME=$place/home DIMRED_BUILD=$build
cd "$place" || exit
: >"$record"

PYTHONPATH=$tests "$python" - <<'PYTHON'
from pathlib import Path

from fashion import few, read
from hostile.site import write_png

names = "top trousers pullover dress coat sandal shirt sneaker bag boot".split()
for part, split, count in (("train", "train", 600), ("t10k", "test", 200)):
    labels = read(few() / f"{part}-labels-idx1-ubyte", 8)
    images = read(few() / f"{part}-images-idx3-ubyte", 16).reshape(-1, 28, 28)
    for number in range(count):
        folder = Path("pictures", split, names[labels[number]])
        folder.mkdir(parents=True, exist_ok=True)
        write_png(folder / f"{number:04}.png", images[number].tobytes(), 28, 28)
PYTHON
if [ -f "$photographs/flowers-sample.tar" ]; then
  tar -xf "$photographs/flowers-sample.tar" -C "$place"
  photographs=$place/flowers-sample
fi

total=0 short=0

# tried COMMAND...: its output is in the file out, its exit code in code.
tried() {
  "$@" </dev/null >out 2>&1
  code=$?
  { printf '\n$ %s\n[%d]\n' "$*" "$code"; cat out; } >>"$record"
}

# verdict WORD COMMAND...: a line for the command.
verdict() {
  local word=$1
  shift
  total=$((total + 1))
  [ "$word" != SHORT ] || short=$((short + 1))
  printf '%-6s $ %.150s\n' "$word" "${*//$place\//}"
  [ "$word" = did ] || tail -n 1 out | cut -c1-300 | sed "s,$place/,,g; s/^/         /"
}

# does COMMAND...
does() {
  tried "$@"
  if [ $code = 0 ]; then verdict did "$@"; else verdict SHORT "$@"; fi
}

# shows PATTERN COMMAND...: something to read, whatever the exit code.
shows() {
  local pattern=$1
  shift
  tried "$@"
  if grep -qE -e "$pattern" out; then verdict did "$@"; else verdict SHORT "$@"; fi
}

# learns PERCENT COMMAND...: trains to this accuracy on the test set.
learns() {
  local least=$1
  shift
  tried "$@"
  if [ $code = 0 ] && awk -v least="$least" '
      match($0, /test [0-9.]+ \/ +[0-9.]+/) { split(substr($0, RSTART, RLENGTH), part, "/"); reached = part[2] }
      END { exit !(reached >= least) }' out; then verdict did "$@"; else verdict SHORT "$@"; fi
}

# names PATTERN COMMAND...: does it, or refuses it in one line that holds the pattern.
names() {
  local pattern=$1
  shift
  tried "$@"
  if [ $code = 0 ]; then
    verdict did "$@"
  elif [ "$(grep -c 'error: ' out)" = 1 ] && grep 'error: ' out | grep -qE -e "$pattern"; then
    verdict named "$@"
  else
    verdict SHORT "$@"
  fi
}

printf '\n== The first words\n'
shows 'dimred stage1 --' dimred
shows 'stage1 +train' dimred help
shows 'stage1 +train' dimred --help
does dimred --version
shows '--epochs' dimred stage1 --help
shows '--momentum' dimred stage1 --help all
names 'stage1' dimred train
names 'stage1' dimred fit
names 'evaluate' dimred eval
names 'evaluate' dimred test
names '--output' dimred stage1
names '--output' dimred stage1 pictures
does dimred stage1 pictures --output runs/named --epochs 1

printf '\n== A folder of images for each class\n'
names '--learning_rate' dimred stage1 --data pictures --output runs/a --lr 0.1
names '--learning_rate' dimred stage1 --data pictures --output runs/b --learning-rate 0.1 --epochs 1
names '--batch_size' dimred stage1 --data pictures --output runs/a --batch 32
names '--batch_size' dimred stage1 --data pictures --output runs/a --bs 32
names '--epochs' dimred stage1 --data pictures --output runs/a --max_epochs 1
names '--weight_decay' dimred stage1 --data pictures --output runs/a --wd 1e-4
names '--optimizer' dimred stage1 --data pictures --output runs/a --opt adam
names '--num_preprocessing_threads' dimred stage1 --data pictures --output runs/a --num_workers 2
names '--optimizer' dimred stage1 --data pictures --output runs/a --optimiser adam
names '(nearest: |mean |--optimizer )adam' dimred stage1 --data pictures --output runs/a --optimizer Adam
names 'momentum|sgd' dimred stage1 --data pictures --output runs/a --optimizer SGD
names 'resnet20' dimred stage1 --data pictures --output runs/a --model resnet
names '(nearest: |mean |--model )resnet18' dimred stage1 --data pictures --output runs/a --model ResNet18
names '--device' dimred stage1 --data pictures --output runs/a --gpu
names 'cuda' dimred stage1 --data pictures --output runs/a --device gpu
names '--precision' dimred stage1 --data pictures --output runs/a --amp
names '--epochs' dimred stage1 --data pictures --output runs/a --epochs two
names 'does not exist' dimred stage1 --data nowhere --output runs/a
names 'another --output' dimred stage1 --data pictures --output pictures
names 'pictures/train|class' dimred stage1 --data pictures/train/bag --output runs/a
learns 30 dimred stage1 --data pictures --output runs/one --epochs 2 --snapshots_per_epoch 3
shows 'finished already' dimred stage1 --data pictures --output runs/one --epochs 2 --snapshots_per_epoch 3
learns 30 dimred stage1 --data pictures --output runs/small --batch_size 16 --epochs 2
shows '[0-9]+ threads share' dimred stage1 --data pictures --output runs/many --threads $(($(nproc) + 1))
names '--total_epochs|another --output' dimred stage1 --data pictures --output runs/one --epochs 3 --snapshots_per_epoch 3
names 'another --output' dimred stage1 --data pictures --output runs/one --epochs 2 --snapshots_per_epoch 5
learns 40 dimred stage1 --data pictures --output runs/adam --optimizer adam --learning_rate 0.001 --epochs 5
learns 20 dimred stage1 --data pictures --output runs/adam_plain --optimizer adam --epochs 5
shows 'finished' dimred inspect runs/one
names 'runs/nothing' dimred inspect runs/nothing

printf '\n== The matrix and stage 2\n'
names 'dimred pca RUN|--snapshots' dimred pca
does dimred pca runs/one
does dimred pca runs/one/snapshots --output q.npy
does dimred pca runs/one/snapshots --components 3 --output p.npy
names '--overwrite|another --output' dimred pca runs/one/snapshots --components 3 --output p.npy
names '--components [0-9]|at most [0-9]' dimred pca runs/one/snapshots --components 32 --output r.npy
names '--components [0-9]|--n_component|snapshots_per_epoch' dimred pca runs/b/snapshots --output r.npy
names '--checkpoint' dimred stage2
names '--output' dimred stage2 runs/one
names '--output' dimred stage2 --checkpoint runs/one --epochs 1
does dimred stage2 --checkpoint runs/one --output runs/two --epochs 1
names 'a run of stage1' dimred stage2 --checkpoint runs/one --output runs/one --epochs 1
does dimred stage2 --checkpoint runs/one --pca_mat p.npy --output runs/three --epochs 1
does dimred stage2 --checkpoint runs/one --n_component 3 --output runs/four --epochs 1
names 'does not exist' dimred stage2 --checkpoint runs/one --pca_mat none.npy --output runs/five
names 'runs/nothing' dimred stage2 --checkpoint runs/nothing --output runs/five
names '--n_component [0-9]|at most [0-9]' dimred stage2 --checkpoint runs/one --n_component 40 --output runs/six
names '--pca_mat|p.npy' dimred stage2 --checkpoint runs/one --pca_mat runs/one --output runs/seven

printf '\n== The result\n'
names '--weights|dimred evaluate' dimred evaluate
does dimred evaluate runs/one
does dimred evaluate runs/two
does dimred evaluate runs/two/final.h5
does dimred evaluate runs/one/snapshots
names 'runs/nothing' dimred evaluate runs/nothing
does dimred export runs/two
image=$(find "$place/pictures/test" -name '*.png' | sort | tail -1)
names 'IMAGE' dimred predict runs/two
does dimred predict runs/one "$image"
does dimred predict runs/two/export "$image"
does dimred predict runs/two/export/1 "$image"
does dimred predict runs/one pictures/test/bag/*.png
names 'dimred predict runs/two/export/1 ' dimred predict "$image" runs/two/export/1
names 'none.png' dimred predict runs/one none.png
cp "$image" image.png && mv pictures moved
does dimred predict runs/one image.png
does dimred export runs/one
names 'give the new place with --data PATH' dimred evaluate runs/one
does dimred evaluate runs/one --data moved
mv moved pictures

printf '\n== Fashion-MNIST\n'
learns 50 dimred stage1 --output runs/fashion --epochs 1 --train_samples 4000 --test_samples 500
names '--data|without' dimred stage1 --data default --output runs/d --epochs 1 --train_samples 2000 --test_samples 500
names 'does not exist' dimred stage1 --data fashion-mnist --output runs/e
names 'folder' dimred stage1 --data "$image" --output runs/e
does dimred stage2 --checkpoint runs/fashion --preset sgd --epochs 1 --output runs/fashion_sgd
does dimred evaluate runs/fashion_sgd

if [ -n "$photographs" ]; then
  printf '\n== Photographs\n'
  does dimred stage1 --data "$photographs" --output runs/photographs --epochs 1 --model resnet20 --image_size 32 --snapshots_per_epoch 3
  names '--image_size' dimred stage1 --data "$photographs" --output runs/p --epochs 1
  names 'resnet18|--image_size' dimred stage1 --data "$photographs" --output runs/q --epochs 1 --model resnet18 --train_samples 32 --test_samples 16
  does dimred pca runs/photographs --output photographs.npy
  does dimred stage2 --checkpoint runs/photographs --pca_mat photographs.npy --output runs/photographs2 --epochs 1
  does dimred predict runs/photographs2 "$(find "$photographs/test" -name '*.jpg' | sort | head -1)"
fi

printf '\n%d commands, %d fall short\n' $total $short
[ $short = 0 ]
