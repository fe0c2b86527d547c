#!/usr/bin/env python3
"""Writes tests/goldens/tiny_models: one small random llama model as `transformers` saves it (one file, and in shards) and as GGUF.

Needs: pip install torch transformers tokenizers safetensors gguf numpy. The output lies beside this script.
"""

import json
import pathlib
import shutil

import gguf
import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

FOLDER = pathlib.Path(__file__).parent / "tiny_models"
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXT = "The lynx waits. The lynx watches the snow, and the snow does not wait for the lynx; it's 1234 steps to the wood."
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}<|eot_id|>{% endfor %}"


def make_tokenizer():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False, special=False)])
    bos = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing("<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", bos)])])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|begin_of_text|>", eos_token="<|end_of_text|>",
                                   chat_template=TEMPLATE)


def make_model(vocabulary, tokenizer):
    torch.manual_seed(7)
    rope = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64}
    config = LlamaConfig(vocab_size=vocabulary, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=8, max_position_embeddings=512, rms_norm_eps=1e-5, rope_parameters=rope,
                         tie_word_embeddings=False, bos_token_id=tokenizer.bos_token_id,
                         eos_token_id=[tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|eot_id|>")])
    model = LlamaForCausalLM(config).to(torch.float16)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(parameter, 1.0, 0.1)
    return model


def permute(weights, heads):
    """GGUF's order of Q and K rows: the pairs that RoPE rotates lie side by side."""
    rows, cols = weights.shape
    return weights.reshape(heads, 2, rows // heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def rope_factors(config):
    """What convert_hf_to_gguf.py stores as rope_freqs.weight."""
    rope = config.rope_parameters
    frequencies = 1.0 / rope["rope_theta"] ** (torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim)
    low, high, old = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
    factors = []
    for wavelength in (2 * np.pi / frequencies).tolist():
        if wavelength < old / high:
            factors.append(1.0)
        elif wavelength > old / low:
            factors.append(rope["factor"])
        else:
            smooth = (old / wavelength - low) / (high - low)
            factors.append(1.0 / ((1.0 - smooth) / rope["factor"] + smooth))
    return np.array(factors, np.float32)


NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm"}


def gguf_name(name):
    fixed = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
             "lm_head.weight": "output.weight"}
    if name in fixed:
        return fixed[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def write_gguf(path, model, tokenizer):
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    vocabulary = tokenizer.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.get)
    added = tokenizer.added_tokens_decoder
    kinds = [gguf.TokenType.NORMAL if i not in added else gguf.TokenType.CONTROL if added[i].special else gguf.TokenType.USER_DEFINED
             for i in range(len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens + [f"[PAD{i}]" for i in range(len(tokens), config.vocab_size)])
    writer.add_token_types(kinds + [gguf.TokenType.UNUSED] * (config.vocab_size - len(tokens)))
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_eot_token_id(vocabulary["<|eot_id|>"])
    writer.add_chat_template(TEMPLATE)
    writer.add_tensor("rope_freqs.weight", rope_factors(config))
    for name, parameter in model.named_parameters():
        weights = parameter.detach().numpy()
        if "q_proj" in name:
            weights = permute(weights, config.num_attention_heads)
        elif "k_proj" in name:
            weights = permute(weights, config.num_key_value_heads)
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(weights.astype(np.float32) if weights.ndim == 1 else weights))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    tokenizer = make_tokenizer()
    model = make_model(304, tokenizer)  # A few rows more than tokens, as real models pad.
    for folder, shard in (("single", "1GB"), ("sharded", "30KB")):
        model.save_pretrained(FOLDER / folder, max_shard_size=shard)
        tokenizer.save_pretrained(FOLDER / folder)
    write_gguf(FOLDER / "tiny.gguf", model, tokenizer)


if __name__ == "__main__":
    main()
