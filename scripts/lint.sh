#!/usr/bin/env bash
# clang-format and clang-tidy over our code; needs clang-format, clang-tidy (14) and a finished build.
#   scripts/lint.sh [FILE...]      default: every tracked C++ file; about 30 minutes on 2 cores
set -euo pipefail
cd "$(dirname "$0")/.."
files=("$@")
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(git ls-files '*.cpp' '*.h')
clang-format --dry-run -Werror "${files[@]}"

# clang cannot read g++'s precompiled header, which the files can do without, nor find its omp.h, and
# does not know g++'s parameters.
mkdir -p build/lint
sed -E 's#-Winvalid-pch -include [^ ]*cmake_pch.hxx##; s# -fopenmp##; s# --param=[^ ]*##g' build/compile_commands.json >build/lint/compile_commands.json
sources=()
for file in "${files[@]}"; do
  case $file in *.cpp) sources+=("$file") ;; esac
done
printf '%s\n' "${sources[@]}" | xargs -P "${DIMRED_JOBS:-$(nproc)}" -n 1 \
  clang-tidy -p build/lint --quiet --extra-arg=-Wno-unknown-warning-option
