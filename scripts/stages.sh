#!/usr/bin/env bash
# Runs targets of the Makefile one after the other and ends with a table of what each took. The first that fails ends it,
# unless KEEP_GOING=1.
set -uo pipefail
cd "$(dirname "$0")/.."

work=target/stages
mkdir -p "$work"
: >"$work/times"
failed=
for stage in "$@"; do
  echo "== make $stage"
  result=passed
  begun=$SECONDS
  { TIMEFORMAT='%U %S'; time make --no-print-directory "$stage" 2>&3; } 3>&2 2>"$work/cpu" || { result=FAILED failed+=" $stage"; }
  printf '%s %s %s %s\n' "$stage" "$result" $((SECONDS - begun)) "$(tail -n 1 "$work/cpu")" >>"$work/times"
  [ -z "$failed" ] || [ "${KEEP_GOING:-}" = 1 ] || break
done

echo
awk '
  BEGIN { printf "%-16s %8s %14s\n", "stage", "seconds", "cpu seconds" }
  { printf "%-16s %8d %14.0f%s\n", $1, $3, $4 + $5, $2 == "passed" ? "" : "   " $2; all += $3; cpu += $4 + $5 }
  END { printf "%-16s %8d %14.0f\n", "all", all, cpu }' "$work/times"
du -sh target | awk '{ print "target: " $1 }'
[ -z "$failed" ] || { echo "FAILED:$failed" >&2; exit 1; }
