#!/usr/bin/env bash
# Measures what Python costs (bindings/python/benches/overhead.py). Arguments: rounds, seconds of each. Run it alone.
set -euo pipefail
cd "$(dirname "$0")/.."

crate=bindings/python work=target/python
wheel=$(compgen -G "$work/dist/*-abi3-*.whl" | head -n 1) || { echo "python-bench: make wheel builds the wheel first" >&2; exit 1; }
CARGO_TARGET_DIR=$PWD/$work/build cargo build --release --locked --quiet --manifest-path "$crate/Cargo.toml" --example clients
scripts/venv.sh "$work/bench" "$crate/requirements-bench.txt"
"$work/bench/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheel"
exec "$work/bench/bin/python" -W ignore "$crate/benches/overhead.py" "$work/build/release/examples/clients" "$@"
