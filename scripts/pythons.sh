#!/usr/bin/env bash
# Each kind of CPython from 3.11 on that is installed once, the oldest first: its version, "t" if it is free-threaded, and
# where it is.
set -euo pipefail

for python in $(compgen -c python3 | sort -u | grep -E '^python3(\.[0-9]+t?)?$') "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python; do
  python=$(command -v "$python") || continue
  "$python" - 2>/dev/null <<'EOF' || true
import ensurepip, sys, sysconfig, venv
if sys.version_info >= (3, 11) and sys.implementation.name == "cpython":
    print("%d.%d%s %s" % (*sys.version_info[:2], "t" * bool(sysconfig.get_config_var("Py_GIL_DISABLED")), sys.executable))
EOF
done | sort -V -k1,1 -u
