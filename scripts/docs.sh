#!/usr/bin/env bash
# Builds the documentation as a searchable site: build/docs/index.html, which opens without a server.
# The first use installs Sphinx with MyST into .venv.
#   scripts/docs.sh            builds the site; a broken link or a page outside the navigation (docs/conf.py) is an error
#   scripts/docs.sh --serve    builds the site, then shows it at http://127.0.0.1:8000
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  '' | --serve) ;;
  *) echo "docs: unknown option $1 (--serve)" >&2; exit 2 ;;
esac

stamp=.venv/.requirements-docs
[ -x .venv/bin/python ] || python3 -m venv .venv
if ! cmp -s requirements/docs.txt "$stamp"; then
  .venv/bin/python -m pip install -q --disable-pip-version-check -r requirements/docs.txt
  cp requirements/docs.txt "$stamp"
fi

.venv/bin/python -m sphinx -q -W --keep-going -j auto -c docs -d build/docs_cache . build/docs
cp build/docs/README.html build/docs/index.html
echo "docs: $PWD/build/docs/index.html"
[ "${1:-}" != --serve ] || exec .venv/bin/python -m http.server --bind 127.0.0.1 --directory build/docs 8000
