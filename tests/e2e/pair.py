"""A pair for a test: prefill nodes and the decode node whose prompts they compute."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import signal
import socket

from node import DEADLINE_S, MODEL, PROGRAM, ROOT, Node, eventually

PREFILL = os.environ["LYNX_TEST_PREFILL_NODE"]
LONG = os.environ.get("LYNX_TEST_LONG") == "1"
HANDBOOK = (ROOT / "docs" / "sample" / "harbour_handbook.md").read_text()
GENTLE = ("--shutdown-timeout", "20")
# Several nodes share the cores; and the bits must not depend on it.
ONE_THREAD = ("--threads", "1")


def lasting_port() -> int:
    """A free port that stays ours while its node is dead: the system gives none of below 32768 to connections."""
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", random.randrange(12_000, 32_000)))
                return probe.getsockname()[1]
            except OSError:
                continue


def prefill_node(*arguments: str, ports: tuple[int, int] = (0, 0), model: pathlib.Path = MODEL) -> Node:
    """`ports`: of HTTP and of the control plane."""
    command = (PREFILL, "--http-port", str(ports[0]), "--control-port", str(ports[1]))
    return Node(*ONE_THREAD, *arguments, model=model, command=command)


def decode_node(prefills: list[Node], *arguments: str, ports: tuple[int, int] = (0, 0)) -> Node:
    """`ports`: of HTTP and of gRPC."""
    peers = ",".join(f"127.0.0.1:{node.grpc_port}" for node in prefills)
    return Node(*ONE_THREAD, *arguments, command=(PROGRAM, "--prefill", peers, "--http-port", str(ports[0]), "--grpc-port", str(ports[1])))


def peers(decode: Node) -> list[dict]:
    return decode.request("/health")[2]["pair"]["prefill_nodes"]


class Pair:
    """Ready when made; use as a context manager. Nodes that were killed can be started again on their ports."""

    def __init__(self, prefills: int = 1, prefill: tuple[str, ...] = (), decode: tuple[str, ...] = ()):
        self.arguments = (prefill, decode)
        self.prefills: list[Node] = []
        self.decode = None
        try:
            for _ in range(prefills):
                self.prefills.append(prefill_node(*prefill, ports=(lasting_port(), lasting_port())))
            self.decode = decode_node(self.prefills, *decode, ports=(lasting_port(), lasting_port()))
            self.wait_until_up()
        except BaseException:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    @property
    def prefill(self) -> Node:
        return self.prefills[0]

    def kill(self):
        for node in [self.decode, *self.prefills]:
            if node is not None:
                node.kill()

    def wait_until_up(self):
        eventually(lambda: all(peer["up"] for peer in peers(self.decode)), "every prefill node is up")

    def kill_prefill(self, index: int = 0):
        """As kill -9 does; its ports are kept in mind."""
        node = self.prefills[index]
        node.signal(signal.SIGKILL)
        node.process.wait()

    def restart_prefill(self, index: int = 0):
        old = self.prefills[index]
        old.kill()
        self.prefills[index] = prefill_node(*self.arguments[0], ports=(old.port, old.grpc_port))

    def restart_decode(self):
        old = self.decode
        old.kill()
        self.decode = decode_node(self.prefills, *self.arguments[1], ports=(old.port, old.grpc_port))
        self.wait_until_up()

    def idle(self) -> bool:
        """Neither side holds anything for any request."""
        return self.decode.idle() and all_blocks_free(self.decode) and all(prefill_is_idle(node) for node in self.prefills)

    def wait_until_idle(self):
        eventually(self.idle, "both nodes hold nothing")


def all_blocks_free(node: Node) -> bool:
    return node.metric("lynx_kv_free_blocks") == node.metric("lynx_kv_total_blocks")


def prefill_is_idle(node: Node) -> bool:
    return (all_blocks_free(node) and node.metric("lynx_pair_tickets") == 0 and node.metric("lynx_transport_live_tickets") == 0
            and node.metric("lynx_scheduler_running_requests") == 0 and node.metric("lynx_scheduler_waiting_requests") == 0)


def tokens_of(node: Node, text: str) -> list[int]:
    status, _, answer = node.request("/tokenize", {"prompt": text})
    assert status == 200, answer
    return answer["tokens"]


class StreamEnd:
    """How a streamed completion came to its end."""

    def __init__(self, status: int, text: str, error: dict | None, done: bool):
        self.status, self.text, self.error, self.done = status, text, error, done

    @property
    def whole(self) -> bool:
        return self.status == 200 and self.error is None and self.done

    def __repr__(self):
        return f"StreamEnd({self.status}, {self.text[:40]!r}…, {self.error}, done={self.done})"


def stream(node: Node, body: dict, on_text=None, timeout: float = DEADLINE_S) -> StreamEnd:
    """One streamed completion; `on_text` hears of each piece. An answer that breaks off or stays out raises."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=timeout)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body | {"stream": True}))
        response = connection.getresponse()
        if response.status != 200:
            return StreamEnd(response.status, "", json.loads(response.read())["error"], True)
        text, error, done = "", None, False
        for line in response:
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                done = True
                continue
            event = json.loads(line[len(b"data: "):])
            error = error or event.get("error")
            piece = "".join(choice["text"] for choice in event.get("choices", []))
            text += piece
            if piece and on_text:
                on_text(text)
        return StreamEnd(200, text, error, done)
    finally:
        connection.close()


def in_parallel(jobs, at_once: int) -> list:
    """What `jobs`, callables, give, in their order."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def shuffled(items, seed: int) -> list:
    items = list(items)
    random.Random(seed).shuffle(items)
    return items
