#!/usr/bin/env python3
"""Makes tests/goldens/logits/*.bin: what `transformers` computes, teacher-forced, in FP32 arithmetic on the model's BF16-rounded weights.

    make_logits.py MODEL.gguf OUT.bin TEXT.txt [TEXT.txt ...]

Needs torch, transformers, accelerate and gguf. Of each text the first --tokens tokens become one sequence. The file is little-endian:
  char[8] "LYNXLOG1", int32 sequences, then per sequence: int32 n, int32 token[n], and for each position
  int32 first, int32 second (the two likeliest next tokens), float32 gap (of their logits), float32 logprob (of the token that follows in
  the text; 0 at the last position).
"""
import argparse
import pathlib
import struct

import numpy
import torch
import transformers


def load(path: pathlib.Path):
    model = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(torch.bfloat16).to(torch.float32))
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    return model.eval(), tokenizer


@torch.inference_mode()
def reference(model, tokens: list[int]) -> bytes:
    logits = model(torch.tensor([tokens])).logits[0].double()
    top = logits.topk(2, dim=-1)
    following = torch.tensor(tokens[1:] + [0])
    logprob = torch.log_softmax(logits, dim=-1).gather(1, following[:, None])[:, 0]
    logprob[-1] = 0.0
    rows = numpy.zeros(len(tokens), dtype=[("first", "<i4"), ("second", "<i4"), ("gap", "<f4"), ("logprob", "<f4")])
    rows["first"] = top.indices[:, 0].numpy()
    rows["second"] = top.indices[:, 1].numpy()
    rows["gap"] = (top.values[:, 0] - top.values[:, 1]).numpy()
    rows["logprob"] = logprob.numpy()
    return rows.tobytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path, nargs="+")
    parser.add_argument("--tokens", type=int, default=2048)
    arguments = parser.parse_args()
    model, tokenizer = load(arguments.model)
    data = struct.pack("<8si", b"LYNXLOG1", len(arguments.texts))
    for text in arguments.texts:
        tokens = tokenizer(text.read_text(encoding="utf-8"), add_special_tokens=False)["input_ids"][: arguments.tokens]
        print(f"{text.name}: {len(tokens)} tokens")
        data += struct.pack(f"<i{len(tokens)}i", len(tokens), *tokens) + reference(model, tokens)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_bytes(data)


if __name__ == "__main__":
    main()
