#!/usr/bin/env python3
"""How long an Anchor burst takes while Residuals saturate the link; the table and plot of docs/benchmarks/lanes.md.

    bench/lanes.py [--links 100mbit,1gbit,200mbit+10ms] [--rounds 2] [--realtime] [--peer-python PYTHON] [--out FILE.md] [--smoke]

lynx-bench-lanes between the two ends of bench/testbed.py: bursts of 2 MiB with pauses of 50 to 200 ms, alone and over a backlog, in phases of one run; each
time is divided by the median of the bursts alone in its own run. Policies take turns. With --peer-python, an interpreter that has the PyPI packages `nixl` and
`mooncake-transfer-engine-non-cuda`, bench/lanes_peer.py does the same with those. --smoke: one link, a few seconds, no claim about times. Needs root; where
network namespaces are not allowed it prints "not run".
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from runtime import cpu_name
from testbed import BRIDGE, ROOT, NotAllowed, Testbed, end_on_signals

POLICIES = {"adaptive": "strict priority, adaptive window (ours)", "fixed": "strict priority, window of 256 KiB", "unpaced": "two lanes, no window",
            "fifo": "one lane, FIFO"}
PEERS = {"nixl": "NIXL (peer)", "mooncake": "Mooncake, TCP (peer)"}
COLORS = {"adaptive": "#0072b2", "fixed": "#009e73", "unpaced": "#e69f00", "fifo": "#d55e00", "nixl": "#777777", "mooncake": "#b48ead"}
# Else a connection that was idle for a retransmission timeout (220 ms here) begins slowly again, idle link or not.
SETTINGS = {"tcp_slow_start_after_idle": 0}


def parse_link(link: str) -> tuple[str, float]:
    rate, delay = re.fullmatch(r"([\d.]+[kmg]?bit)(?:\+([\d.]+)ms)?", link).groups()
    return rate, float(delay or 0)


def link_name(link: str) -> str:
    rate, delay = parse_link(link)
    return rate + (f", {2 * delay:g} ms RTT" if delay else "")


def percentile(values: list[float], share: float) -> float:
    """The smallest value that is not below so many of them."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


class Run:
    """One run of one policy on one link."""

    def __init__(self, phases: list[dict]):
        idle = [phase for phase in phases if phase["what"] == "idle"]
        loaded = [phase for phase in phases if phase["what"] == "loaded"]
        self.idle_ms = [ms for phase in idle for ms in phase["bursts_ms"]]
        self.loaded_ms = [ms for phase in loaded for ms in phase["bursts_ms"]]
        if not self.idle_ms or not self.loaded_ms:
            raise RuntimeError("a run without bursts")
        self.idle_p50 = statistics.median(self.idle_ms)
        self.ratios = [ms / self.idle_p50 for ms in self.loaded_ms]
        self.mbit = sum(phase["bytes"] for phase in loaded) * 8e-6 / sum(phase["seconds"] for phase in loaded)


def run(link: str, policy: str, args) -> Run:
    rate, delay_ms = parse_link(link)
    first = ["chrt", "-r", "5"] if args.realtime else []
    environment = dict(os.environ)
    if policy in PEERS:
        words = [*(first if policy != "nixl" else []), args.peer_python, ROOT / "bench/lanes_peer.py", policy]
        environment |= {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "eth0"}
    else:
        words = [*first, args.program, "--net-devices", "eth0", "--transports", "tcp", "--policy", policy]
    words += ["--idle-seconds", args.idle_seconds, "--loaded-seconds", args.loaded_seconds]
    with Testbed(rate, delay_ms, args.bridge, SETTINGS, first) as bed, tempfile.TemporaryDirectory() as folder:
        def start(host, *more):
            extra = ["--address", host.address] if policy in PEERS else []
            return bed.start(host, *words, *more, *extra, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if policy in PEERS else None, text=True)
        receiver, sender = start(bed.b, "--listen", folder), start(bed.a, "--connect", folder)
        out = sender.communicate(timeout=20 * (args.idle_seconds + args.loaded_seconds) + 120)[0]
        if sender.returncode:
            receiver.kill()
        receiver.communicate()
        if sender.returncode or receiver.returncode:
            raise RuntimeError(f"{policy} over {link}: exit codes {sender.returncode} and {receiver.returncode}")
    return Run([json.loads(line) for line in out.splitlines() if line.startswith("{")])


def row(policy: str, runs: list[Run], fifo_mbit: float) -> str:
    idle = [ms for each in runs for ms in each.idle_ms]
    loaded = [ms for each in runs for ms in each.loaded_ms]
    ratios = [ratio for each in runs for ratio in each.ratios]
    mbit = statistics.mean(each.mbit for each in runs)
    bold = "**" if policy == "adaptive" else ""
    return (f"| {(POLICIES | PEERS)[policy]} | {len(loaded)} | {statistics.median(idle):.1f} | {percentile(idle, 0.99):.1f} | {statistics.median(loaded):.1f} "
            f"| {percentile(loaded, 0.99):.1f} | {bold}{statistics.median(ratios):.2f}x{bold} | {bold}{percentile(ratios, 0.99):.2f}x{bold} | {mbit:.1f} "
            f"| {bold}{mbit / fifo_mbit:.1%}{bold} |")


def measure(link: str, args) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {}
    for number in range(args.rounds):
        for policy in [*POLICIES, *(PEERS if args.peer_python and number == 0 else ())]:
            try:
                runs.setdefault(policy, []).append(run(link, policy, args))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                if policy not in PEERS:
                    sys.exit(str(error))
                print(f"{policy} did not run: {error}", file=sys.stderr)
                runs.pop(policy, None)
                continue
            last = runs[policy][-1]
            print(f"{link} {policy}: {statistics.median(last.ratios):.2f}x, p99 {percentile(last.ratios, 0.99):.2f}x, {last.mbit:.1f} Mbit/s", file=sys.stderr, flush=True)
    return runs


def table(link: str, runs: dict[str, list[Run]]) -> list[str]:
    fifo = statistics.mean(each.mbit for each in runs["fifo"])
    lines = [f"## {link_name(link)}", "",
             "| sender | bursts | idle p50, ms | idle p99 | loaded p50, ms | loaded p99 | p50 / idle | p99 / idle | goodput, Mbit/s | of FIFO |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    lines += [row(policy, some, fifo) for policy, some in runs.items()]
    return [*lines, ""]


def curve(values: list[float], to_x, to_y) -> str:
    values = sorted(values)
    points = [f"{to_x(values[0]):.1f},{to_y(0):.1f}"]
    for i, value in enumerate(values):
        points += [f"{to_x(value):.1f},{to_y(i / len(values)):.1f}", f"{to_x(value):.1f},{to_y((i + 1) / len(values)):.1f}"]
    return " ".join(points)


def legend(policies: list[str], left: int, top: int) -> list[str]:
    """Three in a row."""
    parts = []
    for number, policy in enumerate(policies):
        x, y = left + number % 3 * 320, top + number // 3 * 20
        parts.append(f'<line x1="{x}" x2="{x + 18}" y1="{y}" y2="{y}" stroke="{COLORS[policy]}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 23}" y="{y + 4}">{(POLICIES | PEERS)[policy]}</text>')
    return parts


def plot(measured: dict[str, dict[str, list[Run]]]) -> str:
    """One panel a link: how many of the bursts took at most so many times the idle link's median."""
    width, height, left, top, gap = 300, 220, 46, 34, 24
    least, most = 0.9, 1.1 * max(max(each.ratios) for runs in measured.values() for some in runs.values() for each in some)
    total = left + len(measured) * (width + gap)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {top + height + 92}" font-family="sans-serif" font-size="12">',
             f'<rect width="{total}" height="{top + height + 92}" fill="white"/>']
    for column, (link, runs) in enumerate(measured.items()):
        x0 = left + column * (width + gap)

        def to_x(ratio: float, x0=x0) -> float:
            return x0 + width * math.log(max(ratio, least) / least) / math.log(most / least)

        def to_y(share: float) -> float:
            return top + height * (1 - share)
        parts.append(f'<text x="{x0 + width / 2}" y="{top - 12}" text-anchor="middle" font-weight="bold">{link_name(link)}</text>')
        for tick in (tick for tick in (1, 1.15, 1.5, 2, 3, 5, 10, 20, 50, 100) if tick <= most):
            dash = ' stroke-dasharray="4 3"' if tick in (1.15, 1.5) else ""
            parts.append(f'<line x1="{to_x(tick):.1f}" x2="{to_x(tick):.1f}" y1="{top}" y2="{top + height}" stroke="#ccc"{dash}/>')
            if tick != 1.15:
                parts.append(f'<text x="{to_x(tick):.1f}" y="{top + height + 16}" text-anchor="middle">{tick:g}</text>')
        for share in (0, 0.5, 0.99):
            parts.append(f'<line x1="{x0}" x2="{x0 + width}" y1="{to_y(share):.1f}" y2="{to_y(share):.1f}" stroke="#ccc"/>')
            if column == 0:
                parts.append(f'<text x="{x0 - 6}" y="{to_y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>')
        for policy, some in runs.items():
            ratios = [ratio for each in some for ratio in each.ratios]
            parts.append(f'<polyline fill="none" stroke="{COLORS[policy]}" stroke-width="{2.5 if policy == "adaptive" else 1.5}" points="{curve(ratios, to_x, to_y)}"/>')
        parts.append(f'<rect x="{x0}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#444"/>')
    parts.append(f'<text x="{total / 2}" y="{top + height + 36}" text-anchor="middle">time of a burst over the backlog, in medians of the idle link (dashed: 1.15 and 1.5)</text>')
    parts += legend(list(dict.fromkeys(policy for runs in measured.values() for policy in runs)), left, top + height + 58)
    return "\n".join([*parts, "</svg>"]) + "\n"


def peer_versions(args) -> str:
    if not args.peer_python:
        return "The peers were not run (no `--peer-python`)."
    found = []
    for package in ("nixl", "mooncake-transfer-engine-non-cuda"):
        words = [args.peer_python, "-c", f"import importlib.metadata as m; print(m.version('{package}'))"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        found.append(f"`{package}` {done.stdout.strip()}" if done.returncode == 0 else f"`{package}` is not installed")
    return "Peers: " + ", ".join(found) + "; Mooncake's wheel needs the system's libibverbs.so.1, without RDMA too."


def introduction(args, load: str) -> list[str]:
    return ["# Anchor bursts over a Residual backlog", "",
            "What must be seen, against the idle link in the same run: bursts of 2 MiB at p50 ≤ 1.15x and p99 ≤ 1.5x, with at least 95 % of the goodput of saturated FIFO.", "",
            f"- {cpu_name()}, {datetime.date.today()}, load average at the start {load}",
            "- Command: `" + " ".join(["bench/lanes.py", *sys.argv[1:]]) + "`; two network namespaces, a veth pair, `tc tbf` each way with small bursts; a delay is a third "
            "namespace with a bridge that holds frames back (`bench/testbed.py`)",
            "- KvSender to KvReceiver over UCX's TCP, units made up on the spot: Anchors of 16 KiB (lane 0), Residuals of 24 KiB (lane 1), of which 4 MiB are always waiting or on "
            "their way. Pauses of 50 to 200 ms from a burst's arrival to the next burst. A burst's time is from being handed to the sender until its last unit is placed at the "
            "receiver. `x / idle` divides it by the median of bursts without backlog in the same run. The first second of each phase is not measured.",
            f"- Rounds: {args.rounds} (peers: one), of phases of {args.idle_seconds:g} s without and {args.loaded_seconds:g} s over the backlog. Goodput: acknowledged bytes of both kinds.",
            "- `net.ipv4.tcp_slow_start_after_idle=0` at both ends, for every row: by default a TCP connection that was idle for about 220 ms begins slowly again, which with 20 ms RTT "
            "made a burst take three times as long, without any backlog too.",
            "- FIFO: Residuals go in the lane of the Anchors, in order of arrival; how long a burst takes is how much stands in front of it, 4 MiB here. No window: lane 1 may have "
            "32 MiB unacknowledged, and goes on while Anchors do.",
            f"- {peer_versions(args)} They write into the other process's memory: bursts as one transfer of 2 MiB, the backlog as transfers of 1 MiB, four at a time "
            "(`bench/lanes_peer.py`)." + (" With `--realtime` all but NIXL, whose threads spin, run before others." if args.realtime else ""), ""]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bench/lynx-bench-lanes")
    parser.add_argument("--bridge", type=pathlib.Path, default=BRIDGE, help="lynx-bench-delay-bridge")
    parser.add_argument("--links", default="100mbit,1gbit,200mbit+10ms", help="rate, and if wished the delay one way")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--idle-seconds", type=float, default=6)
    parser.add_argument("--loaded-seconds", type=float, default=16)
    parser.add_argument("--realtime", action="store_true", help="what is measured runs before what else the machine does")
    parser.add_argument("--peer-python", help="an interpreter that has the peers")
    parser.add_argument("--smoke", action="store_true", help="one link, a few seconds")
    parser.add_argument("--out", type=pathlib.Path, help="the table; the plot goes beside it, as .svg")
    args = parser.parse_args()
    if args.smoke:
        args.links, args.rounds, args.idle_seconds, args.loaded_seconds = "400mbit+1ms", 1, 0.5, 0.5
    end_on_signals()
    lines = introduction(args, pathlib.Path("/proc/loadavg").read_text().split()[0])
    try:
        measured = {link: measure(link, args) for link in args.links.split(",")}
    except NotAllowed as reason:
        print(f"not run: {reason}")
        return 0
    if args.out:
        lines += [f"![how many of the bursts took how long]({args.out.with_suffix('.svg').name})", ""]
    for link, runs in measured.items():
        lines += table(link, runs)
    text, drawing = "\n".join(lines).rstrip() + "\n", plot(measured)
    if args.out:
        args.out.write_text(text)
        args.out.with_suffix(".svg").write_text(drawing)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
