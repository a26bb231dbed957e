#!/usr/bin/env bash
# Makes the image of apps/server/Dockerfile where a Docker engine runs. Elsewhere it runs the steps of the first stage here,
# unless CHIPLET_GRPC_SERVER names a server that is built, and checks the second: that its packages have each library that
# the server links, and that the server takes its variables.
set -euo pipefail
cd "$(dirname "$0")/.."
file=apps/server/Dockerfile
say() { printf 'image: %s\n' "$*"; }

if docker info >/dev/null 2>&1; then
  exec docker build --quiet --tag chiplet-server --file "$file" .
fi

# The instructions of one kind in a stage, each in a line.
steps() {
  sed -e ':a' -e '/\\$/N; s/\\\n//; ta' "$file" | awk -v stage="$1" -v kind="$2" \
    '$1 == "FROM" {n++} n == stage && $1 == kind {sub(/^[A-Z]+ /, ""); print}'
}

server=${CHIPLET_GRPC_SERVER:-$(steps 2 COPY | sed -nE 's|^--from=build /chiplet/([^ ]+) .*|\1|p')}
if [ -z "${CHIPLET_GRPC_SERVER:-}" ]; then
  while read -r step; do
    say "$step"
    env "$(steps 1 ARG)" bash -euc "$step"
  done < <(steps 1 RUN)
fi

if command -v apt-cache >/dev/null; then
  # The base has these three.
  read -ra packages < <(echo libc6 libgcc-s1 libstdc++6 "$(steps 2 RUN | sed -nE 's/.*--no-install-recommends ([^&]+)&.*/\1/p')")
  only=(--no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances)
  there=$(apt-cache depends --recurse "${only[@]}" "${packages[@]}" | grep -E '^[a-z]')
  for library in $(ldd "$server" | sed -nE 's|.*=> (/[^ ]+) .*|\1|p'); do
    owner=$(dpkg -S "$library" "$(readlink -f "$library")" 2>/dev/null | sed -nE '1s/^([^:]+):.*/\1/p' || true)
    grep -qxF "$owner" <<<"$there" || { say "the image lacks $library, of ${owner:-no package}"; exit 1; }
  done
fi
read -ra variables < <(steps 2 ENV)
env "${variables[@]}" "$server" --print-config | grep -qxF 'data_dir = "/data"'
say "no Docker engine runs here, and the image was not built; what of $file can be tried without is right"
