#!/usr/bin/env bash
# Puts Debian's kernel for virtual machines into target/vm and installs QEMU, for `make vm-test`. The kernel's package is
# unpacked there and not installed: nothing of the system's own booting changes.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'vm: %s\n' "$*"; }

if ! command -v apt-get >/dev/null || [ "$(uname -m)" != x86_64 ]; then
  say "skipped: this fetches Debian's kernel for x86-64; put any vmlinuz into target/vm to use that"
  exit 0
fi
scripts/setup.sh qemu-system-x86
compgen -G 'target/vm/vmlinuz*' >/dev/null && exit 0

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The system's lists of packages may be old or not there at all; lists of its own need no root.
mkdir -p "$folder/lists/partial" "$folder/cache"
cat >"$folder/apt.conf" <<END
Dir::State::Lists "$folder/lists";
Dir::Cache "$folder/cache";
APT::Sandbox::User "root";
END
export APT_CONFIG=$folder/apt.conf
apt-get update -qq 2>/dev/null || true
# An unknown package is an error of apt-cache: Ubuntu has none of that name.
package=$( (apt-cache depends linux-image-cloud-amd64 2>/dev/null || true) |
  sed -nE 's/^ *Depends: (linux-image-[^ ]+)$/\1/p' | head -n 1)
if [ -z "$package" ]; then
  say "skipped: no package linux-image-cloud-amd64 here (Debian has it)"
  exit 0
fi
mkdir -p target/vm
say "fetching $package"
if ! (cd "$folder" && apt-get download -qq "$package" 2>/dev/null); then
  say "skipped: $package cannot be fetched"
  exit 0
fi
dpkg-deb --fsys-tarfile "$folder"/*.deb | tar -xf - -C "$folder" --wildcards './boot/vmlinuz*'
mv "$folder"/boot/vmlinuz* target/vm/
