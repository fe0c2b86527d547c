"""Who does not belong: nodes that differ, wrong secrets, forged messages, random bytes at every port, ports that are taken."""
import contextlib
import ipaddress
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

from node import LONG_TEXT, MODEL, PROGRAM, ROOT, clean_environment, eventually
from pair import LONG, PREFILL, Pair, decode_node, in_parallel, peers, prefill_node

STUBS = tempfile.TemporaryDirectory()
subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={ROOT / 'proto'}", f"--python_out={STUBS.name}",
                f"--grpc_python_out={STUBS.name}", "lynx/v1/pair.proto"], check=True)
sys.path.insert(0, STUBS.name)
from lynx.v1 import pair_pb2 as pb  # noqa: E402
from lynx.v1 import pair_pb2_grpc  # noqa: E402

SEED = 99
SECRET = "sixteen letters at least"
CONNECTIONS = 10_000 if LONG else 500  # At each port.


def address_of(field: str) -> tuple[str, int]:
    """An entry of /proc/net/tcp or tcp6: words of host order, then the port. Where all addresses are meant, the loopback one."""
    words, port = field.split(":")
    raw = b"".join(int(words[i:i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(words), 8))
    host = ipaddress.ip_address(raw)
    host = getattr(host, "ipv4_mapped", None) or host
    return "127.0.0.1" if host.is_unspecified else str(host), int(port, 16)


def listening(pid: int) -> set[tuple[str, int]]:
    """All TCP addresses that a process listens on: HTTP, gRPC and UCX's data ports."""
    sockets = set()
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # Closed meanwhile.
            sockets.add(os.readlink(descriptor).removeprefix("socket:[").rstrip("]"))
    lines = [line.split() for table in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]]
    return {address_of(fields[1]) for fields in lines if fields[3] == "0A" and fields[9] in sockets}


def resident_bytes(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Stranger:
    """Speaks the control plane's protocol to a prefill node."""

    def __init__(self, port: int, secret: str | None = None):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])
        self.stub = pair_pb2_grpc.PairControlStub(self.channel)
        self.metadata = [("lynx-pair-secret", secret)] if secret is not None else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def talk(self, messages, keep_open_s: float = 0):
        """(answers, code, words) of one stream."""
        def say():
            yield from messages
            time.sleep(keep_open_s)

        answers = []
        try:
            for answer in self.stub.Connect(say(), metadata=self.metadata, timeout=30):
                answers.append(answer)
            return answers, grpc.StatusCode.OK, ""
        except grpc.RpcError as error:
            return answers, error.code(), error.details()


class DifferentNodesTest(unittest.TestCase):
    def check_refused(self, decode, prefill, words: str):
        problem = eventually(lambda: words in (shown := peers(decode)[0]["problem"]) and shown, f"the refusal says {words!r}")
        self.assertFalse(peers(decode)[0]["up"], problem)
        status, _, answer = decode.request("/v1/completions", {"prompt": "x", "max_tokens": 2})
        self.assertEqual(status, 503, answer)
        self.assertEqual(decode.request("/health")[0], 503)
        for node in (decode, prefill):
            self.assertEqual(node.request("/ping")[0], 200)
            self.assertIsNone(node.process.poll())
        self.assertEqual(prefill.metric("lynx_pair_sessions"), 0)
        self.assertIn(words, decode.log_text())

    def test_one_bit_of_the_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / MODEL.name
            shutil.copyfile(MODEL, other)
            with other.open("r+b") as file:
                file.seek(-4097, os.SEEK_END)  # In the last tensor.
                byte = file.read(1)[0]
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte ^ 1]))
            with prefill_node(model=other) as prefill, decode_node([prefill]) as decode:
                self.check_refused(decode, prefill, "weights differs")

    def test_another_secret_or_none(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / name for name in ("one", "other")]
            for number, file in enumerate(files):
                file.write_text(f"{SECRET} of {number}\n".replace(" ", "-"))
            with prefill_node("--pair-secret-file", str(files[0])) as prefill:
                for arguments in (("--pair-secret-file", str(files[1])), ()):
                    with decode_node([prefill], *arguments) as decode:
                        self.check_refused(decode, prefill, "--pair-secret-file")
                with decode_node([prefill], "--pair-secret-file", str(files[0])) as decode:
                    eventually(lambda: decode.request("/health")[0] == 200, "the right secret opens")
                self.assertNotIn("letters", prefill.log_text(), "secrets are not logged")

    def test_a_transport_that_is_not_there(self):
        with prefill_node() as prefill, decode_node([prefill], "--require-transport", "rc_mlx5") as decode:
            eventually(lambda: "--require-transport" in peers(decode)[0]["problem"], "the transport is refused")
            self.assertEqual(decode.request("/v1/completions", {"prompt": "x"})[0], 503)


class StartTest(unittest.TestCase):
    def test_a_port_that_is_taken_ends_the_program_at_once(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            prefill = (PREFILL, "--model", str(MODEL))
            decode = (PROGRAM, "--model", str(MODEL), "--prefill", "127.0.0.1:1")
            for command in ((*prefill, "--http-port", port, "--control-port", "0"), (*prefill, "--http-port", "0", "--control-port", port),
                            (*decode, "--http-port", port, "--grpc-port", "0"), (*decode, "--http-port", "0", "--grpc-port", port)):
                result = subprocess.run(command, capture_output=True, text=True, timeout=20, env=clean_environment(), check=False)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(port, result.stderr)
                self.assertNotIn("model loaded", result.stderr, "it is told before the model is read")

    def test_a_network_device_that_is_not_there_is_named(self):
        for command in ((PREFILL, "--control-port", "0"), (PROGRAM, "--prefill", "127.0.0.1:1", "--grpc-port", "0")):
            result = subprocess.run([*command, "--model", str(MODEL), "--http-port", "0", "--net-devices", "nosuch0"], capture_output=True, text=True,
                                    timeout=60, env=clean_environment(), check=False)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("nosuch0", result.stderr)


class StrangersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pair = Pair()
        cls.addClassCleanup(cls.pair.kill)
        cls.body = {"prompt": LONG_TEXT[:1500], "max_tokens": 12, "temperature": 0, "logprobs": 1}
        cls.want = cls.pair.decode.complete(**cls.body)["choices"]
        health = cls.pair.prefill.request("/health")[2]
        cls.numerics = health["pair"]["numerics"]

    def tearDown(self):
        for node in (self.pair.decode, self.pair.prefill):
            self.assertIsNone(node.process.poll(), node.log_text()[-3000:])
        self.assertEqual(self.pair.decode.complete(**self.body)["choices"], self.want)
        self.pair.wait_until_idle()
        eventually(lambda: self.pair.prefill.metric("lynx_pair_sessions") == 1, "strangers' sessions are over")

    def fitting_hello(self) -> pb.NodeHello:
        """What fits in every field, found field by field from what refusals say; its data-plane addresses lead nowhere."""
        hello = pb.NodeHello(protocol=1, kv_dtype="bf16", transfers=["bf16", "lossless"], lanes=[b"\x01" * 40, b"\x02" * 40], boot=1)
        with Stranger(self.pair.prefill.grpc_port) as stranger:
            for _ in range(20):
                _, code, words = stranger.talk([pb.DecodeMessage(hello=hello)])
                if code != grpc.StatusCode.FAILED_PRECONDITION:
                    return hello
                if "transfers: the peer lacks " in words:
                    hello.transfers.append(words.split("lacks ")[1])
                    continue
                field = words.split(" differs")[0].split(": ")[-1]
                ours = words.split("ours is ")[1].split(", the peer's")[0]
                setattr(hello, field, int(ours) if isinstance(getattr(hello, field), int) else ours)
        raise AssertionError("no hello fits")

    def test_a_hello_that_differs_is_refused_by_name(self):
        fitting = self.fitting_hello()
        changes = {"protocol": 99, "ucx_version": "0.1", "weights": "0" * 64, "tokenizer": "x" * 100_000, "kv_dtype": "fp8\n\x1b[31m", "block_tokens": 128,
                   "layers": 0, "kv_heads": 2**32 - 1, "head_dim": 1}
        with Stranger(self.pair.prefill.grpc_port) as stranger:
            for field, value in changes.items():
                hello = pb.NodeHello()
                hello.CopyFrom(fitting)
                setattr(hello, field, value)
                answers, code, words = stranger.talk([pb.DecodeMessage(hello=hello)])
                self.assertEqual((answers, code), ([], grpc.StatusCode.FAILED_PRECONDITION), field)
                self.assertIn(field, words)
                self.assertLess(len(words), 1000)
                self.assertTrue(words.isprintable(), words)
            for field, values in {"lanes": [[], [b"x"], [b"x"] * 3], "transfers": [[], ["zip"]]}.items():
                for value in values:
                    hello = pb.NodeHello()
                    hello.CopyFrom(fitting)
                    hello.ClearField(field)
                    getattr(hello, field).extend(value)
                    _, code, words = stranger.talk([pb.DecodeMessage(hello=hello)])
                    self.assertEqual(code, grpc.StatusCode.FAILED_PRECONDITION, words)
                    self.assertIn(field, words)

    def test_addresses_that_lead_nowhere_end_the_session(self):
        draw = random.Random(SEED)
        hello = self.fitting_hello()
        lanes = [[b"", b""], [b"\0" * 8, b"\0" * 8], [b"\xff" * 64] * 2, [b"x" * 100_000] * 2]
        lanes += [[draw.randbytes(draw.choice((1, 8, 60, 200, 1000))) for _ in range(2)] for _ in range(50)]
        with Stranger(self.pair.prefill.grpc_port) as stranger:
            for pair in lanes:
                del hello.lanes[:]
                hello.lanes.extend(pair)
                _, code, words = stranger.talk([pb.DecodeMessage(hello=hello)], keep_open_s=0.05)
                self.assertIsNone(self.pair.prefill.process.poll(), (pair, words, self.pair.prefill.log_text()[-2000:]))

    def test_messages_out_of_order_and_nonsense(self):
        draw = random.Random(SEED + 1)
        hello = self.fitting_hello()
        ticket = pb.Ticket(number=5, secret=b"s" * 16, request_id="x", cache=True, transfer="bf16", prompt=[1, 2, 3], choices=1, sample=True, top_logprobs=-1,
                           prompt_top_logprobs=-1, sampling=pb.Sampling(temperature=1, top_p=1, repetition_penalty=1))

        def changed(**fields):
            other = pb.Ticket()
            other.CopyFrom(ticket)
            for name, value in fields.items():
                if isinstance(value, list):
                    other.ClearField(name)
                    getattr(other, name).extend(value)
                elif isinstance(value, pb.Sampling):
                    other.sampling.CopyFrom(value)
                else:
                    setattr(other, name, value)
            return pb.DecodeMessage(ticket=other)

        nan, inf = float("nan"), float("inf")
        bad = [changed(secret=b""), changed(secret=b"x" * 1000), changed(transfer="zip"), changed(prompt=[]), changed(prompt=[-1]), changed(prompt=[2**31 - 1]),
               changed(prompt=[1] * 100_000), changed(choices=0), changed(choices=-1), changed(choices=2**31 - 1), changed(top_logprobs=2**31 - 1),
               changed(prompt_top_logprobs=-5), changed(sampling=pb.Sampling(temperature=nan)), changed(sampling=pb.Sampling(temperature=-inf)),
               changed(sampling=pb.Sampling(temperature=1, top_p=1, repetition_penalty=1, logit_bias=[pb.TokenBias(id=-7, bias=1)])),
               changed(sampling=pb.Sampling(temperature=1, top_p=1, repetition_penalty=1, logit_bias=[pb.TokenBias(id=2**31 - 1, bias=nan)])),
               changed(sampling=pb.Sampling(temperature=1, top_p=1, repetition_penalty=1, min_tokens=2**31 - 1)), changed(stop_token_ids=[-1, 2**31 - 1]),
               pb.DecodeMessage(probe=pb.Probe(number=1, secret=b"s" * 16, units=2**32 - 1, unit_bytes=2**32 - 1)), pb.DecodeMessage(probe=pb.Probe()),
               pb.DecodeMessage(cancel=pb.TicketNumber(number=77)), pb.DecodeMessage(release=pb.TicketNumber(number=1)), pb.DecodeMessage(),
               pb.DecodeMessage(hello=hello)]
        with Stranger(self.pair.prefill.grpc_port) as stranger:
            _, code, words = stranger.talk([changed()])
            self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT, words)
            self.assertIn("hello", words)
            for _ in range(30 if LONG else 6):
                messages = [pb.DecodeMessage(hello=hello)] + [draw.choice(bad) for _ in range(20)]
                stranger.talk(messages, keep_open_s=0.02)
                self.assertIsNone(self.pair.prefill.process.poll(), self.pair.prefill.log_text()[-2000:])
            for message in bad:
                stranger.talk([pb.DecodeMessage(hello=hello), message, message], keep_open_s=0.02)
                self.assertIsNone(self.pair.prefill.process.poll(), (message, self.pair.prefill.log_text()[-2000:]))
            for live in (changed(), changed(cache=False, prompt=[1] * 200)):  # A number that is taken, by a ticket that is in order.
                for message in bad:
                    stranger.talk([pb.DecodeMessage(hello=hello), live, message, live], keep_open_s=0.02)
                    self.assertIsNone(self.pair.prefill.process.poll(), (message, self.pair.prefill.log_text()[-2000:]))

    def all_addresses(self) -> list[tuple[str, int]]:
        nodes = (self.pair.decode, self.pair.prefill)
        addresses = set().union(*(listening(node.process.pid) for node in nodes))
        known = {("127.0.0.1", port) for node in nodes for port in (node.port, node.grpc_port)}
        self.assertTrue(known <= addresses, addresses)
        self.assertGreaterEqual(len(addresses - known), 2, "UCX listens too")
        for address in addresses:
            socket.create_connection(address, timeout=10).close()  # All of them can be reached from here.
        return sorted(addresses)

    def test_connections_that_stay_half_open_stand_in_nobodys_way(self):
        with contextlib.ExitStack() as held:
            for address in self.all_addresses():
                for number in range(60):
                    connection = held.enter_context(socket.create_connection(address, timeout=10))
                    with contextlib.suppress(OSError):  # It was closed: just as well.
                        connection.sendall((b"", b"P", b"PRI * HTTP/2.0\r\n", b"\x08\0\0\0")[number % 4])
            self.assertEqual(self.pair.decode.complete(**self.body)["choices"], self.want)
            self.assertTrue(peers(self.pair.decode)[0]["up"])

    def test_random_bytes_at_every_port(self):
        nodes = (self.pair.decode, self.pair.prefill)
        addresses = self.all_addresses()

        def knock(address: tuple[str, int], number: int):
            draw = random.Random(SEED * 100_003 + address[1] * 10_007 + number)
            kind = draw.randrange(5)
            try:
                with socket.create_connection(address, timeout=10) as connection:
                    connection.settimeout(0.02 if kind < 3 else 0.001)
                    data = draw.randbytes(draw.choice((1, 8, 16, 24, 100, 1000, 20_000)))
                    if kind == 1:
                        data = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + data
                    if kind == 2:
                        data = draw.randrange(2**32).to_bytes(4, "little") + b"\0" * draw.randrange(64) + data
                    if kind != 4:  # Else it says nothing and goes.
                        connection.sendall(data)
                        connection.recv(100)
            except OSError:
                pass

        def batch(count: int):
            in_parallel([lambda address=address, number=number: [knock(address, number * 100 + i) for i in range(50)]
                         for address in addresses for number in range(count // 50)], 16)

        batch(CONNECTIONS // 5)  # Caches and pools fill.
        before = [resident_bytes(node.process.pid) for node in nodes]
        batch(CONNECTIONS)
        for node, was in zip(nodes, before):
            self.assertIsNone(node.process.poll(), node.log_text()[-3000:])
            self.assertLess(resident_bytes(node.process.pid) - was, 48 << 20, "memory stays flat")
        self.assertTrue(peers(self.pair.decode)[0]["up"] or eventually(lambda: peers(self.pair.decode)[0]["up"], "the pair is whole"))

    def test_no_header_or_field_names_an_address_to_connect_to(self):
        with socket.socket() as trap:
            trap.bind(("127.0.0.1", 0))
            trap.listen()
            trap.settimeout(0.5)
            address = f"127.0.0.1:{trap.getsockname()[1]}"
            headers = {name: address for name in ("X-Prefill", "X-Forwarded-Host", "X-Data-Parallel-Rank", "X-Request-Id", "Forwarded", "Via")}
            extra = {"kv_transfer_params": {"remote_host": "127.0.0.1", "remote_port": trap.getsockname()[1]}, "bootstrap_host": "127.0.0.1",
                     "bootstrap_port": trap.getsockname()[1], "prefill": address}
            self.pair.decode.request("/v1/completions", {"prompt": "x", "max_tokens": 3} | extra, headers | {"Host": address})
            status, _, answer = self.pair.decode.request("/v1/completions", {"prompt": "x", "lynx": {"prefill": address}})
            self.assertEqual(status, 400, answer)
            with self.assertRaises(TimeoutError):
                trap.accept()


if __name__ == "__main__":
    unittest.main()
