#!/usr/bin/env bash
# Fuzzes every parser of lib/data/, weight files, JSON, options, listings and snapshots with clang's libFuzzer, under the address and
# undefined-behaviour sanitizers. Each target has RUNS executions. No execution may allocate more memory at once than tests/fuzz/fuzz.h
# allows, and no process more than 600 MB, the sanitizers' own share included. The script needs apt's clang (14 or newer, with its
# compiler-rt). New inputs are kept in runs/fuzz/NAME/corpus, and crashes in runs/fuzz/NAME. A table is printed at the end.
#   DIMRED_FUZZ_SANITIZERS=undefined    switches the address sanitizer off, for several times as many executions
#   scripts/fuzz.sh [RUNS] [TARGET...]     default: 1000000 executions of all targets
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-1000000}
shift || true
command -v clang++ >/dev/null || { echo "fuzz: needs clang++ with libFuzzer: apt-get install clang" >&2; exit 1; }
sanitizers=${DIMRED_FUZZ_SANITIZERS:-address,undefined}
build=build-fuzz coverage=fuzzer-no-link
[ "$sanitizers" = address,undefined ] || { build=build-fuzz-$sanitizers coverage=light; }
cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Debug \
  -DBUILD_TESTING=ON -DDIMRED_TRAINERS=OFF -DDIMRED_FUZZ=ON -DDIMRED_FUZZ_SANITIZERS="$sanitizers" -DDIMRED_FUZZ_COVERAGE=$coverage -DCMAKE_UNITY_BUILD=OFF >/dev/null
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(idx cifar npy tfrecord tf_example base64_part record_index packed jpeg png label_list weights_file shards_index json config listing hdf5_attributes)
ninja --quiet -C "$build" -j "${DIMRED_JOBS:-$(nproc)}" "${targets[@]/#/fuzz_}"
root=$PWD failed=0
profile=$((runs <= 1000000))  # of compared values: it finds magic numbers, and halves the speed
# Longest inputs: several times the seeds, which are what a format needs at least (packed: three pages).
declare -A longest=([json]=512 [config]=512 [listing]=512 [hdf5_attributes]=48 [cifar]=8192 [packed]=65536 [label_list]=512 [base64_part]=2048 [jpeg]=8192 [png]=8192)
for target in "${targets[@]}"; do
  folder=runs/fuzz/$target
  mkdir -p "$folder/corpus"
  program=$root/$build/bin/fuzz_$target
  (cd "$folder" && DIMRED_SEEDS=corpus "$program" -runs=0 corpus >/dev/null 2>&1 || true
    "$program" -runs="$runs" -max_len="${longest[$target]:-4096}" -rss_limit_mb=600 -malloc_limit_mb=80 -timeout=10 -print_final_stats=1 \
      -use_value_profile=$profile corpus >log 2>&1) || { failed=1; echo "$target: FAILED, see $folder/log"; }
  awk -v name="$target" '/^stat::number_of_executed_units/ {units = $2} /^stat::average_exec_per_sec/ {rate = $2}
    /^stat::peak_rss_mb/ {rss = $2} END {printf "%-14s %10d executions %8d /s %6d MB\n", name, units, rate, rss}' "$folder/log"
done
exit $failed
