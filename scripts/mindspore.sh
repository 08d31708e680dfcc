#!/usr/bin/env bash
# Installs MindSpore into .venv-mindspore (about 800 MB from PyPI, 2.7 GB on disk), for tests/python/test_mindspore.py and
# scripts/benchmark.sh --peer mindspore. The script does nothing if MindSpore is installed already.
#   scripts/mindspore.sh [PYTHON]   PYTHON: 3.11 or 3.12, default python3
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
stamp=.venv-mindspore/.requirements-mindspore
if cmp -s requirements/mindspore.txt "$stamp"; then
  echo "MindSpore: installed already"
  exit
fi
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
case $version in
  3.11 | 3.12) ;;
  *) echo "mindspore: needs Python 3.11 or 3.12, received $python, which is $version; run scripts/mindspore.sh PYTHON" >&2; exit 2 ;;
esac
echo "MindSpore: installing into .venv-mindspore (about 800 MB from PyPI, 2.7 GB on disk)"
[ -x .venv-mindspore/bin/python ] || "$python" -m venv .venv-mindspore
.venv-mindspore/bin/python -m pip install -q --disable-pip-version-check --no-compile -r requirements/mindspore.txt
cp requirements/mindspore.txt "$stamp"
