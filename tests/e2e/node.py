"""Starts a daemon for a test and talks to it in the plainest way."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = pathlib.Path(os.environ.get("LYNX_TEST_MODEL", ROOT / ".models" / "SmolLM2-135M-Instruct.Q4_1.gguf"))
PROGRAM = os.environ["LYNX_TEST_DECODE_NODE"]
DEADLINE_S = 900 if os.environ.get("LYNX_TEST_LONG") == "1" else 120  # Of one request, on a machine that others use too.


def eventually(condition, what: str):
    """Waits until condition() is true and returns what it gave."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"never happened: {what}")


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("LYNX_")}


class Node:
    """One server process on free ports (an aggregated one, unless `command` says otherwise); use as a context manager."""

    COMMAND = (PROGRAM, "--aggregated", "--http-port", "0", "--grpc-port", "0")

    def __init__(self, *arguments: str, model: pathlib.Path = MODEL, command: tuple[str, ...] = COMMAND):
        self.folder = tempfile.TemporaryDirectory()
        self.log_path = pathlib.Path(self.folder.name) / "log"
        port_file = pathlib.Path(self.folder.name) / "port"
        self.log = self.log_path.open("wb")
        settings = ["--model", str(model), "--port-file", str(port_file), "--threads", "2", "--kv-memory", "256MiB", *arguments]
        self.process = subprocess.Popen([*command, *settings], stderr=self.log, env=clean_environment())
        try:
            eventually(lambda: port_file.exists() or self.process.poll() is not None, "the server is ready")
            if not port_file.exists():
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log_text()}")
            self.port, self.grpc_port = map(int, port_file.read_text().split())  # Of a prefill node: HTTP and control.
        except BaseException:
            self.kill()
            raise
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()
        self.folder.cleanup()

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self) -> int:
        return self.process.wait(timeout=DEADLINE_S)

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace")

    def request(self, path: str, body=None, headers=None):
        """(status, headers, parsed JSON or text)"""
        data = None if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
        request = urllib.request.Request(self.url + path, data=data, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as response:
                status, head, text = response.status, response.headers, response.read().decode()
        except urllib.error.HTTPError as error:
            status, head, text = error.code, error.headers, error.read().decode()
        return status, head, json.loads(text) if "json" in head.get("Content-Type", "") else text

    def complete(self, **body):
        status, _, answer = self.request("/v1/completions", body)
        assert status == 200, answer
        return answer

    def metric(self, name: str) -> float:
        """The value of a series written exactly like `name`."""
        _, _, text = self.request("/metrics")
        for line in text.splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        raise AssertionError(f"no metric {name}")

    def idle(self) -> bool:
        """Nothing is held for any request (the call that asks counts as one)."""
        return (self.metric("lynx_scheduler_running_requests") == 0 and self.metric("lynx_scheduler_waiting_requests") == 0
                and self.metric("lynx_server_live_calls") <= 1)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S)


def http_bytes(path: str, body, headers: str = "") -> bytes:
    data = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {len(data)}\r\n{headers}\r\n".encode() + data


LONG_TEXT = " ".join(f"In year {year} the river rose by {year % 17} hands and the mill stood still." for year in range(1500, 1700))
