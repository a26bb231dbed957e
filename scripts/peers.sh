#!/usr/bin/env bash
# Compares chiplet's tables with the libraries that users would pick instead; see lab/peers/README.md.
# Arguments go to lab/peers/compare.py; --help shows them.
set -euo pipefail
cd "$(dirname "$0")/.."

here=lab/peers
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

# Made anew whenever a list of packages changes.
wanted=$(cat "$here"/requirements*.txt | sha256sum)
if [ "$(cat "$environment/made-of" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$environment"
  mkdir -p "$(dirname "$environment")"
  python3 -m venv "$environment"
  pip=("$environment/bin/pip" install --quiet --disable-pip-version-check)
  "${pip[@]}" --requirement "$here/requirements.txt"
  # One by one and bound to the versions above, so that none of them stops or changes the others.
  : >target/peers/pip.log
  grep -v '^#' "$here/requirements-fragile.txt" | while read -r package; do
    "${pip[@]}" --constraint "$here/requirements.txt" "$package" >>target/peers/pip.log 2>&1 ||
      echo "$package does not install here and is left out; target/peers/pip.log says why" >&2
  done
  printf '%s' "$wanted" >"$environment/made-of"
fi
# Our own wheel, if it has been built.
for wheel in target/python/dist/*-abi3-*.whl; do
  [ ! -e "$wheel" ] || "$environment/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheel"
done
exec "$environment/bin/python" "$here/compare.py" "$@"
