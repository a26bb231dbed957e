#!/usr/bin/env bash
# Measures keyed rows: against maps and embedded stores, cut into shards or not, and over gRPC as Cube's report did.
set -euo pipefail
cd "$(dirname "$0")/.."

usage='usage: make keyed ARGS="[--quick] [--without-rocksdb] [PART..]"
  PART               stores, sharding or report; all without it
  --quick            fewer keys and shorter rounds: some five minutes
  --without-rocksdb  leave RocksDB out, which takes half an hour to compile on 2 cores'

parts=()
features=(--features rocksdb)
stores=()
sharding=()
report=()
for argument in "$@"; do
  case $argument in
    --quick)
      stores=(--keys 1000000 --seconds 0.3 --rounds 3)
      sharding=(--keys 1000000 --seconds 0.3 --rounds 3)
      report=(--seconds 1 --shard-seconds 5 --rounds 3)
      ;;
    --without-rocksdb) features=() ;;
    stores | sharding | report) parts+=("$argument") ;;
    --help) echo "$usage"; exit ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(stores sharding report)
wants() { [[ " ${parts[*]} " == *" $1 "* ]]; }

if wants stores && [ ${#features[@]} -gt 0 ] && command -v apt-get >/dev/null; then
  # bindgen reads RocksDB's header.
  ls /usr/lib/llvm-*/lib/libclang.so* >/dev/null 2>&1 || scripts/setup.sh libclang-dev
fi
bench=(cargo run --release --locked --quiet --manifest-path lab/keyed/Cargo.toml --target-dir target/keyed)
if wants stores; then
  echo "keyed: building (the first time with RocksDB: half an hour on 2 cores)" >&2
  "${bench[@]}" "${features[@]}" -- stores "${stores[@]}"
  echo
fi
if wants sharding; then
  for clients in 1 2; do
    "${bench[@]}" -- sharding --clients "$clients" "${sharding[@]}"
    echo
  done
fi
if wants report; then
  cargo build --release --locked -p keyed-rows
  # Allocators that are installed take part.
  for library in mimalloc:libmimalloc.so jemalloc:libjemalloc.so tcmalloc:libtcmalloc_minimal.so; do
    file=$(ldconfig -p 2>/dev/null | awk -v name="${library#*:}" 'index($1, name) == 1 { file = $NF } END { print file }')
    if [ -n "$file" ]; then
      report+=(--allocator "${library%%:*}=$file")
    else
      echo "keyed: ${library%%:*} is not installed and left out (Debian 12: apt-get install libmimalloc2.0 libjemalloc2 libtcmalloc-minimal4)" >&2
    fi
  done
  target/release/keyed-rows report "${report[@]}"
fi
