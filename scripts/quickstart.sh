#!/usr/bin/env bash
# From a fresh checkout to a serving pair: installs what is missing, builds, fetches the default model, starts lynx-prefill-node and
# lynx-decode-node on loopback, streams one answer about a long document, and stays up until Ctrl-C.
#
#   scripts/quickstart.sh [--detach] [--aggregated] [--model PATH] [--residual-delay MS] [--no-install]
#   scripts/quickstart.sh --stop
#
#   --detach      leave the pair running and return when it is ready, which means that a transfer between the two was proven
#   --aggregated  one node that does both, instead of a pair
#   --stop        end what was left running
#   --model PATH  a .gguf file or a Hugging Face directory instead of the default model
#   --residual-delay MS  so much later than the Anchors do Residuals set out, as over a slow link (default 500; 0: at once, which on one
#                 machine leaves no time to draft)
#   --no-install  neither apt nor downloads
#
# Pids and logs are .run/lynx-prefill-node.{pid,log} and .run/lynx-decode-node.{pid,log} ($LYNX_RUN_DIR). Run again, it starts what died.
# Ports: 8000 (or $LYNX_HTTP_PORT) and 8001 ($LYNX_GRPC_PORT) of the decode node, 7000 ($LYNX_CONTROL_PORT) and 7001
# ($LYNX_PREFILL_HTTP_PORT) of the prefill node. The cores are split between the two, unless $LYNX_THREADS says how many each has.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

document=docs/sample/harbour_handbook.md
question="What is the name of the lifeboat of Saltmarsh?"
decode=lynx-decode-node
prefill=lynx-prefill-node
http_port="${LYNX_HTTP_PORT:-8000}"
grpc_port="${LYNX_GRPC_PORT:-8001}"
control_port="${LYNX_CONTROL_PORT:-7000}"
prefill_http_port="${LYNX_PREFILL_HTTP_PORT:-7001}"
run_dir="${LYNX_RUN_DIR:-.run}"
export -n LYNX_PREFILL_HTTP_PORT LYNX_RUN_DIR # No settings of the nodes.
url="http://127.0.0.1:$http_port"

usage() { sed -n '2,20s/^# \{0,1\}//p' "$0"; }

running_pid() { # program: prints the pid of a live one that was started here
  local pid program
  pid="$(cat "$run_dir/$1.pid" 2>/dev/null)" || return 1
  program="$(readlink "/proc/$pid/exe" 2>/dev/null)" || return 1
  [ "${program% (deleted)}" = "$(realpath -m "build/release/cmd/$1")" ] && printf '%s\n' "$pid"
}

is_aggregated() { tr '\0' '\n' <"/proc/$1/cmdline" | grep -qx -- --aggregated; } # pid of a decode node

stop_node() { # program
  local pid
  if pid="$(running_pid "$1")"; then
    kill -TERM "$pid"
    # A second signal ends a node at once.
    trap 'kill -TERM "$pid" 2>/dev/null || true' INT TERM
    for _ in $(seq 350); do
      running_pid "$1" >/dev/null || break
      sleep 0.1
    done
    running_pid "$1" >/dev/null && die "$1 (pid $pid) does not end; see $run_dir/$1.log"
    step "stopped $1 (pid $pid)"
  fi
  rm -f "$run_dir/$1.pid"
}

stop_nodes() { # The decode node first: what it still has running may need the other.
  running_pid "$decode" >/dev/null || running_pid "$prefill" >/dev/null || step "nothing is running"
  stop_node "$decode"
  stop_node "$prefill"
}

require_free_ports() { # PORT VARIABLE …
  python3 - "$@" <<'PYTHON' || exit 1
import socket, sys
for port, variable in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", int(port)))
    except OSError as error:
        sys.exit(f"quickstart.sh: port {port} cannot be had ({error.strerror}); name another one in {variable}")
    except (ValueError, OverflowError):
        sys.exit(f"quickstart.sh: {variable} is no port: {port}")
PYTHON
}

start_node() { # program argument…
  local program="$1"
  shift
  mkdir -p "$run_dir"
  # A session of its own: Ctrl-C reaches this script, which then ends the nodes in order.
  setsid "build/release/cmd/$program" --host 127.0.0.1 --model "$model" "$@" >"$run_dir/$program.log" 2>&1 &
  echo "$!" >"$run_dir/$program.pid"
  # The process is the shell at first, then setsid, then the node.
  while ! running_pid "$program" >/dev/null && kill -0 "$!" 2>/dev/null; do sleep 0.02; done
  disown # What became of it is told below, not by the shell.
}

health() { # prints the decode node's answer; fails until it is ready
  python3 - "$url/health" <<'PYTHON' 2>/dev/null
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=2).read().decode())
except urllib.error.HTTPError as error:
    print(error.read().decode())
    sys.exit(1)
PYTHON
}

wait_until_ready() { # program…
  local program
  for _ in $(seq 300); do
    for program in "$@"; do
      if ! running_pid "$program" >/dev/null; then
        tail -n 20 "$run_dir/$program.log" >&2
        die "$program ended while starting (log above)"
      fi
    done
    health >/dev/null && return 0
    sleep 0.2
  done
  die "not ready after 60 s; the decode node says: $(health || true) (logs: $run_dir/)"
}

install=1
detach=0
aggregated=0
residual_delay=500
model=
while [ $# -gt 0 ]; do
  case "$1" in
    --detach) detach=1 ;;
    --aggregated) aggregated=1 ;;
    --no-install) install=0 ;;
    --stop)
      stop_nodes
      exit 0
      ;;
    --model)
      [ $# -ge 2 ] || die "--model needs a path"
      model="$2"
      shift
      ;;
    --residual-delay)
      [[ "${2:-}" =~ ^[0-9]+$ ]] || die "--residual-delay needs a number of milliseconds"
      residual_delay="$2"
      shift
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
  install_packages "${build_packages[@]}"
  fetch_ucx
  [ -n "$model" ] || fetch_model
fi
model="${model:-$default_model}"
[ -e "$model" ] || die "there is no model at $model"
build release "$prefill" "$decode" lynx

programs=("$prefill" "$decode")
[ "$aggregated" = 0 ] || programs=("$decode")
if pid="$(running_pid "$decode")"; then
  running=0
  ! is_aggregated "$pid" || running=1
  [ "$running" = "$aggregated" ] || die "$decode (pid $pid) runs already, as the other of pair and --aggregated; end it with --stop"
fi
missing=()
ports=()
for program in "${programs[@]}"; do
  if pid="$(running_pid "$program")"; then
    step "$program is already running (pid $pid)"
    detach=1 # It is not this run's to end.
    continue
  fi
  missing+=("$program")
  case "$program" in
    "$prefill") ports+=("$control_port" LYNX_CONTROL_PORT "$prefill_http_port" LYNX_PREFILL_HTTP_PORT) ;;
    "$decode") ports+=("$http_port" LYNX_HTTP_PORT "$grpc_port" LYNX_GRPC_PORT) ;;
  esac
done
require_free_ports "${ports[@]}"

prefill_threads=()
decode_threads=()
if [ "$aggregated" = 0 ] && [ -z "${LYNX_THREADS:-}" ]; then
  # Prefill is bound by arithmetic and takes the odd core; decode is bound by memory, which half of the cores saturate.
  cores="$(nproc)"
  prefill_threads=(--threads $(((cores + 1) / 2)))
  decode_threads=(--threads $((cores > 1 ? cores / 2 : 1)))
fi

if [ ${#missing[@]} -gt 0 ]; then
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap stop_nodes EXIT
fi
for program in "${missing[@]}"; do
  case "$program" in
    "$prefill")
      start_node "$prefill" --control-port "$control_port" --http-port "$prefill_http_port" --test-residual-delay "$residual_delay" \
        "${prefill_threads[@]}"
      ;;
    "$decode")
      source=(--prefill "127.0.0.1:$control_port")
      [ "$aggregated" = 0 ] || source=(--aggregated)
      start_node "$decode" "${source[@]}" --http-port "$http_port" --grpc-port "$grpc_port" "${decode_threads[@]}"
      ;;
  esac
done
wait_until_ready "${programs[@]}"
[ "$detach" = 0 ] || trap - EXIT INT TERM
for program in "${programs[@]}"; do step "$program is ready (pid $(cat "$run_dir/$program.pid"), log $run_dir/$program.log)"; done

step "asking about $document"
[ "$aggregated" = 1 ] || [ "$residual_delay" = 0 ] ||
  step "Residuals set out $residual_delay ms late, as over a slow link (--residual-delay 0: at once)"
python3 scripts/ask.py --url "$url" "$document" "$question"

if [ "$detach" = 1 ]; then
  step "$url/v1 stays up; end it with scripts/quickstart.sh --stop"
  exit 0
fi
step "serving at $url/v1 until Ctrl-C"
told=0
# Waits in short steps: a signal is handled between them.
while running_pid "$decode" >/dev/null; do
  if [ "$aggregated" = 0 ] && [ "$told" = 0 ] && ! running_pid "$prefill" >/dev/null; then
    told=1
    step "$prefill ended (log $run_dir/$prefill.log); the decode node stays up and waits for it: scripts/quickstart.sh starts it again"
  fi
  sleep 0.5
done
die "$decode ended; see $run_dir/$decode.log"
