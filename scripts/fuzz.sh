#!/usr/bin/env bash
# Fuzzes each target for $1 seconds, or only those named after it. Stops at the first finding and says where it is.
# What was found interesting stays in target/fuzz/corpus and is where the next run begins.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH=$PWD/target/tools/bin:$PATH
seconds=${1:?how many seconds for each target}
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(sed -nE 's|^path = "fuzz_targets/(.*)\.rs"|\1|p' fuzz/Cargo.toml)

say() { printf 'fuzz: %s\n' "$*"; }

work=${CARGO_TARGET_DIR:-target}/fuzz
mkdir -p "$work"
work=$(cd "$work" && pwd)
host=$(rustc -vV | sed -nE 's/^host: //p')

say "building ${#targets[@]} targets"
# The stable compiler has no sanitizers, but it counts branches, which is what guides libFuzzer. With --release
# it is fuzz/Cargo.toml that says where debug assertions are on.
cargo fuzz build --fuzz-dir fuzz --release --sanitizer none --target "$host" --target-dir "$work/build"

# Trees of small files are written in every run; memory spares the disk. libFuzzer ends without cleaning up.
memory=/dev/shm
[ -d "$memory" ] && [ -w "$memory" ] || memory=${TMPDIR:-/tmp}
TMPDIR=$(mktemp -d "$memory/chiplet-fuzz.XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

# What hwloc has to say about each damaged file is not wanted.
export HWLOC_HIDE_ERRORS=2

fuzz() {
  local target=$1 log=$work/$1.log corpus=$work/corpus/$1 artifacts=$work/artifacts/$1/
  local options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 -max_len=16384
    -print_final_stats=1 -artifact_prefix="$artifacts")
  local folders=("$corpus" "fuzz/seeds/$target") binary=$work/build/$host/release/$target
  [ ! -f "fuzz/dict/$target" ] || options+=(-dict="fuzz/dict/$target")
  # The files of the crates' own tests are seeds as well.
  [ "$target" != hdf5 ] || folders+=(lab/workload/tests/data)
  [ "$target" != faiss_file ] || folders+=(crates/index/tests/data/faiss)
  mkdir -p "$corpus" "$artifacts"
  # Without a sanitizer libFuzzer sees no single allocation, so what it cannot limit the shell does: more
  # address space than this is refused, which ends a Rust program.
  if ! (ulimit -v $((3 << 20)) && "$binary" "${options[@]}" "${folders[@]}") >"$log" 2>&1; then
    tail -n 40 "$log"
    say "$target FAILED; the whole log is $log"
    say "the input: $(sed -nE 's/.*Test unit written to (.*)/\1/p' "$log" | tail -n 1)"
    say "again: $binary INPUT; then see fuzz/README.md"
    return 1
  fi
  sed -nE "s/^Done ([0-9]+) runs in ([0-9]+) second.*/verify: fuzz $target | \1 runs | \2 s/p" "$log" | tee -a "$work/summary"
}

: >"$work/summary"
for target in "${targets[@]}"; do
  say "$target for $seconds s"
  fuzz "$target"
done
say "no findings"
cat "$work/summary"
