#!/usr/bin/env python3
"""A peer's side of bench/runtime.py: keeps the model loaded and times what it is told (the protocol is in runtime_worker.cpp).

    peer_worker.py torch|llama|vllm MODEL.gguf THREADS
"""
import os
import resource
import sys
import tempfile
import time


def prompt(count: int) -> list[int]:
    return [1000 + i * 7 % 20000 for i in range(count)]


class Torch:
    """transformers' LlamaForCausalLM in BF16 with scaled-dot-product attention, the usual way to run a model with torch."""

    def __init__(self, model: str, threads: int):
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        folder, file = os.path.split(os.path.abspath(model))
        self.torch = torch
        self.model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.bfloat16, attn_implementation="sdpa").eval()

    def prefill(self, count: int) -> float:
        ids = self.torch.tensor([prompt(count)])
        start = time.perf_counter()
        self.model(input_ids=ids, use_cache=True, logits_to_keep=1).logits.argmax(-1)
        return time.perf_counter() - start

    def decode(self, context: int, steps: int) -> float:
        out = self.model(input_ids=self.torch.tensor([prompt(max(context, 1))]), use_cache=True, logits_to_keep=1)
        token = out.logits[:, -1:].argmax(-1)
        start = time.perf_counter()
        for _ in range(steps):
            out = self.model(input_ids=token, past_key_values=out.past_key_values, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
        return time.perf_counter() - start


class LlamaCpp:
    """llama.cpp through its C API (llama_decode), flash attention on; no Python work inside a step but the argmax."""

    def __init__(self, model: str, threads: int):
        import llama_cpp
        import numpy

        self.api, self.numpy = llama_cpp, numpy
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(model.encode(), llama_cpp.llama_model_default_params())
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = 8192, 2048, 512
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)

    def run(self, tokens: list[int]) -> int:
        array = (self.api.llama_token * len(tokens))(*tokens)
        if self.api.llama_decode(self.context, self.api.llama_batch_get_one(array, len(tokens))) != 0:
            raise RuntimeError("llama_decode failed")
        logits = self.api.llama_get_logits_ith(self.context, -1)
        return int(self.numpy.ctypeslib.as_array(logits, shape=(self.vocabulary,)).argmax())

    def fill(self, tokens: list[int]) -> int:
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)
        last = 0
        for first in range(0, len(tokens), 2048):
            last = self.run(tokens[first : first + 2048])
        return last

    def prefill(self, count: int) -> float:
        tokens = prompt(count)
        start = time.perf_counter()
        self.fill(tokens)
        return time.perf_counter() - start

    def decode(self, context: int, steps: int) -> float:
        token = self.fill(prompt(max(context, 1)))
        start = time.perf_counter()
        for _ in range(steps):
            token = self.run([token])
        return time.perf_counter() - start


class Vllm:
    """vLLM's CPU backend through its offline API, BF16; decode is the difference of a long and a one-token generation."""

    def __init__(self, model: str, threads: int):
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = f"0-{threads - 1}"
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = "1"
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        from transformers import AutoModelForCausalLM, AutoTokenizer
        import torch
        import vllm

        folder, file = os.path.split(os.path.abspath(model))
        self.directory = tempfile.TemporaryDirectory()
        AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.bfloat16).save_pretrained(self.directory.name)
        AutoTokenizer.from_pretrained(folder, gguf_file=file).save_pretrained(self.directory.name)
        self.vllm = vllm
        self.llm = vllm.LLM(self.directory.name, dtype="bfloat16", max_model_len=8192, enable_prefix_caching=False, enforce_eager=False)

    def generate(self, count: int, steps: int) -> float:
        params = self.vllm.SamplingParams(temperature=0, max_tokens=steps, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        self.llm.generate([{"prompt_token_ids": prompt(count)}], params, use_tqdm=False)
        return time.perf_counter() - start

    def prefill(self, count: int) -> float:
        return self.generate(count, 1)

    def decode(self, context: int, steps: int) -> float:
        short = self.generate(max(context, 1), 1)
        return self.generate(max(context, 1), steps + 1) - short


def main() -> None:
    kind, model, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Libraries that print to stdout must not disturb the protocol.
    start = time.perf_counter()
    peer = {"torch": Torch, "llama": LlamaCpp, "vllm": Vllm}[kind](model, threads)
    load = time.perf_counter() - start
    for line in sys.stdin:
        verb, *numbers = line.split()
        if verb == "quit":
            return
        try:
            if verb == "load":
                answer = f"{load:.4f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024} 0 0"
            else:
                answer = f"{getattr(peer, verb)(*map(int, numbers)):.6f}"
        except Exception as error:  # noqa: BLE001: whatever a peer raises is its result
            answer = f"error: {type(error).__name__}: {error}".replace("\n", " ")
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    main()
