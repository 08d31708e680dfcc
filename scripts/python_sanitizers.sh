#!/usr/bin/env bash
# Tests the Python extension and dimred's libraries in it under the address and undefined-behaviour sanitizers, in a build folder of its
# own. The script runs the Python tests that need no trainer and no other allocator, and prints a table. It needs the packages of
# scripts/setup.sh --tests, and GCC's libasan. Leaks are not reported, because the interpreter keeps its memory. Python's own allocator is
# off, so that the sanitizers also guard Python's objects.
#   scripts/python_sanitizers.sh [TEST_FILE...]    default: all tests that use the extension
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
build=$PWD/build-sanitized
reports=$build/reports
[ $# -gt 0 ] || set -- tests/python/test_{package,subspace_optimizer,readouts}.py
flags="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1 -O1"
cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER=g++ -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS="$flags" \
  -DDIMRED_TRAINERS=OFF -DDIMRED_PACKAGE=ON -DDIMRED_PYTHON="$python" >/dev/null
begin=$SECONDS
ninja --quiet -C "$build" -j "${DIMRED_JOBS:-$(nproc)}" _core dimred
echo "built in $((SECONDS - begin)) s"
rm -rf "$reports"
mkdir "$reports"
status=0
for file in "$@"; do
  # The runtime comes first in every process; reports of children whose output a test reads are kept, too.
  LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)" PYTHONMALLOC=malloc DIMRED_BUILD=$build \
    ASAN_OPTIONS=detect_leaks=0:log_path=$reports/asan UBSAN_OPTIONS=print_stacktrace=1:log_path=$reports/ubsan \
    "$python" -m pytest -q -p no:cacheprovider -k "not trainer and not freed_memory" --junit-xml "$reports/$(basename "$file" .py).xml" "$file" || status=1
done
"$python" - "$reports" <<'EOF' || status=1
import sys
from pathlib import Path
from xml.etree import ElementTree

folder = Path(sys.argv[1])
print(f"{'tests of':34} {'run':>4} {'failed':>6} {'skipped':>7} {'seconds':>7}")
for file in sorted(folder.glob("*.xml")):
    suite = ElementTree.parse(file).getroot()[0].attrib
    failed = int(suite["failures"]) + int(suite["errors"])
    print(f"{file.stem:34} {suite['tests']:>4} {failed:>6} {suite['skipped']:>7} {float(suite['time']):>7.0f}")
found = sorted({*folder.glob("asan*"), *folder.glob("ubsan*")})
print(f"reports of the sanitizers: {len(found)}")
for report in found:
    print(f"  {report}: " + next((line for line in report.read_text().splitlines() if "error" in line.lower()), "?"))
sys.exit(bool(found))
EOF
exit $status
