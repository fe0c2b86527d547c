#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests through ctest. Exit status non-zero on any failure.
#
#   scripts/test.sh [--no-install] [--preset release|dev|asan-ubsan|tsan|cuda] [-- ctest arguments]
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() { sed -n '2,4s/^# \{0,1\}//p' "$0"; }

install=1
preset=release
while [ $# -gt 0 ]; do
  case "$1" in
    --no-install) install=0 ;;
    --preset)
      [ $# -ge 2 ] || die "--preset needs a name"
      preset="$2"
      shift
      ;;
    --)
      shift
      break
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) die "unknown argument '$1' (see --help)" ;;
  esac
  shift
done

if [ "$install" = 1 ]; then
  install_packages "${build_packages[@]}" "${test_packages[@]}"
  fetch_ucx
  fetch_model
  scripts/fetch_test_vocabs.sh
  if ! cmp -s tests/requirements.txt .venv/requirements.txt; then
    step "making the test environment .venv/"
    rm -rf .venv
    python3 -m venv .venv
    .venv/bin/pip install --quiet --disable-pip-version-check -r tests/requirements.txt
    cp tests/requirements.txt .venv/requirements.txt
  fi
fi

export LYNX_TEST_PYTHON="${LYNX_TEST_PYTHON:-$root/.venv/bin/python}"
case "$preset" in
  asan-ubsan) build "$preset" tests_sanitize ;;
  tsan) build "$preset" tests_threads ;;
  *) build "$preset" ;;
esac
step "testing ($preset)"
ctest --preset "$preset" "$@"
