#!/usr/bin/env bash
# Runs the test suite under a sanitizer: $1 is `thread` or `address`; what follows are the features of the library.
#
# The sanitizers' runtimes come with the stable toolchain, their switches do not yet (RUSTC_BOOTSTRAP), and its standard
# library is not compiled for them (unsafe-allow-abi-mismatch). tests/sanitizers says what ThreadSanitizer is told instead.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=${1:?thread or address}
features=${2:-}
work=$PWD/target/sanitize-$kind
mkdir -p "$work"
host=$(rustc -vV | sed -nE 's/^host: //p')
say() { printf 'sanitize: %s\n' "$*"; }

runtime=$(rustc --print sysroot)/lib/rustlib/$host/lib/librustc-stable_rt.${kind:0:1}san.a
if [ ! -e "$runtime" ]; then
  say "skipped: this toolchain has no ${kind} sanitizer for $host"
  exit 0
fi

flags="-Zsanitizer=$kind -Cunsafe-allow-abi-mismatch=sanitizer"
harness=(--test-threads 2)
if [ "$kind" = thread ]; then
  # Its own locks are exchanged for such as are compiled along.
  flags+=" --cfg chiplet_tsan"
  cc -O1 -c tests/sanitizers/thread.c -o "$work/thread.o"
  flags+=" -Clink-arg=$work/thread.o"
  for symbol in __tsan_atomic64_fetch_sub __tsan_atomic_thread_fence syscall; do
    flags+=" -Clink-arg=-Wl,--wrap=$symbol"
  done
  # The harness hands tests to threads through the standard library's channels, and keeps their output under its locks.
  harness=(--test-threads 1 --nocapture)
fi
export TSAN_OPTIONS="suppressions=$PWD/tests/sanitizers/thread.supp halt_on_error=0 exitcode=66 history_size=4"
export ASAN_OPTIONS="detect_leaks=1 exitcode=66"
export LSAN_OPTIONS="suppressions=$PWD/tests/sanitizers/leak.supp print_suppressions=0"
# Suppressions name functions that are inlined; without all of the debug information those have no paths.
export CARGO_PROFILE_DEV_DEBUG=full
# Traces are printed under the standard library's locks, which ThreadSanitizer does not see.
export RUST_BACKTRACE=0
export RUSTC_BOOTSTRAP=1 RUSTFLAGS=$flags CARGO_TARGET_DIR=$work
# Shorter, as everything runs five to fifteen times slower; and freed memory is kept back to see who still uses it.
export CHIPLET_SOAK_SLACK_MIB=4096
export CHIPLET_SOAK_SECONDS=${CHIPLET_SOAK_SECONDS:-20} PROPTEST_CASES=${PROPTEST_CASES:-16}

# A program that is known to be wrong has to be reported, or nothing below means anything.
# shellcheck disable=SC2086
rustc --edition 2024 --target "$host" $flags "tests/sanitizers/$kind.rs" -o "$work/wrong" 2>"$work/wrong.log"
said=$("$work/wrong" 2>&1 || true)
if grep -qE '(ERROR|WARNING): .*Sanitizer' <<<"$said"; then
  say "a program that is wrong is reported"
else
  say "FAILED: a program that is wrong is not reported, so the sanitizer does not work here; see $work/wrong.log"
  exit 1
fi

begun=$SECONDS
# Policy has no threads and no unsafe code. Tests of graphs of hnsw_rs use rayon, whose locks are the standard library's.
# Not tests/faults, which refuses memory and system calls that the sanitizer itself needs, nor lab/vm.
packages=(-p chiplet -p chiplet-executor)
tests=(--test it --test allocations --test soak)
if [ "$kind" = address ]; then
  packages+=(-p chiplet-memory -p chiplet-index)
  tests+=(--test region --test granted --test stopped)
  # How much memory a table takes: AddressSanitizer's allocator takes more.
  harness+=(--skip memory::a_table_takes)
fi
log=$work/log
run() {
  cargo test --config 'profile.dev.package."*".debug="full"' --locked --target "$host" --no-default-features --features "$features" \
    --lib --no-fail-fast "$@" "${harness[@]}" 2>&1
}
{
  run "${packages[@]}" "${tests[@]}" --
  if [ "$kind" = address ]; then
    # The widest vector instructions are used above; the kernels for the others read memory, too.
    for simd in portable avx2; do
      CHIPLET_SIMD=$simd run -p chiplet-index --test it -- kernel hnsw:: flat:: hnsw_rows::
    done
  fi
} | tee "$log" | grep -E '^(error|test result|test .*FAILED|SUMMARY|.*(ERROR|WARNING): .*Sanitizer)|^     Running' || true
passed=$(sed -nE 's/^test result: ok\. ([0-9]+) passed.*/\1/p' "$log" | awk '{n += $1} END {print n + 0}')
reports=$(grep -cE '(ERROR|WARNING): .*Sanitizer' "$log" || true)
if [ "$reports" != 0 ] || grep -qE '^error|^test result: FAILED' "$log" || [ "$passed" = 0 ]; then
  say "FAILED: $reports reports; the whole log is $log"
  exit 1
fi
echo "verify: ${kind} sanitizer over the test suite | $passed tests, no report | $((SECONDS - begun)) s"
