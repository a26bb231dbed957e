#!/usr/bin/env bash
# Builds the Python wheel, checks what is in it, and tests it in a clean environment of every Python that is installed.
# Arguments go to pytest, which then runs on the first of them alone. With --units the package is compiled as for tests,
# not linted, and tested with its types on the first alone.
set -euo pipefail
cd "$(dirname "$0")/.."

crate=bindings/python work=target/python
export CARGO_TARGET_DIR=$PWD/$work/build PYTHONDONTWRITEBYTECODE=1
say() { printf 'python: %s\n' "$*"; }

# A Python without venv does not count.
! command -v apt-get >/dev/null || scripts/setup.sh python3-venv
mapfile -t found < <(scripts/pythons.sh)
[ ${#found[@]} -gt 0 ] || { say "no Python of 3.11 or later is installed" >&2; exit 1; }
if [ "${1:-}" = --units ]; then
  shift
  found=("${found[0]}")
  mkdir -p "$work"
  grep maturin "$crate/requirements-build.txt" >"$work/maturin.txt"
  scripts/venv.sh "$work/maturin" "$work/maturin.txt" "${found[0]#* }"
  rm -rf "$work/units"
  "$work/maturin/bin/maturin" build --locked --manifest-path "$crate/Cargo.toml" --interpreter "${found[0]#* }" --out "$work/units"
  wheel=$(echo "$work"/units/*-abi3-*.whl) units=1
else
  say "the wheel for manylinux2014, and an sdist"
  wheel=$(scripts/wheel.sh) units=
fi

# hnswlib, which tests compare with, is compiled.
headers='import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")'
if command -v apt-get >/dev/null; then
  "${found[0]#* }" -c "$headers" 2>/dev/null || scripts/setup.sh python3-dev
fi

tools=$PWD/$work/tools/bin
export PATH=$tools:$PATH

say "formatting and lints"
cargo fmt --manifest-path "$crate/Cargo.toml" --check
[ -n "$units" ] || PYO3_PYTHON=${found[0]#* } cargo clippy --locked --quiet --all-targets --manifest-path "$crate/Cargo.toml" -- -D warnings

# What only the wheel as it is published has.
check_wheel() {
  auditwheel show "$wheel" | tr '\n' ' ' | grep -o '"manylinux_2_17_x86_64"' >/dev/null || { say "$wheel is no manylinux2014"; exit 1; }
  abi3audit --strict "$wheel"
  # Its page on PyPI is not beside the sources: what it links to must be somewhere, and nothing of it is yet.
  if unzip -p "$wheel" '*.dist-info/METADATA' | grep -nE '\]\(|https?://'; then
    say "the description in $wheel links there"
    exit 1
  fi
  bytes=$(stat -c %s "$wheel")
  say "$(basename "$wheel"): $((bytes / 1024)) KiB"
  [ "$bytes" -lt 10000000 ] || { say "it is to have less than 10 MB"; exit 1; }
}
[ -n "$units" ] || check_wheel

free_threaded=
for each in "${found[@]}"; do
  version=${each%% *} python=${each#* } installed=$wheel
  if [[ $version == *t ]]; then
    free_threaded=$version
    maturin build --release --locked --manifest-path "$crate/Cargo.toml" --interpreter "$python" \
      --out "$work/dist/$version"
    installed=$(echo "$work/dist/$version"/*.whl)
  fi
  # The first has what the tests compare with; the others have numpy alone, as a user's may.
  requirements=$crate/requirements-test.txt
  [ "$each" = "${found[0]}" ] || requirements=$crate/requirements-plain.txt
  environment=$work/$version
  scripts/venv.sh "$environment" "$requirements" "$python"
  "$environment/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$installed"
  # Outside of the sources, so that the wheel is what is imported.
  run() { (cd "$crate/tests" && "$OLDPWD/$environment/bin/python" "$@"); }
  say "Python $version: the README's search, then the tests"
  run ../examples/readme.py
  run -m pytest --quiet -p no:cacheprovider --rootdir .. "$@"
  [ $# -eq 0 ] || exit 0
  [ -n "$units" ] || [ "$each" != "${found[0]}" ] || run ../examples/pictures.py "$PWD/$work"
done

first=$work/${found[0]%% *}/bin
say "types"
"$first/python" -m mypy --config-file "$crate/pyproject.toml" --cache-dir "$work/mypy" "$crate"/{python,tests,examples}
"$first/python" -m mypy.stubtest chiplet --mypy-config-file "$crate/pyproject.toml"
"$first/pyright" --project "$crate/pyproject.toml" --pythonpath "$first/python"

[ -z "$units" ] || { say "all passed"; exit 0; }

say "the tests in four threads at once"
(cd "$crate/tests" && "$OLDPWD/$first/python" -m pytest --quiet -p no:cacheprovider --rootdir .. --parallel-threads 4 --iterations 1 \
  test_search.py test_tables.py test_input.py)

[ -n "$free_threaded" ] || say "skipped: no free-threaded Python (3.14t) is installed"
"$first/python" - <<'EOF'
import subprocess, sys

def milliseconds(code):
    took = "import time; began = time.perf_counter(); %s; print((time.perf_counter() - began) * 1000)" % code
    return min(float(subprocess.check_output([sys.executable, "-c", took])) for _ in range(5))

print("python: import chiplet takes %.0f ms beyond numpy's" % milliseconds("import numpy; began = time.perf_counter(); import chiplet"))
EOF
say "all passed"
