#!/usr/bin/env bash
# model.sh loom|shuttle [argument..]: builds the executor's tests with that checker's locks, threads and atomics in place
# of the system's, and runs those that the checker drives. Only this crate is compiled anew, as no other sees the flag.
set -euo pipefail
cd "$(dirname "$0")/../crates/executor"
checker=$1
shift

program=$(cargo rustc --locked --lib --profile test --no-default-features --message-format json-render-diagnostics -- \
  --cfg "chiplet_$checker" | sed -nE 's/.*"executable":"([^"]+)".*/\1/p')
exec "$program" "${checker}_tests" "$@"
