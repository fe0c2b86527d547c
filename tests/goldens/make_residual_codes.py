#!/usr/bin/env python3
"""Writes tests/goldens/quant/residual_codes.txt: the exact Residual's prefix codes, derived with fractions from docs/plane_format.md.

A line: anchor or wide, context, lowest difference (without raw bits), code word lengths of the symbols, the escape's last.
Needs nothing. Run anywhere; the output lies beside this script and is the same every time.
"""

import collections
import pathlib
from fractions import Fraction

CONTEXTS = 32
LONGEST = 8
ALL_SCALES = 360360


def value_at(rank):
    """The BF16 value of a place in the order of all; 0 is +0, -1 is -0."""
    if rank < 0:
        return -value_at(-rank - 1)
    exponent, mantissa = rank >> 7, rank & 127
    return Fraction(128 + mantissa, 128) * Fraction(2) ** (exponent - 127) if exponent else Fraction(mantissa, 128) * Fraction(2) ** -126


def nearest_rank(x):
    if x < 0:
        return -nearest_rank(-x) - 1
    exponent = 127
    while Fraction(2) ** (exponent - 127) > x:
        exponent -= 1
    while Fraction(2) ** (exponent - 126) <= x:
        exponent += 1
    return (exponent - 1) * 128 + round(x / Fraction(2) ** (exponent - 134))  # round() takes ties to even.


def context_of(level):
    if level < 16:
        return level
    octave = level.bit_length() - 1
    return 8 + 2 * octave + (2 * level >= 3 * 2**octave)


def raw_bits(context):
    return 7 if context == 0 else max(0, 4 - context.bit_length())


def level_masses(wide):
    masses = collections.defaultdict(collections.Counter)
    for level in range(1, (142 * 16 + 7 if wide else 142) + 1):
        for sign in (1, -1):
            for mantissa in range(8):
                scale = Fraction(8 + mantissa, 8)
                signed = sign * level
                low = (signed - Fraction(1, 2)) * scale
                high = (signed + (1 if wide and signed % 16 == 7 else Fraction(1, 2))) * scale
                middle = nearest_rank(signed * scale)
                for step in (1, -1):  # Outwards from the middle, which may itself be outside.
                    apart = 0 if step == 1 else -1
                    while low <= value_at(middle + apart) <= high or abs(apart) < 8:
                        x = value_at(middle + apart)
                        if low <= x <= high:
                            ulp_octave = (nearest_rank(abs(x)) >> 7) - 126
                            masses[context_of(level)][sign * apart] += 2**ulp_octave * (ALL_SCALES // (8 + mantissa))
                        apart += step
    return masses


def code_lengths(masses):
    """Package-merge; of equal masses leaves come first, and among leaves lower symbols."""
    shift = 0
    while sum(masses) >> shift >= 1 << 30:
        shift += 1
    scaled = [max(mass >> shift, 1) for mass in masses] + [max((sum(masses) >> shift) // 512, 1)]
    leaves = sorted((mass, (symbol,)) for symbol, mass in enumerate(scaled))
    items = []
    for _ in range(LONGEST):
        pairs = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(items[::2], items[1::2])]
        items = sorted(leaves + pairs, key=lambda item: item[0])
    taken = collections.Counter(symbol for _, symbols in items[: 2 * len(scaled) - 2] for symbol in symbols)
    return [taken[symbol] for symbol in range(len(scaled))]


def zero_masses():
    def octave_mass(octave):
        return sum((256 * m if octave == 1 else 4096 >> octave) * (ALL_SCALES // (8 + m)) for m in range(8))

    return [octave_mass(octave) for octave in range(1, 9)] * 2


def main():
    lines = []
    for wide in (False, True):
        masses = level_masses(wide)
        for context in range(CONTEXTS):
            lowest, symbols = 0, zero_masses()
            if context > 0:
                masses[context][0] += 1
                places = collections.Counter()
                for apart, mass in masses[context].items():
                    places[apart >> raw_bits(context)] += mass
                lowest = min(places)
                symbols = [places[place] for place in range(lowest, max(places) + 1)]
            lines.append(" ".join(map(str, ["wide" if wide else "anchor", context, lowest, *code_lengths(symbols)])))
    (pathlib.Path(__file__).parent / "quant" / "residual_codes.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
