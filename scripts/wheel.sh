#!/usr/bin/env bash
# Builds the Python wheel and an sdist into target/python/dist, and says the wheel's path last.
set -euo pipefail
cd "$(dirname "$0")/.."

crate=bindings/python work=target/python
export CARGO_TARGET_DIR=$PWD/$work/build PYTHONDONTWRITEBYTECODE=1

if command -v apt-get >/dev/null; then
  scripts/setup.sh python3-venv >&2
else
  scripts/setup.sh python3 >&2
fi
found=$(scripts/pythons.sh | head -n 1)
[ -n "$found" ] || { echo "wheel: no Python of 3.11 or later is installed" >&2; exit 1; }
mkdir -p "$work"
scripts/venv.sh "$work/tools" "$crate/requirements-build.txt"
# maturin finds zig by the Python of PATH.
export PATH=$PWD/$work/tools/bin:$PATH

# The crates have no home in the network that their manifests could name, which cargo says of each.
exec 3>&2 2> >(grep --line-buffered -v -e 'manifest has no documentation, homepage or repository' -e 'manifest.html#package-metadata' >&3)
rm -rf "$work/dist"
maturin sdist --manifest-path "$crate/Cargo.toml" --out "$work/dist" >&2
maturin build --release --locked --zig --compatibility manylinux2014 --auditwheel check \
  --manifest-path "$crate/Cargo.toml" --interpreter "${found#* }" --out "$work/dist" >&2
echo "$work"/dist/*-abi3-*.whl
