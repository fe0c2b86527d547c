#!/usr/bin/env python3
"""What the data plane gets out of a link, and the tables of docs/benchmarks/transfer.md.

    bench/transfer.py [--rates 100mbit,1gbit] [--repeats 5] [--only goodput|pair] [--out FILE.md]

Goodput: lynx-bench-transfer between the two ends of bench/testbed.py, next to a TCP stream that takes the same bytes over the same link right after each
transfer; then within the machine, over shared memory. The pair: bench/pair_link.py. Each ratio is of two figures measured within a second or so of
each other: only those are comparable on a shared machine. Needs root; where network namespaces are not allowed it prints "not run".
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import pair_link
from runtime import cpu_name
from testbed import ROOT, NotAllowed, Testbed, bits_per_s, burst_bytes, end_on_signals

SECONDS_PER_TRANSFER = 2.5
KV_BYTES_PER_TOKEN = 23_040  # SmolLM2-135M, BF16.
SHM_TOKENS = 4096


def prefix(args) -> list[str]:
    return ["chrt", "-r", "5"] if args.realtime else []


def goodput_over(rate: str, args) -> list[dict]:
    """The sender's lines, over a link of this rate."""
    tokens = int(bits_per_s(rate) / 8 * SECONDS_PER_TRANSFER / KV_BYTES_PER_TOKEN) // 64 * 64
    with Testbed(rate) as bed, tempfile.TemporaryDirectory() as folder:
        common = ["--net-devices", "eth0", "--transports", "tcp", "--tokens", tokens, "--repeats", args.repeats]
        receiver = bed.start(bed.b, *prefix(args), args.transfer_program, "--listen", folder, *common, stdout=subprocess.PIPE, text=True)
        sender = bed.start(bed.a, *prefix(args), args.transfer_program, "--connect", folder, "--tcp-host", bed.b.address, *common, stdout=subprocess.PIPE, text=True)
        lines = sender.communicate()[0].splitlines()
        if sender.returncode:
            receiver.kill()
        receiver.communicate()
        if sender.returncode or receiver.returncode:
            sys.exit(f"transfer at {rate} failed")
    return [json.loads(line) for line in lines]


def goodput_in_machine(args) -> list[dict]:
    words = [*prefix(args), args.transfer_program, "--transports", "shm", "--tokens", SHM_TOKENS, "--repeats", args.repeats * 2, "--no-tcp"]
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True)
    return [line for line in map(json.loads, done.stdout.splitlines()) if line["what"] != "receiver"]


def median(values) -> float:
    return statistics.median(list(values))


def link_row(rate: str, mode: str, lines: list[dict]) -> str:
    lines = [line for line in lines if line["what"] == mode]
    wire = median(line["wire_bytes"] / line["seconds"] for line in lines) / 1e6
    tcp = median(line["wire_bytes"] / line["tcp_seconds"] for line in lines) / 1e6
    kv = median(line["kv_bytes"] / line["seconds"] for line in lines) / 1e6
    ratios = sorted(line["tcp_seconds"] / line["seconds"] for line in lines)
    cpu = median(line["cpu_s"] / line["seconds"] for line in lines)
    return (f"| {rate} | {mode} | {lines[0]['wire_bytes'] / 1e6:.1f} | {wire:.2f} | {tcp:.2f} | **{median(ratios):.1%}** | {ratios[0]:.1%} … {ratios[-1]:.1%} "
            f"| {kv:.2f} | {cpu:.0%} |")


def shm_row(mode: str, lines: list[dict]) -> str:
    lines = [line for line in lines if line["what"] == mode]
    best = min(lines, key=lambda line: line["seconds"] / line["wire_bytes"])
    kv = sorted(line["kv_bytes"] / line["seconds"] / 1e9 for line in lines)
    copies = best["seconds"] / best["copy_seconds"]
    return f"| {mode} | {lines[0]['transport']} | {best['wire_bytes'] / 1e6:.1f} | {best['wire_bytes'] / best['seconds'] / 1e9:.2f} | **{kv[-1]:.2f}** | {median(kv):.2f} | {copies:.1f} |"


def goodput(args) -> list[str]:
    lines = ["## Goodput", "", "KvSender to KvReceiver, from cache to cache: coding, checksums, placing and acknowledgements included. A byte counts once it is acknowledged. "
             "`TCP` is one stream of the same bytes over the same link right after each transfer, which writes and reads buffers of 1 MiB and does nothing else. "
             f"Medians of {args.repeats}.", "",
             "| link | mode | MB on the wire | MB/s | TCP MB/s | of TCP | range | KV MB/s | sender's CPU |", "|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for rate in args.rates.split(","):
        measured = goodput_over(rate, args)
        for mode in ("bf16", "lossless"):
            lines.append(link_row(rate, mode, measured))
            print(lines[-1], file=sys.stderr, flush=True)
    lines += ["", "Bursts of the limiter: " + ", ".join(f"{rate} {burst_bytes(rate)} bytes" for rate in args.rates.split(",")) + ". `KV MB/s` counts BF16 bytes of KV cache.", "",
              "Within the machine, over shared memory (two processes, the prompt's cache far larger than the processor's):", "",
              "| mode | transport | MB moved | GB/s moved, best | KV GB/s, best | KV GB/s, median | times memcpy |", "|---|---|---:|---:|---:|---:|---:|"]
    measured = goodput_in_machine(args)
    for mode in ("bf16", "lossless"):
        lines.append(shm_row(mode, measured))
        print(lines[-1], file=sys.stderr, flush=True)
    return lines + ["", "`times memcpy`: the time of the whole way over that of one memcpy of the same bytes.", ""]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="where the programs were built")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / ".models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--rates", default="100mbit,1gbit")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--pair-rates", default="100mbit,50mbit", help="of the pair's link; the wire is looked at for all, the rest for the first")
    parser.add_argument("--realtime", action="store_true", help="what is measured, TCP included, runs before what else the machine does")
    parser.add_argument("--only", choices=("goodput", "pair"))
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    args.transfer_program = args.build / "bench/lynx-bench-transfer"
    end_on_signals()
    load = pathlib.Path("/proc/loadavg").read_text().split()[0]
    lines = ["# The transfer of a KV cache", "",
             "What must be seen: goodput of at least 97 % of one saturated TCP stream in the same run at 100 Mbit/s and 1 Gbit/s, 1.5 GB/s over shared memory; the wire busy for at "
             "least 90 % of the time in the transfer of a 6k prompt over 100 Mbit/s; an idle pair without CPU; a link that goes down noticed within 4 s.", "",
             f"- {cpu_name()}, {datetime.date.today()}, load average at the start {load}",
             "- Command: `" + " ".join(["bench/transfer.py", *sys.argv[1:]]) + "`; two network namespaces, a veth pair, `tc tbf` each way (`bench/testbed.py`)", ""]
    try:
        if args.only != "pair":
            lines += goodput(args)
        if args.only != "goodput":
            lines += pair_link.measure(args)
    except NotAllowed as reason:
        print(f"not run: {reason}")
        return 0
    text = "\n".join(lines).rstrip() + "\n"
    if args.out:
        args.out.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
