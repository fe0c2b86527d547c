#!/usr/bin/env python3
"""What a client sees of the gap between a prompt's Anchors and its Residuals, and docs/benchmarks/gap.md with gap.svg.

    bench/gap.py [--quick] [--repeats 7] [--minutes M] [--data FILE.json] [--out docs/benchmarks/gap.md]

A pair of daemons at the two ends of bench/testbed.py, each on a core of its own, answers the same prompts by every way that a cache can travel, over links
of several rates. In a round every combination comes once, in an order that is drawn; ratios are taken within a round. Texts are held against those of
`lynx-decode-node --aggregated` on the mode's full view. --data keeps all runs: a second call with the same file adds rounds, and --report-only
makes the tables of what is there. bench/gap_report.py says how figures are made. Exits with 1 if a text differs. Needs root and two cores; where network
namespaces are not allowed it prints "not run".
"""
import argparse
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import gap_report
from pair_link import DECODE_HTTP_PORT, PairOnLink, put_first
from runtime import cpu_name
from testbed import ROOT, NotAllowed, Testbed, end_on_signals

MODES = (("bf16", None), ("lossless", None), ("int8", None), ("int4", None), ("progressive-int8", "draft"), ("progressive-int8", "wait"),
         ("progressive-exact", "draft"), ("progressive-exact", "wait"))
VIEWS = {"bf16": "exact", "lossless": "exact", "int8": "int8", "int4": "anchor", "progressive-int8": "int8", "progressive-exact": "exact"}
ONE_STEP = {"exact": "bf16", "int8": "int8", "anchor": "int4"}  # Whose text an aggregated node gives on a view.
MARKS = (2, 8, 16, 32, 64)
MAX_TOKENS = 80
DEADLINE_S = 300
TEXTS = ("docs/sample/harbour_handbook.md", "README.md", "ARCHITECTURE.md", "docs/plane_format.md", "docs/field_reports.md", "docs/wire_format.md",
         "docs/decode_states.md", "docs/dependencies.md")
QUESTION = "\n\nSummarize what you have read above. Name the most important rules, names and numbers, one a line."
PREFILL_CORE, DECODE_CORE = 0, 1
SEGMENT_BYTES = 16_384


def ask(port: int, path: str, body: dict) -> dict:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as response:
        return json.loads(response.read())


def chat_tokens(port: int, text: str) -> list[int]:
    messages = [{"role": "user", "content": text + QUESTION}]
    return ask(port, "/tokenize", {"messages": messages, "add_generation_prompt": True})["tokens"]


def make_prompts(port: int, lengths: list[int], texts: int) -> dict[str, list[int]]:
    """Chats about a stretch of this repository's own text, cut in their middle to exactly so many tokens, by name ("2000/0")."""
    corpus = "\n\n".join((ROOT / name).read_text() for name in TEXTS)
    short, other = chat_tokens(port, "A river."), chat_tokens(port, "Stones")
    tail = next(i for i in range(1, len(short)) if short[-i] != other[-i]) - 1  # The question, and where the answer begins.
    prompts = {}
    for length in lengths:
        for text in range(texts):
            start = text * len(corpus) // (2 * texts)
            tokens = chat_tokens(port, corpus[start:])
            assert len(tokens) >= length, "the repository has too little text"
            prompts[f"{length}/{text}"] = tokens[:length - tail] + tokens[-tail:]
    return prompts


def body_of(prompt: list[int], lynx: dict) -> dict:
    return {"prompt": prompt, "max_tokens": MAX_TOKENS, "temperature": 0, "ignore_eos": True, "logprobs": 0, "lynx": lynx}


def make_oracle(args, prompts: dict[str, list[int]], oracle: dict) -> None:
    """The tokens that a node alone gives, by view and prompt; what is known already is kept."""
    wanted = [(view, name) for name in prompts for view in ONE_STEP if f"{view}/{name}" not in oracle]
    if not wanted:
        return
    with aggregated_node(args) as port:
        for view, name in wanted:
            answer = ask(port, "/v1/completions", body_of(prompts[name], {"transfer": ONE_STEP[view]}))
            oracle[f"{view}/{name}"] = answer["choices"][0]["logprobs"]["tokens"]
            print(f"oracle: {view} {name}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def aggregated_node(args):
    with tempfile.TemporaryDirectory() as folder:
        port_file = pathlib.Path(folder, "port")
        words = [args.build / "cmd/lynx-decode-node", "--aggregated", "--model", args.model, "--http-port", 0, "--grpc-port", 0, "--kv-memory", "512MiB",
                 "--port-file", port_file, "--log-level", "warning"]
        process = subprocess.Popen(list(map(str, words)))
        try:
            while not port_file.exists():
                if process.poll() is not None:
                    sys.exit("the aggregated node ended")
                time.sleep(0.05)
            yield int(port_file.read_text().split()[0])
        finally:
            process.terminate()
            process.wait()


class Watch:
    """When the tokens of one streamed answer came, in seconds since it was asked for."""

    def __init__(self):
        self.tokens: list[str] = []
        self.committed: list[float] = []
        self.shown: list[float] = []  # As the committed ones, or earlier as provisional ones.
        self.receipt: dict = {}
        self.end = 0.0

    def take(self, event: dict, now: float) -> None:
        if "error" in event:
            sys.exit(f"a request failed: {event['error']}")
        for choice in event["choices"]:
            tokens = (choice.get("logprobs") or {"tokens": []})["tokens"]
            self.tokens += tokens
            self.committed += [now] * len(tokens)
            if choice["finish_reason"]:
                self.end = now
        own = event.get("lynx", {})
        drafts = len(own["provisional"][0]["tokens"]) if "provisional" in own else 0
        self.shown += [now] * (len(self.committed) + drafts - len(self.shown))
        self.receipt = own.get("receipt", self.receipt)


def watch(pair: PairOnLink, body: dict) -> Watch:
    data = json.dumps(body | {"stream": True}).encode()
    with pair.bed.b.inside():
        connection = http.client.HTTPConnection("127.0.0.1", DECODE_HTTP_PORT, timeout=DEADLINE_S)
        connection.connect()
    seen = Watch()
    with contextlib.closing(connection):
        began = time.monotonic()
        connection.request("POST", "/v1/completions", data)
        response = connection.getresponse()
        if response.status != 200:
            sys.exit(f"a request failed: {response.status} {response.read()[:500]!r}")
        for line in response:
            if line.startswith(b"data: {"):
                seen.take(json.loads(line[6:]), time.monotonic() - began)
    return seen


def step_seconds(seen: Watch) -> float:
    """A decode step: the median time between tokens that came alone, at the end."""
    times = seen.committed
    steps = [after - before for before, after in zip(times, times[1:]) if after > before and before > seen.receipt["cache_s"]]
    return statistics.median(steps[1:]) if len(steps) > 3 else float("nan")


def first_difference(tokens: list[str], others: list[str]) -> int | None:
    return next((i for i, (a, b) in enumerate(zip(tokens, others)) if a != b), None if len(tokens) == len(others) else min(len(tokens), len(others)))


def run_once(pair: PairOnLink, oracle: dict, name: str, prompt: list[int], mode: str, gap: str | None) -> dict:
    lynx = {"transfer": mode, "receipt": True} | ({"gap": gap, "provisional": True} if gap else {})
    seen = watch(pair, body_of(prompt, lynx))
    marks = {str(mark): seen.committed[mark - 1] for mark in MARKS}
    shown = {str(mark): seen.shown[mark - 1] for mark in MARKS}
    return {"prompt": name, "prompt_tokens": len(prompt), "mode": mode, "gap": gap, "ttft_s": seen.committed[0], "committed_s": marks, "shown_s": shown, "end_s": seen.end,
            "step_s": step_seconds(seen), "receipt": seen.receipt, "differs_from_oracle_at": first_difference(seen.tokens, oracle[f"{VIEWS[mode]}/{name}"]),
            "differs_from_bf16_at": first_difference(seen.tokens, oracle[f"exact/{name}"])}


def show(run: dict) -> None:
    r = run["receipt"]
    second, thirty = (f"{run['committed_s'][mark]:.3f}/{run['shown_s'][mark]:.3f}" for mark in ("2", "32"))
    anchors = f"{r['anchors_s']:.3f}" if r["anchors_s"] is not None else "-"
    print(f"{run['rate'] or 'unlimited':>9} {run['prompt']:>7} {run['mode']:>17} {run['gap'] or '':5} first {run['ttft_s']:.3f} anchors {anchors} second {second} 32nd {thirty} "
          f"end {run['end_s']:.3f} X {r['cache_s']:.3f} step {run['step_s']:.4f} drafts {r['accepted']}/{r['drafted']} MB {(r['bytes']['first'] + r['bytes']['residual']) / 1e6:.1f} "
          f"{'ok' if run['differs_from_oracle_at'] is None else 'DIFFERS'}", file=sys.stderr, flush=True)


def measure(args, data: dict, prompts: dict[str, list[int]]) -> None:
    """Rounds of all rates × prompt lengths × modes, each drawn anew; no run begins behind the deadline."""
    deadline = time.monotonic() + args.minutes * 60 if args.minutes else float("inf")
    first_round = 1 + max((run["round"] for run in data["runs"]), default=-1)
    os.sched_setaffinity(0, {PREFILL_CORE})  # Idle while tokens come.
    if args.first:
        put_first(os.getpid())
    with Testbed(None) as bed, tempfile.TemporaryDirectory() as folder:
        bed.set_segments(SEGMENT_BYTES)
        pair = PairOnLink(bed, args.build, args.model, folder, args.first, (PREFILL_CORE, DECODE_CORE))
        for number in range(first_round, first_round + args.repeats):
            draw = random.Random(number)
            for rate in draw.sample(args.rates, len(args.rates)):
                bed.set_rate(rate)
                watch(pair, body_of(prompts[f"{args.lengths[0]}/0"][:600], {"transfer": "bf16"}))  # Connections, windows and caches settle.
                for length, (mode, gap) in draw.sample([(length, way) for length in args.lengths for way in args.ways], len(args.lengths) * len(args.ways)):
                    if time.monotonic() > deadline:
                        return
                    name = f"{length}/{number % args.texts}"
                    run = {"round": number, "rate": rate} | run_once(pair, data["oracle"], name, prompts[name], mode, gap)
                    data["runs"].append(run)
                    show(run)
                    if args.data:
                        save(args.data, data)


def save(path: pathlib.Path, data: dict) -> None:
    path.with_suffix(".tmp").write_text(json.dumps(data, indent=0))
    path.with_suffix(".tmp").replace(path)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="where the programs were built")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / ".models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--rates", default="25mbit,50mbit,100mbit,unlimited")
    parser.add_argument("--lengths", default="2000,6000", help="of the prompts, in tokens")
    parser.add_argument("--modes", default="", help="as bf16,progressive-exact/draft; all by default")
    parser.add_argument("--texts", type=int, default=4, help="different prompts of a length, one a round")
    parser.add_argument("--repeats", type=int, default=7, help="rounds")
    parser.add_argument("--minutes", type=float, help="no run begins later than this")
    parser.add_argument("--first", action="store_true", help="what is measured runs before what else the machine does")
    parser.add_argument("--quick", action="store_true", help="one round of one short prompt over two rates: that it works")
    parser.add_argument("--report-only", action="store_true", help="of --data; nothing is run")
    parser.add_argument("--oracle-only", action="store_true", help="only what the texts are held against, into --data")
    parser.add_argument("--data", type=pathlib.Path, help="all runs, as JSON; added to if it exists")
    parser.add_argument("--out", type=pathlib.Path, help="the report; its plot lies beside it")
    args = parser.parse_args()
    if args.quick:
        args.rates, args.lengths, args.texts, args.repeats = "50mbit,unlimited", "1000", 1, 1
    args.rates = [None if rate == "unlimited" else rate for rate in args.rates.split(",")]
    args.lengths = [int(length) for length in args.lengths.split(",")]
    names = {mode + (f"/{gap}" if gap else ""): (mode, gap) for mode, gap in MODES}
    args.ways = [names[name] for name in args.modes.split(",")] if args.modes else list(MODES)
    return args


def main() -> int:
    args = parse_arguments()
    end_on_signals()
    data = {"oracle": {}, "runs": [], "commands": [], "machine": cpu_name()}
    if args.data and args.data.exists():
        data = json.loads(args.data.read_text())
    try:
        if not args.report_only:
            if len(os.sched_getaffinity(0)) < 2:
                raise NotAllowed("it needs two cores")
            load = pathlib.Path("/proc/loadavg").read_text().split()[0]
            data["commands"].append({"command": " ".join(["bench/gap.py", *sys.argv[1:]]), "date": str(datetime.date.today()), "load": load})
            with aggregated_node(args) as port:
                prompts = make_prompts(port, args.lengths, args.texts)
            make_oracle(args, prompts, data["oracle"])
            if args.data:
                save(args.data, data)
            if not args.oracle_only:
                measure(args, data, prompts)
    except NotAllowed as reason:
        print(f"not run: {reason}")
        return 0
    if not data["runs"]:
        return 0
    wrong = sum(run["differs_from_oracle_at"] is not None for run in data["runs"])
    text, plot = gap_report.report(data)
    if args.out:
        args.out.write_text(text)
        args.out.with_suffix(".svg").write_text(plot)
    print(text)
    if wrong:
        print(f"{wrong} texts are not the oracle's", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
