#!/usr/bin/env bash
# Drives the example gRPC server with the stock Python client and its admin page with a browser.
# The server is the one that CHIPLET_GRPC_SERVER names; without that it is built. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

tests=crates/server/tests/python
environment=target/clients

if command -v apt-get >/dev/null; then
  scripts/setup.sh chromium fonts-dejavu-core python3-venv
else
  scripts/setup.sh python3
fi
if [ -z "${CHIPLET_GRPC_SERVER:-}" ]; then
  cargo build --locked -p chiplet-server
  CHIPLET_GRPC_SERVER=$PWD/target/debug/chiplet-server
fi
export CHIPLET_GRPC_SERVER
export PYTHONDONTWRITEBYTECODE=1

scripts/venv.sh "$environment" "$tests/requirements.txt"
exec "$environment/bin/python" -m pytest -p no:cacheprovider --quiet --durations=5 "$@" "$tests"
