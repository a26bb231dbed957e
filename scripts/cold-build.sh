#!/usr/bin/env bash
# Runs the build script of chiplet-server as on a new machine: cargo has only the packages that building that crate alone
# downloads, and no network. The full cache of a developer's machine hides that the script asks cargo for more.
set -euo pipefail
cd "$(dirname "$0")/.."

package=chiplet-server
folder=$PWD/apps/server
host=$(rustc -vV | sed -nE 's/^host: //p')
say() { printf 'cold-build: %s\n' "$*"; }

# The same command as in `make lint`, after which there is nothing left to build.
script=$(cargo clippy --quiet --locked --workspace --all-targets --all-features \
  --message-format json-render-diagnostics -- -D warnings |
  awk -v manifest="\"manifest_path\":\"$folder/Cargo.toml\"" 'index($0, manifest) && /"kind":\["custom-build"\]/' |
  sed -nE 's/.*"filenames":\["([^"]+)".*/\1/p')
if [ ! -x "$script" ]; then
  say "FAILED: cargo does not say where the build script of $package is" >&2
  exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/home" "$work/out"
# What the user has set for cargo holds here too, such as a mirror of the registry.
for file in config config.toml credentials credentials.toml; do
  of_user=${CARGO_HOME:-$HOME/.cargo}/$file
  [ ! -e "$of_user" ] || ln -s "$of_user" "$work/home/$file"
done
export CARGO_HOME=$work/home

# Cargo prepares this list as it prepares a build: it downloads the same packages.
cargo tree --quiet --locked -p "$package" --edges no-dev --target "$host" >/dev/null
say "running the build script of $package"
cd "$folder"
if ! CARGO=$(command -v cargo) CARGO_MANIFEST_DIR=$folder OUT_DIR=$work/out HOST=$host TARGET=$host \
  CARGO_NET_OFFLINE=true "$script" >"$work/log" 2>&1; then
  cat "$work/log"
  say "FAILED: the build script of $package wants what a build of that crate does not download" >&2
  exit 1
fi
say "passed"
