#!/usr/bin/env python3
"""Asks a running Lynx server one question about a document, streams the answer to stdout and prints times to stderr.

    ask.py [--url http://127.0.0.1:8000] [--max-tokens 160] DOCUMENT QUESTION
"""
import argparse
import json
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
    }
    start = time.monotonic()
    first = last = None
    usage = {}
    print(f"Q: {args.question}\nA: ", end="", flush=True)
    try:
        for chunk in stream(args.url, body):
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                text = choice["delta"].get("content")
                if text:
                    last = time.monotonic()
                    first = first or last
                    print(text, end="", flush=True)
    except urllib.error.HTTPError as error:
        print(f"\nask.py: HTTP {error.code}: {error.read().decode(errors='replace')}", file=sys.stderr)
        return 1
    except (OSError, RuntimeError) as error:
        print(f"\nask.py: {error}", file=sys.stderr)
        return 1
    print(flush=True)
    if first is None:
        print("ask.py: the answer was empty", file=sys.stderr)
        return 1
    generated = usage.get("completion_tokens", 0)
    rate = (generated - 1) / (last - first) if generated > 1 and last > first else 0.0
    print(f"   {usage.get('prompt_tokens')} prompt tokens, first token after {first - start:.2f} s, "
          f"then {generated} tokens at {rate:.1f} tokens/s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
