#!/usr/bin/env bash
# Drives chiplet-server with the stock Python client and its admin page with a browser.
# The server is the one that CHIPLET_GRPC_SERVER names; without that it is built. Arguments go to pytest. OLDER names the
# versions of the client, besides the newest, that have a session with it.
set -euo pipefail
cd "$(dirname "$0")/.."

tests=apps/server/tests/python
environment=target/clients
OLDER=${OLDER:-1.13.3} BROWSER=${BROWSER:-chromium}

if command -v apt-get >/dev/null; then
  packages=(python3-venv fonts-dejavu-core)
  # Where workflows run, on Ubuntu, the program is there and no package has its name.
  command -v "$BROWSER" >/dev/null || packages+=("$BROWSER")
  scripts/setup.sh "${packages[@]}"
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
CHIPLET_CLIENTS=
for version in $OLDER; do
  echo "qdrant-client==$version" >"$environment/$version.txt"
  scripts/venv.sh "$environment-$version" "$environment/$version.txt"
  CHIPLET_CLIENTS+=" $PWD/$environment-$version/bin/python"
done
export CHIPLET_CLIENTS
exec "$environment/bin/python" -m pytest -p no:cacheprovider --quiet --durations=5 "$@" "$tests"
