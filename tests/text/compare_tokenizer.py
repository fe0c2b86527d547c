#!/usr/bin/env python3
"""Compares Lynx's tokenizer with Hugging Face `tokenizers`, token for token: on at least a million tokens of real text over the four
families, on random mixtures of awkward parts and, when asked (minutes), on every Unicode code point in four contexts.

    compare_tokenizer.py [--tokens N] [--seed N] [--code-points] PATH_TO_lynx_tokenize [FILE_OR_FOLDER …]

Without files: this repository's own texts and the Python standard library. Exit status 1 on any difference.
"""

import argparse
import pathlib
import random
import struct
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/goldens"))
import hf_tokenizer  # noqa: E402

FRAME = 20000  # Characters of one compared text.
PARTS = [" ", "  ", "\n", "\r\n", "\t", " \n ", "\u00a0", "\u3000", "\u2028", "\u0085", "\u180e", "a", "the", " The", "é", "e\u0301", "中文",
         "ا", "123", "1", "٣", "²", "Ⅻ", "'s", "'S", "'ſ", "’s", "'LL", "!", "?!", "--", "...", "👩‍👩‍👧", "🇫🇷", "\x00", "\x04", "\ufeff", "\ufffd",
         "ñ", "n\u0303", "가", "\u1100\u1161", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|im_", "|>", "<", "ﬃ", "\U0001f1e6",
         "\U00031350", "\U0002ebf0", "\u0323\u0307", "\u0344", "\u0f73", "def f(x):", "_", "http://a.b/c?d=e"]


def real_text(paths):
    for path in paths:
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            try:
                text = file.read_bytes().decode("utf-8")
            except (UnicodeDecodeError, OSError):
                continue
            for start in range(0, len(text), FRAME):
                yield text[start : start + FRAME]


def every_code_point():
    """Each after a letter, a number and a mark, so that its class and how it normalizes show."""
    for first in range(0, 0x110000, 256):
        characters = [chr(c) for c in range(first, first + 256) if not 0xD800 <= c <= 0xDFFF]
        for before, after in (("x", "y"), ("1", "\u0301 "), ("!", "\n"), (" ", "")):
            if characters:
                yield "".join(before + c + after for c in characters)


def mixtures(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        yield "".join(rng.choice(PARTS) for _ in range(rng.randint(1, 40)))


def lynx_ids(tool, vocabulary, texts, special):
    frames = b"".join(struct.pack("<I", len(data)) + data for data in (text.encode("utf-8") for text in texts))
    command = [str(tool), str(vocabulary)] + (["--special"] if special else [])
    output = subprocess.run(command, input=frames, stdout=subprocess.PIPE, check=True).stdout
    position = 0
    for _ in texts:
        (count,) = struct.unpack_from("<I", output, position)
        yield list(struct.unpack_from(f"<{count}i", output, position + 4))
        position += 4 + 4 * count


def compare(name, tool, kind, texts, special):
    """Returns (tokens compared, texts that differ)."""
    path = hf_tokenizer.FAMILIES[name]
    oracle = hf_tokenizer.hf_tokenizer(hf_tokenizer.read_vocabulary(path))
    oracle.encode_special_tokens = not special
    tokens = differing = 0
    for text, got in zip(texts, lynx_ids(tool, path, texts, special)):
        want = oracle.encode(text, add_special_tokens=False).ids
        tokens += len(want)
        if got != want:
            differing += 1
            if differing <= 3:
                at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
                print(f"   {name} {kind}: token {at}: got {got[at:at + 5]}, want {want[at:at + 5]}, after "
                      f"{oracle.decode(want[max(0, at - 5):at], skip_special_tokens=False)!r}", flush=True)
    print(f"{name:10} {kind:12} special={'parsed' if special else 'text  '} {tokens:9,} tokens in {len(texts):5,} texts, "
          f"{differing} differ", flush=True)
    return tokens, differing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1_000_000, help="real-text tokens to compare, over all families")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--code-points", action="store_true")
    parser.add_argument("tool", type=pathlib.Path)
    parser.add_argument("files", type=pathlib.Path, nargs="*")
    arguments = parser.parse_args()
    sources = arguments.files or [ROOT / "docs", ROOT / "README.md", pathlib.Path(sysconfig.get_path("stdlib"))]

    enough = arguments.tokens // len(hf_tokenizer.FAMILIES) * 5  # Characters; no family has more than 5 a token on such text.
    texts = []
    for text in real_text([path for path in sources if path.exists()]):
        texts.append(text)
        enough -= len(text)
        if enough <= 0:
            break
    parts = [("real text", texts, True), ("mixtures", list(mixtures(arguments.seed, 2000)), True),
             ("mixtures", list(mixtures(arguments.seed + 1, 2000)), False)]
    if arguments.code_points:
        parts.append(("code points", list(every_code_point()), False))
    total = wrong = 0
    for name in hf_tokenizer.FAMILIES:
        for kind, part, special in parts:
            tokens, differing = compare(name, arguments.tool, kind, part, special)
            total += tokens if kind == "real text" else 0
            wrong += differing
    print(f"{total:,} tokens of real text; {wrong} texts differ (mixtures: seed {arguments.seed})")
    if total < arguments.tokens:
        sys.exit(f"only {total:,} tokens of text, {arguments.tokens:,} are wanted: name more files")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
