#!/usr/bin/env bash
# Runs everything that checks the promises of docs/correctness.md, one part after the other, and prints what was tried.
# Each part is a target of the Makefile; its output goes to target/verify. All parts are run, also after one has failed;
# PARTS="tsan soak" runs those again and keeps what is known of the others.
set -euo pipefail
cd "$(dirname "$0")/.."

# What sets the table at the end is not in every Debian.
command -v column >/dev/null || scripts/setup.sh bsdextrautils

work=$PWD/target/verify
parts=${PARTS:-}
[ -n "$parts" ] || rm -rf "$work"
mkdir -p "$work"

say() { printf 'verify: %s\n' "$*"; }

# Sums the numbers before word $2 in the `verify:` lines of log $1.
sum() { sed -nE "s/^verify: .*\| ([0-9]+) $2.*/\1/p" "$1" | awk '{n += $1} END {printf "%.0f", n}'; }

# What a part tried, from its log.
tried_models() { echo "$(sum "$1" "$2") $2, $(sum "$1" 'broken variant') broken variants caught"; }
tried_loom() { tried_models "$1" interleavings; }
tried_shuttle() { tried_models "$1" schedules; }
tried_properties() {
  local properties
  properties=$(sed -nE 's/^test result: ok\. ([0-9]+) passed.*/\1/p' "$1" | awk '{n += $1} END {print n + 0}')
  echo "$properties tests, $PROPERTY_CASES cases of each property"
}
# The fuzzer's lines come twice, as they happen and at the end.
tried_fuzz() {
  grep '^verify: fuzz' "$1" | sort -u >"$1.targets"
  echo "$(sum "$1.targets" runs) runs on $(wc -l <"$1.targets") targets"
}
tried_soak() { echo "$(sum "$1" tasks) tasks"; }
tried_tests() { echo "$(sum "$1" tests) tests, no report"; }
tried_faults() { echo "$(sum "$1" fault) faults"; }
tried_vm() { echo "$(sum "$1" checks) checks in the machine"; }

# part NAME "PROMISES" "CHECKED BY" KIND COMMAND...: runs a part and adds its row.
part() {
  local name=$1 promises=$2 by=$3 kind=$4 log=$work/$1.log row=$work/$1.row begun=$SECONDS result=passed tried=-
  shift 4
  if [ -n "$parts" ] && [[ " $parts " != *" $name "* ]]; then
    [ -e "$row" ] || printf '%s|%s|-|not run|\n' "$promises" "$by" >"$row"
    names+=("$name")
    return
  fi
  say "$name: $by"
  if ! "$@" >"$log" 2>&1; then
    result=FAILED
    tail -n 30 "$log"
    say "$name FAILED; the whole log is $log"
  elif grep -qE '(^| )skipped: ' "$log" && ! grep -q '^verify: ' "$log"; then
    result="skipped: $(sed -nE 's/.*skipped: (.*)/\1/p' "$log" | tail -n 1)"
  else
    tried=$("tried_$kind" "$log")
  fi
  printf '%s|%s|%s|%s|%s s\n' "$promises" "$by" "$tried" "$result" "$((SECONDS - begun))" >"$row"
  names+=("$name")
  say "$name: $result in $((SECONDS - begun)) s"
}

: "${PREEMPTIONS:=3}" "${SCHEDULES:=10000}" "${PROPERTY_CASES:=10000}" "${FUZZ_SECONDS:=30}" "${SOAK_SECONDS:=600}"
export PREEMPTIONS SCHEDULES PROPERTY_CASES FUZZ_SECONDS SOAK_SECONDS SHOW=--nocapture

begun=$SECONDS
names=()
part loom "1, 2, 4, 5: ends once, no sleep, cancel, bound" "loom: all interleavings, $PREEMPTIONS preemptions" loom make loom
part shuttle "1, 2, 4, 5: the same, whole executor" "shuttle: random and PCT schedules" shuttle make shuttle
part properties "placement, splitting, stealing, topology" "property tests" properties make properties
part faults "errors are clear, nothing is lost" "faults injected" faults make faults
part fuzz "outside input harms nothing" "libFuzzer" fuzz make fuzz
part tsan "no data race" "ThreadSanitizer" tests make tsan
part asan "no bad memory, no leak" "AddressSanitizer" tests make asan
part vm-small "tables stay home, cpus come and go" "Linux with 2 L3 domains, emulated" vm make vm-test VM=small
part vm-large "tables stay home, cpus come and go" "Linux with 12 L3 domains, emulated" vm make vm-test VM=large
part soak "1-5 together; no thread, no byte leaks" "soak: 96 workers, $SOAK_SECONDS s" soak make soak

echo
{
  echo "promise|checked by|tried|result|time"
  for name in "${names[@]}"; do
    cat "$work/$name.row"
  done
} | column -t -s '|' -o ' | ' | tee "$work/summary"
echo
if cat "$work"/*.row | grep -qE '\|(FAILED|not run)\|'; then
  say "FAILED; see above"
  exit 1
fi
say "all passed; this run took $((SECONDS - begun)) s"
