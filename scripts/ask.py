#!/usr/bin/env python3
"""Asks a running Lynx server one question about a document, streams the answer to stdout, and prints to stderr how long it took and what
crossed the network for it.

    ask.py [--url http://127.0.0.1:8000] [--max-tokens 160] DOCUMENT QUESTION
"""
import argparse
import json
import re
import sys
import time
import urllib.error
import urllib.request


def stream(url: str, body: dict):
    """Yields the chunks of a streamed chat completion."""
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        for line in response:
            if not line.startswith(b"data: "):
                continue
            data = line[len(b"data: "):].strip()
            if data == b"[DONE]":
                return
            chunk = json.loads(data)
            if "error" in chunk:
                raise RuntimeError(chunk["error"]["message"])
            yield chunk


def transfers(url: str) -> dict:
    """What /metrics says about KV caches from prefill nodes; "bytes" is None where the node computes prompts itself."""
    with urllib.request.urlopen(url + "/metrics", timeout=10) as response:
        page = response.read().decode()
    received = re.findall(r"^lynx_transport_received(?:_residual)?_bytes_total (\S+)$", page, re.MULTILINE)
    return {
        "bytes": sum(map(float, received)) if received else None,
        "modes": re.findall(r'^lynx_transport_mode_info\{mode="([^"]*)"', page, re.MULTILINE),
        "links": re.findall(r'^lynx_transport_info\{node="([^"]*)",transport="([^"]*)",device="([^"]*)"', page, re.MULTILINE),
    }


def moved(before: dict, after: dict) -> str:
    if before["bytes"] is None or after["bytes"] is None:
        return "prompt and answer were computed in one process: no KV cache crossed a network"
    megabytes = (after["bytes"] - before["bytes"]) / 1e6
    links = ", ".join(f"{node} ({transport} over {device})" for node, transport, device in after["links"])
    return f"{megabytes:.1f} MB of KV cache crossed, in mode {', '.join(after['modes'])}, from {links}"


def told(receipt: dict) -> str:
    def at(name: str) -> str:
        return "-" if receipt[name] is None else f"{receipt[name]:.2f} s"

    steps = [f"first token at {at('first_token_s')}"]
    if receipt["anchors_s"] is not None:
        steps.append(f"Anchors there at {at('anchors_s')} ({receipt['bytes']['first'] / 1e6:.1f} MB)")
        steps.append(f"{receipt['drafted']} tokens drafted on them")
        steps.append(f"Residuals at {at('cache_s')} ({receipt['bytes']['residual'] / 1e6:.1f} MB)")
        if receipt["drafted"]:
            steps.append(f"verified at {at('verified_s')}: {receipt['accepted']} accepted, {receipt['rolled_back']} rolled back")
    else:
        steps.append(f"cache there at {at('cache_s')}")
    return f"receipt: {', '.join(steps)}; tokens behind the first chosen at precision '{receipt['verified']}'"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--max-tokens", type=int, default=160)
    parser.add_argument("document")
    parser.add_argument("question")
    args = parser.parse_args()
    with open(args.document, encoding="utf-8") as file:
        document = file.read()
    body = {
        "messages": [{"role": "user", "content": f"Here is a document:\n\n{document}\n\n{args.question}"}],
        "max_tokens": args.max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "lynx": {"receipt": True},
    }
    first = last = None
    usage = {}
    receipt = None
    try:
        before = transfers(args.url)
        print(f"Q: {args.question}\nA: ", end="", flush=True)
        start = time.monotonic()
        for chunk in stream(args.url, body):
            usage = chunk.get("usage") or usage
            receipt = chunk.get("lynx", {}).get("receipt") or receipt
            for choice in chunk["choices"]:
                text = choice["delta"].get("content")
                if text:
                    last = time.monotonic()
                    first = first or last
                    print(text, end="", flush=True)
        after = transfers(args.url)
    except urllib.error.HTTPError as error:
        print(f"\nask.py: HTTP {error.code}: {error.read().decode(errors='replace')}", file=sys.stderr)
        return 1
    except (OSError, RuntimeError) as error:
        print(f"\nask.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(flush=True)
        return 130
    print(flush=True)
    if first is None:
        print("ask.py: the answer was empty", file=sys.stderr)
        return 1
    generated = usage.get("completion_tokens", 0)
    rate = (generated - 1) / (last - first) if generated > 1 and last > first else 0.0
    print(f"   {usage.get('prompt_tokens')} prompt tokens, first token after {first - start:.2f} s, "
          f"then {generated} tokens at {rate:.1f} tokens/s\n   {moved(before, after)}", file=sys.stderr)
    if receipt and receipt["transfer"]:
        print(f"   {told(receipt)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
