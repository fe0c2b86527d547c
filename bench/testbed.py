#!/usr/bin/env python3
"""A network of two hosts on one machine: two network namespaces, a veth pair between them, its rate limited each way, and if wished a delay.

    bench/testbed.py [--rate 100mbit] [--delay-ms 5] [COMMAND …]

runs COMMAND (outside of the two) with the names of the namespaces in LYNX_TESTBED_A and LYNX_TESTBED_B and the addresses of their ends in
…_A_ADDRESS and …_B_ADDRESS; without a command it waits for Ctrl-C. `ip netns exec NAME …` enters a namespace. --check tries the testbed itself.
Whatever ends it, nothing is left behind; what a killed one could not remove goes when the next one starts. It needs root; where the kernel or
the container allows no namespaces, it prints "not run" and why, and exits with 0.

Frames are held back by a program of our own (lynx-bench-delay-bridge) in a third namespace, since many kernels have no netem.
"""
import argparse
import contextlib
import ctypes
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BRIDGE = ROOT / "build/release/bench/lynx-bench-delay-bridge"
NAME = re.compile(r"^lynx-(\d+)-\w+$")
CLONE_NEWNET = 0x40000000
GSO_BYTES = 65536 + 14  # The largest packet that a TCP sender gives to the interface.
UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}


class NotAllowed(Exception):
    """This machine does not let us make such a network."""


def bits_per_s(rate: str) -> int:
    number, unit = re.fullmatch(r"([\d.]+)([kmg]?bit)", rate).groups()
    return int(float(number) * UNITS[unit])


def burst_bytes(rate: str) -> int:
    """A small bucket: a large one lets a whole message through at once, faster than the link. Where a packet takes less than a millisecond, it
    holds one of the largest size, which would be cut up at some cost otherwise."""
    return 32_768 if bits_per_s(rate) < 500e6 else GSO_BYTES + 2_048


def command(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NotAllowed(f"{words[0]} is not installed") from error
    if done.returncode != 0:
        raise NotAllowed(f"{' '.join(words)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def remove_namespace(name: str) -> None:
    for pid in subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def remove_stale() -> None:
    """Namespaces of testbeds whose process is gone."""
    for line in command("ip", "netns", "list").splitlines():
        match = NAME.match(line.split()[0]) if line else None
        if match and not pathlib.Path("/proc", match[1]).exists():
            remove_namespace(match[0])


class Host:
    """One end of the link."""

    def __init__(self, namespace: str, address: str):
        self.namespace, self.address, self.interface = namespace, address, "eth0"

    @contextlib.contextmanager
    def inside(self):
        """This thread is in the namespace: sockets that it opens stay there."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as outside, open(f"/run/netns/{self.namespace}") as there:
            if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"setns {self.namespace}")
            try:
                yield
            finally:
                libc.setns(outside.fileno(), CLONE_NEWNET)

    def command(self, *words) -> list[str]:
        """To be run from outside."""
        return ["ip", "netns", "exec", self.namespace, *map(str, words)]

    def sent_bytes(self) -> int:
        """What left the interface, behind the limit of its rate. Only inside()."""
        for line in pathlib.Path("/proc/thread-self/net/dev").read_text().splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == self.interface:
                return int(counters.split()[8])
        raise OSError(f"no interface {self.interface}")


def limit_rate(host: Host, rate: str) -> None:
    command(*host.command("tc", "qdisc", "replace", "dev", host.interface, "root", "tbf", "rate", rate, "burst", f"{burst_bytes(rate)}b", "latency", "50ms"))


class Testbed:
    """The network, while it is used as a context manager. `rate` as tc has it ("100mbit"), or None; the delay is one way. `settings`: of
    /proc/sys/net/ipv4, at both ends. `prefix`: words before the delay bridge's command."""

    def __init__(self, rate: str | None = None, delay_ms: float = 0, bridge: pathlib.Path = BRIDGE, settings: dict[str, int] | None = None,
                 prefix: list[str] | None = None):
        self.rate, self.delay_ms, self.bridge_program, self.settings, self.prefix = rate, delay_ms, bridge, settings or {}, prefix or []
        names = [f"lynx-{os.getpid()}-{id(self):x}{end}" for end in "abd"]
        self.a, self.b = Host(names[0], "10.77.0.1"), Host(names[1], "10.77.0.2")
        self.middle = names[2] if delay_ms else None
        self.bridge = None
        self.processes: list[subprocess.Popen] = []

    def __enter__(self):
        if os.geteuid() != 0:
            raise NotAllowed("it needs root")
        remove_stale()
        try:
            self.build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def build(self) -> None:
        for name in self.namespaces():
            command("ip", "netns", "add", name)
            command("ip", "-n", name, "link", "set", "lo", "up")
        if self.middle:
            for host, port in ((self.a, "to-a"), (self.b, "to-b")):
                self.veth(host.namespace, host.interface, self.middle, port)
                command("ip", "-n", self.middle, "link", "set", port, "up")
        else:
            self.veth(self.a.namespace, self.a.interface, self.b.namespace, self.b.interface)
        for host in (self.a, self.b):
            with host.inside(), contextlib.suppress(OSError):  # Some kernels have no IPv6 at all.
                pathlib.Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")
            with host.inside():
                for name, value in self.settings.items():
                    pathlib.Path("/proc/sys/net/ipv4", name).write_text(str(value))
            command("ip", "-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", host.interface)
            command("ip", "-n", host.namespace, "link", "set", host.interface, "up")
            if self.rate:
                limit_rate(host, self.rate)
        if self.middle:
            self.start_bridge()
        for host in (self.a, self.b):  # The kernel tells it a little later.
            deadline = time.monotonic() + 10
            while " state UP " not in command("ip", "-n", host.namespace, "-o", "link", "show", host.interface):
                if time.monotonic() > deadline:
                    raise NotAllowed(f"{host.interface} does not come up")
                time.sleep(0.01)

    @staticmethod
    def veth(namespace_a: str, name_a: str, namespace_b: str, name_b: str) -> None:
        command("ip", "link", "add", name_a, "netns", namespace_a, "type", "veth", "peer", "name", name_b, "netns", namespace_b)

    def start_bridge(self) -> None:
        if not self.bridge_program.exists():
            raise NotAllowed(f"{self.bridge_program} is not built")
        words = ["ip", "netns", "exec", self.middle, *self.prefix, str(self.bridge_program), "to-a", "to-b", str(int(self.delay_ms * 1000))]
        self.bridge = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        if self.bridge.stdout.readline().strip() != "ready":
            raise NotAllowed("the delay bridge cannot open its interfaces")

    def namespaces(self) -> list[str]:
        return [self.a.namespace, self.b.namespace] + ([self.middle] if self.middle else [])

    def start(self, host: Host, *words, **options) -> subprocess.Popen:
        """A program on one of the hosts; it is killed with the testbed at the latest."""
        self.processes.append(subprocess.Popen(host.command(*words), **options))
        return self.processes[-1]

    def set_link(self, up: bool) -> None:
        command("ip", "-n", self.a.namespace, "link", "set", self.a.interface, "up" if up else "down")

    def set_rate(self, rate: str | None) -> None:
        """Of both ends, from now on; connections stay."""
        for host in (self.a, self.b):
            if rate:
                limit_rate(host, rate)
            elif self.rate:
                command(*host.command("tc", "qdisc", "del", "dev", host.interface, "root"))
        self.rate = rate

    def set_segments(self, most: int) -> None:
        """Of what TCP gives to the interface at once. Packets that are larger than the limiter's bucket are cut into frames by the processor, on the sender's core: a
        network card would do that."""
        for host in (self.a, self.b):
            command("ip", "-n", host.namespace, "link", "set", host.interface, "gso_max_size", str(most))

    def close(self) -> None:
        for process in [*self.processes, *([self.bridge] if self.bridge else [])]:
            if process.poll() is None:
                process.kill()
            process.wait()
        for name in self.namespaces():
            remove_namespace(name)


def end_on_signals() -> None:
    """SIGTERM and SIGHUP end the program as Ctrl-C does: with everything cleaned up."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))


def echo_once(host: Host, ready: threading.Event) -> None:
    with host.inside(), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind((host.address, 5000))
        listener.listen()
        ready.set()
        stream, _ = listener.accept()
        with stream:
            while data := stream.recv(1 << 16):
                if data.endswith(b"\n"):
                    stream.sendall(b"\n")


def check(rate: str, delay_ms: float, bridge: pathlib.Path) -> None:
    """The network carries bytes, not faster than it may, not earlier than it should, and not while it is down. Only lower bounds of times: upper
    ones depend on what else the machine does."""
    payload = b"x" * (burst_bytes(rate) + bits_per_s(rate) // 8 // 4) + b"\n"  # A quarter of a second.
    with Testbed(rate, delay_ms, bridge) as bed:
        names = bed.namespaces()
        ready = threading.Event()
        server = threading.Thread(target=echo_once, args=(bed.b, ready), daemon=True)
        server.start()
        ready.wait(10)
        with bed.a.inside(), socket.create_connection((bed.b.address, 5000), timeout=30) as stream:
            began = time.monotonic()
            stream.sendall(b"\n")
            stream.recv(1)
            round_trip_ms = (time.monotonic() - began) * 1000
            began = time.monotonic()
            stream.sendall(payload)
            stream.recv(1)
            seconds = time.monotonic() - began
            assert bed.a.sent_bytes() >= len(payload)
        server.join(10)
        assert round_trip_ms >= 2 * delay_ms, f"a round trip took {round_trip_ms} ms"
        assert seconds >= 0.24, f"{len(payload)} bytes passed in {seconds} s at {rate}"
        bed.set_link(False)
        down = command("ip", "-n", bed.a.namespace, "-o", "link", "show", bed.a.interface)
        assert " state DOWN " in down, f"the link is down, but shown as {down}"
    left = command("ip", "netns", "list")
    assert not any(name in left for name in names), left
    print(f"ok: {rate}, {delay_ms} ms: round trip {round_trip_ms:.2f} ms, {len(payload) * 8 / seconds / 1e6:.1f} Mbit/s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", help="each way, as tc has it: 100mbit, 1gbit; unlimited by default")
    parser.add_argument("--delay-ms", type=float, default=0, help="one way")
    parser.add_argument("--bridge", type=pathlib.Path, default=BRIDGE, help="lynx-bench-delay-bridge")
    parser.add_argument("--check", action="store_true", help="try the testbed, with and without a delay, in a few seconds")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    end_on_signals()
    try:
        if args.check:
            check(args.rate or "40mbit", 0, args.bridge)
            check(args.rate or "40mbit", args.delay_ms or 10, args.bridge)
            return 0
        with Testbed(args.rate, args.delay_ms, args.bridge) as bed:
            names = {f"LYNX_TESTBED_{end}": host.namespace for end, host in (("A", bed.a), ("B", bed.b))}
            names |= {f"LYNX_TESTBED_{end}_ADDRESS": host.address for end, host in (("A", bed.a), ("B", bed.b))}
            if args.command:
                return subprocess.run(args.command, env=os.environ | names, check=False).returncode
            print("\n".join(f"{name}={value}" for name, value in names.items()), flush=True)
            signal.pause()
    except NotAllowed as reason:
        print(f"not run: {reason}")
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
