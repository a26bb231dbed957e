#!/usr/bin/env bash
# Compares chiplet's tables with the libraries that users would pick instead; see benches/direct/README.md.
# Arguments go to benches/direct/compare.py; --help shows them.
set -euo pipefail
cd "$(dirname "$0")/.."

here=benches/direct
environment=target/peers/venv

packages=(python3)
if command -v apt-get >/dev/null; then
  packages=(python3-venv)
  # hnswlib is compiled for this very machine; npm fetches one of the data sets.
  command -v g++ >/dev/null || packages+=(g++)
  command -v npm >/dev/null || packages+=(npm)
  headers='import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")'
  python3 -c "$headers" 2>/dev/null || packages+=(python3-dev)
fi
scripts/setup.sh "${packages[@]}"
export PYTHONDONTWRITEBYTECODE=1

# Made anew whenever the list of packages changes.
wanted=$(sha256sum <"$here/requirements.txt")
if [ "$(cat "$environment/made-of" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$environment"
  mkdir -p "$(dirname "$environment")"
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
  printf '%s' "$wanted" >"$environment/made-of"
fi
exec "$environment/bin/python" "$here/compare.py" "$@"
