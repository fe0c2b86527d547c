"""A pair of daemons on a link of its own: how busy the wire is, what an idle pair costs, what happens when the link goes. Run by bench/transfer.py."""
import contextlib
import http.client
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

from testbed import Host, Testbed

PROMPT_TOKENS = 6000
SAMPLE_S = 0.01
DATA_BYTES_A_SAMPLE = 6_000  # Less is control traffic.
IDLE_S = 10
FIRST_NICE = -19
DEADLINE_S = 120
CONTROL_PORT, PREFILL_HTTP_PORT, DECODE_HTTP_PORT = 7000, 7001, 8000


class Sampler:
    """Bytes that left a host, every 10 ms."""

    def __init__(self, host: Host):
        self.host, self.samples = host, []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        with self.host.inside():
            while not self.stopping.is_set():
                self.samples.append((time.monotonic(), self.host.sent_bytes()))
                time.sleep(SAMPLE_S)

    def stop(self) -> list[tuple[float, int]]:
        self.stopping.set()
        self.thread.join()
        return self.samples


def put_first(pid: int) -> None:
    """Its session goes before the others. (The kernel weighs sessions against each other; nice counts within one.)"""
    pathlib.Path(f"/proc/{pid}/autogroup").write_text(f"{FIRST_NICE}")


class PairOnLink:
    """A prefill node at one end of the testbed, a decode node at the other."""

    def __init__(self, bed: Testbed, build: pathlib.Path, model: pathlib.Path, folder: str, first: bool, cores: tuple[int, int] | None = None,
                 options: tuple[str, ...] = ()):
        """`first`: before most of what else the machine does. `cores`: the prefill node's and the decode node's; each computes with one thread then."""
        self.bed, self.folder = bed, pathlib.Path(folder)
        # Both ends are one machine to UCX: it would take shared memory.
        environment = os.environ | {"UCX_TLS": "tcp,self"}
        common = ["--model", model, "--kv-memory", "512MiB", "--net-devices", "eth0"]
        secret = self.folder / "secret"
        secret.write_text("of-this-benchmark-only")
        secret.chmod(0o600)
        common += ["--pair-secret-file", secret, *options]
        pins = ([], [])
        if cores:
            common += ["--threads", 1]
            pins = tuple(["taskset", "-c", core] for core in cores)
        self.logs = [open(self.folder / f"{name}.log", "wb") for name in ("prefill", "decode")]
        self.prefill = bed.start(bed.a, *pins[0], build / "cmd/lynx-prefill-node", *common, "--host", bed.a.address, "--control-port", CONTROL_PORT, "--http-port", PREFILL_HTTP_PORT,
                                 env=environment, stderr=self.logs[0], start_new_session=True)
        self.decode = bed.start(bed.b, *pins[1], build / "cmd/lynx-decode-node", *common, "--prefill", f"{bed.a.address}:{CONTROL_PORT}", "--http-port", DECODE_HTTP_PORT, "--grpc-port", 0,
                                env=environment, stderr=self.logs[1], start_new_session=True)
        if first:
            for process in (self.prefill, self.decode):
                put_first(process.pid)
        self.wait(self.is_up, "the pair is up")

    def wait(self, condition, what: str) -> float:
        """Seconds until condition() is true."""
        began = time.monotonic()
        while time.monotonic() - began < DEADLINE_S:
            if self.prefill.poll() is not None or self.decode.poll() is not None:
                break
            with contextlib.suppress(OSError, http.client.HTTPException):
                if condition():
                    return time.monotonic() - began
            time.sleep(0.02)
        logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log"))
        sys.exit(f"never happened: {what}\n{logs}")

    def ask(self, path: str, body: dict | None = None, host: Host | None = None) -> tuple[int, bytes, float]:
        """(status, body, seconds to its first line)"""
        host = host or self.bed.b
        name, port = ("127.0.0.1", DECODE_HTTP_PORT) if host is self.bed.b else (host.address, PREFILL_HTTP_PORT)
        with host.inside():
            connection = http.client.HTTPConnection(name, port, timeout=DEADLINE_S)
            connection.connect()
        began = time.monotonic()
        with contextlib.closing(connection):
            connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            first = response.readline()
            while first.startswith(b":") or first == b"\n":  # Of a stream that waits.
                first = response.readline()
            seconds = time.monotonic() - began
            return response.status, first + response.read(), seconds

    def node(self) -> dict:
        """The prefill node as the decode node sees it; empty while that is loading."""
        return json.loads(self.ask("/health")[1]).get("pair", {"prefill_nodes": [{}]})["prefill_nodes"][0]

    def is_up(self) -> bool:
        return self.node().get("up", False)

    def device(self) -> str:
        node = self.node()
        return f"{node.get('transport', '?')} over {node.get('device', '?')}"

    def tickets(self) -> float:
        """That the prefill node holds anything for."""
        for line in self.ask("/metrics", host=self.bed.a)[1].decode().splitlines():
            if line.startswith("lynx_pair_tickets "):
                return float(line.split()[1])
        raise OSError("no metric lynx_pair_tickets")

    def complete(self, seed: int, mode: str, tokens: int = PROMPT_TOKENS) -> tuple[int, bytes, float]:
        draw = random.Random(seed)
        body = {"prompt": [draw.randrange(1000, 40_000) for _ in range(tokens)], "max_tokens": 2, "temperature": 0, "stream": True, "ignore_eos": True, "lynx": {"transfer": mode}}
        return self.ask("/v1/completions", body)

    def cpu_seconds(self) -> list[float]:
        ticks = os.sysconf("SC_CLK_TCK")
        times = [pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split() for process in (self.prefill, self.decode)]
        return [(int(fields[11]) + int(fields[12])) / ticks for fields in times]


def capacity_bytes_per_s(bed: Testbed, build: pathlib.Path) -> float:
    """What a saturated TCP stream puts on this wire, counted as the transfers are."""
    with tempfile.TemporaryDirectory() as folder:
        common = ["--net-devices", "eth0", "--transports", "tcp", "--modes", "bf16", "--repeats", "1", "--tokens", "1024"]
        receiver = bed.start(bed.b, build / "bench/lynx-bench-transfer", "--listen", folder, *common, stdout=subprocess.DEVNULL)
        sampler = Sampler(bed.a)
        sender = bed.start(bed.a, build / "bench/lynx-bench-transfer", "--connect", folder, "--tcp-host", bed.b.address, *common, stdout=subprocess.PIPE, text=True)
        line = json.loads(sender.communicate()[0].splitlines()[0])
        receiver.wait()
        samples = sampler.stop()
    end = samples[-1][0]
    inside = [sample for sample in samples if end - line["tcp_seconds"] + 0.3 < sample[0] < end - 0.5]
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


def busy(samples: list[tuple[float, int]], capacity: float) -> tuple[float, float, float, float]:
    """(share of the wire's capacity that was used from the first data to the last, share of 50 ms spans in which less than half was, seconds of
    that time, bytes)"""
    data = [i for i in range(1, len(samples)) if samples[i][1] - samples[i - 1][1] >= DATA_BYTES_A_SAMPLE]
    first, last = data[0] - 1, data[-1]
    span = samples[last][0] - samples[first][0]
    sent = samples[last][1] - samples[first][1]
    slow = total = 0
    start = first
    for i in range(first, last + 1):
        seconds = samples[i][0] - samples[start][0]
        if seconds < 0.05:
            continue
        total += 1
        slow += (samples[i][1] - samples[start][1]) / seconds < capacity / 2
        start = i
    return sent / (capacity * span), slow / max(total, 1), span, sent


def measure_wire(pair: PairOnLink, capacity: float, repeats: int) -> list[str]:
    lines = [f"### A prompt of {PROMPT_TOKENS:,} tokens", "",
             f"Random tokens, computed by the prefill node while its cache travels ({pair.device()}). Busy: the bytes that left the prefill node's interface from the first block to "
             f"the last byte (sampled every 10 ms), of what a saturated TCP stream puts on the same wire in that time ({capacity / 1e6:.2f} MB/s, the best of three in this run).", "",
             "| mode | MB on the wire | s from first block to last byte | busy | 50 ms spans below half | s to the first token | prefill tok/s |", "|---|---:|---:|---:|---:|---:|---:|"]
    for repeat in range(repeats):
        for mode in ("bf16", "lossless"):
            sampler = Sampler(pair.bed.a)
            status, answer, first_token_s = pair.complete(repeat, mode)
            samples = sampler.stop()
            if status != 200 or b"[DONE]" not in answer:
                sys.exit(f"a request failed: {status} {answer[:300]!r}")
            share, slow, span, sent = busy(samples, capacity)
            lines.append(f"| {mode} | {sent / 1e6:.1f} | {span:.2f} | **{share:.1%}** | {slow:.1%} | {first_token_s:.2f} | {PROMPT_TOKENS / first_token_s:.0f} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines + [""]


def measure_idle(pair: PairOnLink) -> list[str]:
    time.sleep(1)
    before = pair.cpu_seconds()
    time.sleep(IDLE_S)
    used = [after - start for start, after in zip(before, pair.cpu_seconds())]
    text = f"CPU time over {IDLE_S} s after traffic: prefill node {used[0] * 1000:.0f} ms ({used[0] / IDLE_S:.2%}), decode node {used[1] * 1000:.0f} ms ({used[1] / IDLE_S:.2%})."
    print(text, file=sys.stderr, flush=True)
    return ["### Idle", "", text + " Keepalives of the control plane (1/s) and of UCX included.", ""]


def come_back(pair: PairOnLink, seed: int) -> float:
    """The link goes up; seconds until the node is up, after which a request must succeed."""
    pair.bed.set_link(True)
    seconds = pair.wait(pair.is_up, "the node is up again")
    status, answer, _ = pair.complete(seed, "lossless", 300)
    if status != 200 or b"[DONE]" not in answer:
        sys.exit(f"no answer after the link came back: {status} {answer[:300]!r}")
    return seconds


def cut(pair: PairOnLink, seed: int, in_transfer: bool) -> tuple[float, float, float, float, str]:
    """(seconds to notice, to the request's end, until the prefill node holds nothing, to be up again, the request's end)"""
    ends = []
    sampler = Sampler(pair.bed.a)
    request = threading.Thread(target=lambda: ends.append((pair.complete(seed, "bf16"), time.monotonic())), daemon=True)
    if in_transfer:
        request.start()
        pair.wait(lambda: sampler.samples and sampler.samples[-1][1] - sampler.samples[0][1] > 4e6, "the transfer is under way")
    pair.bed.set_link(False)
    began = time.monotonic()
    if not in_transfer:
        request.start()
    noticed = pair.wait(lambda: not pair.is_up(), "the decode node notices")
    request.join(DEADLINE_S)
    (status, answer, _), ended = ends[0]
    pair.wait(lambda: pair.tickets() == 0, "the prefill node lets go")
    freed = time.monotonic() - began
    sampler.stop()
    back = come_back(pair, seed + 1)
    events = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith(b"data: {")] if status == 200 else [json.loads(answer)]
    error = next((event["error"]["message"] for event in events if "error" in event), "none: the whole text")
    return noticed, ended - began, freed, back, f"{status}, {error}"


def measure_cuts(pair: PairOnLink, repeats: int) -> list[str]:
    lines = ["### The link goes down", "", "Seconds from `ip link set down`, until the decode node's /health says that its prefill node is not up, until the request has its end, and until the "
             "prefill node holds nothing of it; and from `ip link set up` until the node is up again (then a request must succeed).", "",
             "| when | noticed | request ended | prefill node free | up again | end of the request |", "|---|---:|---:|---:|---:|---|"]
    for repeat in range(repeats):
        for in_transfer in (True, False):
            noticed, ended, freed, back, how = cut(pair, 1000 + 10 * repeat + in_transfer, in_transfer)
            lines.append(f"| {'in a transfer' if in_transfer else 'idle, a request right after'} | **{noticed:.1f}** | {ended:.1f} | {freed:.1f} | {back:.1f} | {how} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines + [""]


def measure(args) -> list[str]:
    lines = []
    for number, rate in enumerate(args.pair_rates.split(",")):
        lines += [f"## The pair at {rate}", ""]
        with Testbed(rate) as bed, tempfile.TemporaryDirectory() as folder:
            capacity = max(capacity_bytes_per_s(bed, args.build) for _ in range(3))
            pair = PairOnLink(bed, args.build, args.model, folder, args.realtime)
            lines += measure_wire(pair, capacity, min(args.repeats, 2) if number == 0 else 1)
            if number == 0:
                lines += measure_idle(pair) + measure_cuts(pair, 2)
    return lines
