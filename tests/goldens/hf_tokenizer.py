"""Builds Hugging Face `tokenizers` objects, the oracle, from the vocabularies in GGUF files. Needs only `tokenizers`.

The pre-tokenizers and normalizers are those of the models' own tokenizer.json files, which GGUF only names.
"""

import collections
import mmap
import pathlib
import struct

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAMILIES = {
    "smollm": ROOT / ".models/SmolLM2-135M-Instruct.Q4_1.gguf",
    "gpt-2": ROOT / ".cache/vocabs/ggml-vocab-gpt-2.gguf",
    "llama-bpe": ROOT / ".cache/vocabs/ggml-vocab-llama-bpe.gguf",
    "qwen2": ROOT / ".cache/vocabs/ggml-vocab-qwen2.gguf",
}
CONTROL, USER_DEFINED, UNUSED = 3, 4, 5

SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|NUMBER| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

Vocabulary = collections.namedtuple("Vocabulary", "pre tokens kinds merges")


def read_gguf(path):
    """The metadata of a GGUF file, as a dict."""
    scalars = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        position = 0

        def number(form):
            nonlocal position
            value = struct.unpack_from(form, data, position)[0]
            position += struct.calcsize(form)
            return value

        def value(kind):
            nonlocal position
            if kind == 8:
                size = number("<Q")
                position += size
                return data[position - size : position].decode("utf-8")
            if kind == 9:
                inner, count = number("<I"), number("<Q")
                return [value(inner) for _ in range(count)]
            return number(scalars[kind])

        assert data[:4] == b"GGUF", path
        position = 16
        metadata = {}
        for _ in range(number("<Q")):
            key = value(8)
            metadata[key] = value(number("<I"))
        return metadata


def read_vocabulary(path):
    metadata = {key.removeprefix("tokenizer.ggml."): value for key, value in read_gguf(path).items()}
    merges = [tuple(merge.split(" ")) for merge in metadata["merges"]]
    return Vocabulary(metadata["pre"], metadata["tokens"], metadata["token_type"], merges)


def pre_tokenizer_of(pre):
    if pre == "gpt-2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if pre == "smollm":
        return pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    pattern = SPLIT.replace("NUMBER", {"llama-bpe": r"\p{N}{1,3}", "qwen2": r"\p{N}"}[pre])
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def hf_tokenizer(vocabulary):
    """A Tokenizer that parses special tokens; set `.encode_special_tokens = True` for one that takes control tokens as text."""
    added = [(t, k) for t, k in zip(vocabulary.tokens, vocabulary.kinds) if k in (CONTROL, USER_DEFINED)]
    vocab = {token: i for i, token in enumerate(vocabulary.tokens) if vocabulary.kinds[i] != UNUSED}
    tokenizer = Tokenizer(models.BPE(vocab, vocabulary.merges, ignore_merges=vocabulary.pre == "llama-bpe"))
    if vocabulary.pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizer_of(vocabulary.pre)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t, k in added if k == CONTROL])
    tokenizer.add_tokens([AddedToken(t, normalized=False, special=False) for t, k in added if k == USER_DEFINED])
    return tokenizer
