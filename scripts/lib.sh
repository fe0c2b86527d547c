# Shared by the scripts of this folder; sourced, never run. Sets `root` and changes into it.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"

default_model=".models/SmolLM2-135M-Instruct.Q4_1.gguf"
build_packages=(g++ cmake ninja-build ccache pkg-config libspdlog-dev nlohmann-json3-dev catch2 libboost-dev libcli11-dev
  libpcre2-dev libutf8proc-dev libxxhash-dev prometheus-cpp-dev libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libprotoc-dev
  libssl-dev)
test_packages=(python3-venv clang-format)

step() { printf '== %s\n' "$*" >&2; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

missing_packages() { # prints those of its arguments that are not installed
  local package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || printf '%s\n' "$package"
  done
}

install_packages() { # package…: through apt, only what is missing
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -eq 0 ] && return 0
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "needs root (or sudo) to install: ${missing[*]}"
    sudo=(sudo)
  fi
  step "installing with apt: ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

fetch_ucx() {
  [ -f .deps/ucx/wheel.sha256 ] || step "fetching UCX 1.22 (43 MB) into .deps/"
  python3 scripts/fetch.py ucx .deps
}

fetch_model() {
  [ -f "$default_model.sha256" ] || step "fetching the default model SmolLM2-135M-Instruct (93 MB) into .models/"
  python3 scripts/fetch.py model .models
}

build() { # preset [target…]
  local preset="$1"
  shift
  # The list of what to build may have changed with the checkout; configuring again costs a second.
  cmake --preset "$preset" >".cmake-$preset.log" 2>&1 || {
    cat ".cmake-$preset.log" >&2
    die "cmake --preset $preset failed"
  }
  rm -f ".cmake-$preset.log"
  local targets=()
  [ $# -gt 0 ] && targets=(--target "$@")
  step "building ($preset)"
  cmake --build --preset "$preset" "${targets[@]}" >&2
}
