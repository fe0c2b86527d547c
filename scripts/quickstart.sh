#!/usr/bin/env bash
# From a fresh checkout to a running server: installs what is missing, builds, fetches the default model, starts lynx-decode-node on
# loopback, streams one answer about a long document, and stays up until Ctrl-C.
#
#   scripts/quickstart.sh [--detach] [--model PATH] [--no-install]
#   scripts/quickstart.sh --stop
#
#   --detach      leave the server running and return when it is ready (pid: .run/lynx-decode-node.pid, log: .run/lynx-decode-node.log)
#   --stop        end a server left running
#   --model PATH  a .gguf file or a Hugging Face directory instead of the default model
#   --no-install  neither apt nor downloads
# The port is 8000, or $LYNX_HTTP_PORT.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

document=docs/sample/harbour_handbook.md
question="What is the name of the lifeboat of Saltmarsh?"
pid_file=.run/lynx-decode-node.pid
log_file=.run/lynx-decode-node.log
port="${LYNX_HTTP_PORT:-8000}"
url="http://127.0.0.1:$port"

usage() { sed -n '2,13s/^# \{0,1\}//p' "$0"; }

running_pid() { # prints the pid of a live server of ours
  local pid
  [ -f "$pid_file" ] || return 1
  pid="$(cat "$pid_file")"
  [ -n "$pid" ] && [ "$(basename "$(readlink "/proc/$pid/exe" 2>/dev/null)" " (deleted)")" = lynx-decode-node ] && printf '%s\n' "$pid"
}

stop_server() {
  local pid
  if ! pid="$(running_pid)"; then
    rm -f "$pid_file"
    step "no server is running"
    return 0
  fi
  kill -TERM "$pid"
  for _ in $(seq 350); do
    if ! kill -0 "$pid" 2>/dev/null; then
      rm -f "$pid_file"
      step "stopped (pid $pid)"
      return 0
    fi
    sleep 0.1
  done
  die "pid $pid does not end; see $log_file"
}

ready() { python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1] + "/health", timeout=2)' "$url" 2>/dev/null; }

start_server() { # model
  mkdir -p .run
  # A session of its own: Ctrl-C reaches this script, which then ends the server in order.
  setsid build/release/cmd/lynx-decode-node --aggregated --host 127.0.0.1 --http-port "$port" --model "$1" >"$log_file" 2>&1 &
  local pid=$!
  echo "$pid" >"$pid_file"
  for _ in $(seq 600); do
    if ! kill -0 "$pid" 2>/dev/null; then
      tail -n 20 "$log_file" >&2
      rm -f "$pid_file"
      die "the server ended while starting (log above)"
    fi
    ready && return 0
    sleep 0.1
  done
  die "the server is not ready after 60 s; see $log_file"
}

install=1
detach=0
model=
while [ $# -gt 0 ]; do
  case "$1" in
    --detach) detach=1 ;;
    --no-install) install=0 ;;
    --stop)
      stop_server
      exit 0
      ;;
    --model)
      [ $# -ge 2 ] || die "--model needs a path"
      model="$2"
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
build release lynx-decode-node lynx

if pid="$(running_pid)"; then
  step "a server is already running (pid $pid); stop it with scripts/quickstart.sh --stop"
  detach=1
else
  [ "$detach" = 1 ] || trap 'trap - EXIT INT TERM; stop_server' EXIT INT TERM
  start_server "$model"
  step "ready on $url (pid $(cat "$pid_file"), log $log_file)"
fi

step "asking about $document"
python3 scripts/ask.py --url "$url" "$document" "$question"

if [ "$detach" = 1 ]; then
  step "the server stays up at $url; end it with scripts/quickstart.sh --stop"
  exit 0
fi
step "serving at $url/v1 until Ctrl-C"
# Waits in short steps: a signal is handled between them.
while running_pid >/dev/null; do sleep 0.5; done
die "the server ended; see $log_file"
