#!/usr/bin/env python3
"""Writes tests/goldens/quant/<TYPE>.blocks and <TYPE>.values: random and extreme blocks, decoded by the `gguf` package.

Needs: pip install gguf numpy. Run anywhere; the output lies beside this script and is the same every time.
"""

import pathlib

import gguf
import numpy as np

TYPES = {"F32": [], "F16": [], "BF16": [], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2],
         "Q5_K": [0, 2], "Q6_K": [208]}  # Byte offsets of the half-precision scales.
EXTREMES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00, 0x2E66, 0x7C00, 0xFC00, 0x7E00]


def make_blocks(name, rng):
    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    count = 256 if values == 1 else len(EXTREMES) + (18 if values == 32 else 4)
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    offsets = TYPES[name]
    for i in range(count if offsets else 0):
        for j, offset in enumerate(offsets):
            half = EXTREMES[(i * (1 + 4 * j)) % len(EXTREMES)] if i < len(EXTREMES) else int(rng.integers(0, 0x7C00))
            blocks[i, offset : offset + 2] = np.array([half], np.uint16).view(np.uint8)
    if offsets:  # All codes smallest, all codes largest.
        for row, fill in ((-1, 0x00), (-2, 0xFF)):
            scales = [blocks[row, o : o + 2].copy() for o in offsets]
            blocks[row] = fill
            for o, scale in zip(offsets, scales):
                blocks[row, o : o + 2] = scale
    return blocks


def main():
    folder = pathlib.Path(__file__).parent / "quant"
    folder.mkdir(exist_ok=True)
    for name in TYPES:
        blocks = make_blocks(name, np.random.default_rng(20260701))
        with np.errstate(all="ignore"):
            values = gguf.dequantize(blocks, gguf.GGMLQuantizationType[name])
        (folder / f"{name}.blocks").write_bytes(blocks.tobytes())
        (folder / f"{name}.values").write_bytes(np.ascontiguousarray(values, np.float32).tobytes())


if __name__ == "__main__":
    main()
