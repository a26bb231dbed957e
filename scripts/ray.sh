#!/usr/bin/env bash
# The cluster of examples/ray-serve. The first argument says what to do:
#   run    three nodes on this machine are started, filled, asked and measured; --help says what else can be told
#   test   all tests: with a cluster, and without
#   units  the tests that need no cluster
# Further arguments go to `python -m local`, or to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:?run, test or units} example=examples/ray-serve work=target/ray
shift
wheel=$(scripts/wheel.sh)
# Ray has wheels for these; the first one is that of its image in kuberay/Dockerfile.
python=
for version in 3.12 3.13 3.11; do
  python=${python:-$(scripts/pythons.sh | sed -n "s/^$version //p")}
done
mkdir -p target
scripts/venv.sh "$work" "$example/requirements.txt" "$python"
"$work/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheel"
python=$PWD/$work/bin/python
cd "$example"
"$python" -m grpc_tools.protoc -I. --python_out=. --grpc_python_out=. chiplet_serve/search.proto
export PYTHONDONTWRITEBYTECODE=1 RAY_USAGE_STATS_ENABLED=0
case $what in
  run) exec "$python" -W ignore -m local "$@" ;;
  test) exec "$python" -m pytest --quiet "$@" ;;
  units)
    "$python" -m mypy
    exec "$python" -m pytest --quiet -m "not cluster" --ignore tests/test_manifest.py "$@"
    ;;
  *) echo "ray: $what is none of run, test and units" >&2; exit 2 ;;
esac
