#!/usr/bin/env python3
"""Writes tests/goldens/tokenizer/*: what Hugging Face `tokenizers` and Python's own codecs make of awkward text.

    cases.json    texts and their ids for each of the four families, control tokens parsed and taken as text
    added.json    a small made-up vocabulary whose special tokens overlap and take white space
    classes.txt   ranges of code points that are letters (L), numbers (N) or white space (S) to the pre-tokenizers
    nfc.txt       per 4,096 code points: FNV-1a of NFC("e" + c + "\\u0323\\u0301 ") over them
    replace.txt   per first byte: FNV-1a of decode(errors="replace") over all sequences of up to 4 bytes from BYTES

Needs: pip install tokenizers==0.23.3; the default model and scripts/fetch_test_vocabs.sh. The output is the same every time.
"""

import itertools
import json
import pathlib

import hf_tokenizer
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

FOLDER = pathlib.Path(__file__).parent / "tokenizer"
BYTES = [0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF]

TEXTS = [
    "Hello, world!", " leading", "trailing ", "The quick brown fox jumps over the lazy dog.", "  two  spaces   three    four",
    "a\nb\n\nc\n\n\nd", "a \n b\n \n  c", "\r\n\r\nx\r\ry", "\t\tif x:\n\t\t\treturn\t1\n", " \t \n\t \r\n ", "\n", " ", "   \n", "\n   ", "   a", "a   ",
    # Contractions, in upper case and with other apostrophes; U+017F is an s to case-insensitive patterns.
    "I'm we're they've he'll she'd it's can't", "I'M WE'RE THEY'VE HE'LL SHE'D IT'S CAN'T", "it’s don’t", "'s's'S'T'lL'Ve", "'ſ a'ſb 'ſt", "''s '' '",
    "O'Neill rock'n'roll 'tis", "x'\u212a 'k",
    # Numbers.
    "1 12 123 1234 12345 123456789012", "3.14159 -2e-10 0xFF 1,000,000", "a1b22c333", "٠١٢٣٤٥٦٧٨٩", "१२३४", "²³¹ ½ ⅓ Ⅳ ⅻ ① ㊿ 〇 一", "１２３ ４",
    "x 1 y  2   3\n4 \n5", "1\u03012", "𝟙𝟚𝟛",
    # Scripts.
    "Ünïcödé ñandú œuvre ﬃ straße ǅ", "Привет, как дела?", "Γειά σου Κόσμε", "שלום עולם", "مرحبا بالعالم ١٢", "नमस्ते दुनिया", "สวัสดีชาวโลก", "안녕하세요 세계",
    "你好，世界！這是一個測試。", "こんにちは世界。カタカナ ﾊﾝｶｸ", "\U00020000\U0002a6df \U00031350\U000323af \U0002ebf0", "ᚠᚢᚦ 𐍈 𓀀 𝒜𝔅ℂ",
    "\u1100\u1161\u11a8 \u1112\u1161\u11ab", "A\u0300 e\u0301 o\u0308\u0304 q\u0323\u0307 q\u0307\u0323 \u0344 \u0f73 \u212b \u2126 \u1e9b\u0323",
    "\u0041\u030a\u0301 \u01fa \u0958 \u2add\u0338 <\u0338 =\u0338", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!", "a\u1dfa\u0301 b\u0898\u0323",
    # Emoji: modifiers, joiners, flags, tags.
    "👍👍🏽 ❤️ ☺", "👨‍👩‍👧‍👦👩🏿‍🚀", "🇫🇷🇩🇪🇺", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "1️⃣ #️⃣ ©️", "¯\\_(ツ)_/¯ (╯°□°)╯︵ ┻━┻",
    # White space that is and is not, joiners, direction marks, byte-order marks, noncharacters, borders of the surrogates and planes.
    "a\u00a0b\u00a0\u00a0c", "a\u3000b\u2003c\u2009d\u202fe\u205ff\u1680g", "a\u2028b\u2029c\u0085d\u000be\u000cf", "a\u180eb \u180e c", "a\u200bb\u200cc\u200dd\u2060e",
    "\ufeffBOM", "x\ufeff y", "\u202eright\u202c", "\ud7ff\ue000\uf8ff\ufffd\ufffe\uffff", "\U0010ffff\U000f0000\U00010000", "\U00040000\U00080000",
    # Control characters, of which some are in no vocabulary.
    "\x00", "a\x00b\x00", "".join(map(chr, range(0x00, 0x20))), "".join(map(chr, range(0x7F, 0xA1))), "a\x04b\x06c\x13d\x14e\x16f\x1dg", "he\x04llo", "\x1b[31mred\x1b[0m",
    # Code and markup.
    "def f(x: int) -> str:\n    \"\"\"Doc.\"\"\"\n    return f'{x!r}'\n\n\n", "#include <vector>\nint main() { return a[i]->b::c<d>(&e) ?: 0; }\n",
    "SELECT * FROM t WHERE a='b' -- c\n;", "<div class=\"x\">&nbsp;</div>", "https://user:pw@example.org:8080/a/b?c=d&e=%20f#g", "C:\\a\\b\\n.txt",
    "{\"k\": [1, 2.5, null, true], \"s\": \"\\u00e9\\n\"}", "snake_case camelCase PascalCase SCREAMING_CASE kebab-case", "=====-----*****_____!!!???...", "$x^2 + \\frac{1}{2}$",
    "!\n\n?\r\n.\n x", "a.b.\nc;\n\n", ")\n\n(", " \n!", "\u00a0\n", "\n\u00a0\n x",
    # Special tokens, whole, in parts, doubled, in the middle of words.
    "<|im_start|>user\nHi<|im_end|>\n", "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nx<|eot_id|>", "a<|endoftext|>b <|endoftext|> c", "<|endoftext|><|endoftext|>",
    "<|im_start|", "|im_start|>", "<|im_start|><|im_start", "<|<|im_start|>|>", "<|IM_START|>", "< |im_start|>", "<|reserved_special_token_1|><|reserved_special_token_10|><|reserved_special_token_100|>",
    "<repo_name>x<file_sep>y<filename>z<reponame>", "<empty_output><jupyter_code>", "<s></s><unk><pad>[INST] [/INST]", "1<|im_end|>2  <|im_end|>  3\n<|im_end|>\n4", "é<|im_end|>\u0301",
    # Long runs, and long words.
    "a" * 700, " " * 513 + "x", " " * 200, "\n" * 131, "\r\n" * 40, "\t" * 67 + "y", "ab" * 301, "=" * 257, "0" * 100, "9876543210" * 13, "é" * 99, "e\u0301" * 99, "中" * 150, "👍" * 70,
    "\u0301\u0323" * 40, "a b " * 60, "xyzzy" * 50, "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft", "!?" * 120, ".\n" * 60,
    "", "x", "é", "👍", "<",
]  # fmt: skip


def fnv1a(data, state=0xCBF29CE484222325):
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return state


def write_lines(name, lines):
    (FOLDER / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_cases():
    cases = [{"text": text, "parsed": {}, "as_text": {}} for text in TEXTS]
    for family, path in hf_tokenizer.FAMILIES.items():
        tokenizer = hf_tokenizer.hf_tokenizer(hf_tokenizer.read_vocabulary(path))
        for key, as_text in (("parsed", False), ("as_text", True)):
            tokenizer.encode_special_tokens = as_text
            for case in cases:
                case[key][family] = tokenizer.encode(case["text"], add_special_tokens=False).ids
    for case in cases:
        if case["as_text"] == case["parsed"]:
            del case["as_text"]
    lines = [json.dumps(case, separators=(",", ":")) for case in cases]
    write_lines("cases.json", ["["] + [line + "," for line in lines[:-1]] + [lines[-1], "]"])


def make_added():
    """Merges 'a'+'b' and such, so that text and special tokens compete."""
    vocab = {chr(c): c - 32 for c in range(33, 127)} | {"Ġ": 0, "Ċ": 95, "ab": 96, "abc": 97, "Ġab": 98, "ĠĠ": 99}
    merges = [("a", "b"), ("Ġ", "Ġ"), ("ab", "c"), ("Ġ", "ab")]
    added = [("<a>", True, False, False), ("<a><b>", True, False, False), ("<b>", False, False, False), ("<l>", True, True, False),
             ("<r>", True, False, True), ("<lr>", False, True, True), ("bc", False, False, False), ("<a", False, False, False)]
    texts = ["ab abc  ab", "<a><b>", "<a><a><b><b>", "<a <a> <b>", "x  <l>  y", "x \n<r> \n y", "x <lr> <lr> y", "<r>  <l>", "<r> <r> <lr>", "abc bcd", "a<a>bc",
             "\u3000<l>\u00a0<lr>\u2028z", "<a", "<l", " <l", "<r> "]
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    for text, special, lstrip, rstrip in added:
        token = AddedToken(text, normalized=False, special=special, lstrip=lstrip, rstrip=rstrip)
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([token])
    cases = []
    for text in texts:
        case = {"text": text}
        for key, as_text in (("parsed", False), ("as_text", True)):
            tokenizer.encode_special_tokens = as_text
            case[key] = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append(case)
    tokens = [token for token, _ in sorted(vocab.items(), key=lambda item: item[1])]
    names = ("text", "special", "lstrip", "rstrip")
    data = {"tokens": tokens, "merges": merges, "added": [dict(zip(names, entry)) for entry in added], "cases": cases}
    write_lines("added.json", [json.dumps(data, indent=1)])


def blocks(size):
    for first in range(0, 0x110000, size):
        yield first, [chr(c) for c in range(first, first + size) if not 0xD800 <= c <= 0xDFFF]


def make_classes():
    classes = {}
    for name, pattern in (("L", r"\p{L}"), ("N", r"\p{N}"), ("S", r"\s")):
        remove = pre_tokenizers.Split(Regex(pattern), "removed")
        for _, characters in blocks(4096):
            left = "".join(piece for piece, _ in remove.pre_tokenize_str("".join(characters))) if characters else ""
            classes |= {ord(c): name for c in set(characters) - set(left)}
    runs = []
    for code_point, name in sorted(classes.items()):
        if runs and runs[-1][1] == code_point - 1 and runs[-1][2] == name:
            runs[-1][1] = code_point
        else:
            runs.append([code_point, code_point, name])
    write_lines("classes.txt", [f"{first:x} {last:x} {name}" for first, last, name in runs])


def make_nfc():
    nfc = normalizers.NFC()
    write_lines("nfc.txt", [f"{first:x} {fnv1a(nfc.normalize_str(''.join(f'e{c}{chr(0x323)}{chr(0x301)} ' for c in characters)).encode()):016x}"
                            for first, characters in blocks(4096) if characters])


def make_replace():
    lines = []
    for first in BYTES:
        state = fnv1a(b"")
        for length in range(4):
            for rest in itertools.product(BYTES, repeat=length):
                state = fnv1a(bytes((first, *rest)).decode("utf-8", errors="replace").encode(), state)
        lines.append(f"{first:x} {state:016x}")
    write_lines("replace.txt", lines)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    make_cases()
    make_added()
    make_classes()
    make_nfc()
    make_replace()
