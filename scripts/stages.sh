#!/usr/bin/env bash
# Runs targets of the Makefile one after the other and ends with a table of what each took. Of `a+b` both run at once, for
# what leaves a core idle, and what b says follows a's. The first that fails ends it, unless KEEP_GOING=1.
set -uo pipefail
cd "$(dirname "$0")/.."

work=target/stages
mkdir -p "$work"
rm -f "$work"/*

run() {
  local result=passed begun=$SECONDS
  echo "== make $1"
  { TIMEFORMAT='%U %S'; time make --no-print-directory "$1" 2>&3; } 3>&2 2>"$work/$1.cpu" || result=FAILED
  printf '%s %s %s %s\n' "$1" "$result" $((SECONDS - begun)) "$(tail -n 1 "$work/$1.cpu")" >>"$work/times"
}

for stage in "$@"; do
  beside=${stage#*+}
  [ "$beside" = "$stage" ] || run "$beside" >"$work/said" 2>&1 &
  run "${stage%+*}"
  wait
  [ ! -s "$work/said" ] || cat "$work/said"
  rm -f "$work/said"
  ! grep -q ' FAILED ' "$work/times" || [ "${KEEP_GOING:-}" = 1 ] || break
done

echo
awk -v all="$SECONDS" '
  BEGIN { printf "%-16s %8s %14s\n", "stage", "seconds", "cpu seconds" }
  { printf "%-16s %8d %14.0f%s\n", $1, $3, $4 + $5, $2 == "passed" ? "" : "   " $2; cpu += $4 + $5 }
  END { printf "%-16s %8d %14.0f\n", "all", all, cpu }' "$work/times"
du -sh target | awk '{ print "target: " $1 }'
failed=$(awk '$2 == "FAILED" { print $1 }' "$work/times" | paste -sd ' ')
[ -z "$failed" ] || { echo "FAILED: $failed" >&2; exit 1; }
