#!/usr/bin/env bash
# Makes the Python environment FOLDER with the packages of REQUIREMENTS, anew whenever their list changes. PYTHON is the
# interpreter that it is of, python3 unless it is given.
set -euo pipefail
folder=$1 requirements=$2 python=${3:-python3}
wanted=$(sha256sum <"$requirements")
if [ "$(cat "$folder/made-of" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$folder"
  "$python" -m venv "$folder"
  # It says what it fetches: some of it has a hundred megabytes.
  "$folder/bin/pip" install --disable-pip-version-check --requirement "$requirements" >&2
  printf '%s' "$wanted" >"$folder/made-of"
fi
