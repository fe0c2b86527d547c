#include "quant/residual_tables.h"

#include <cassert>

#include "quant/residual_code.h"

namespace lynx::quant {
namespace {

/// What a symbol stands for.
int quotient_of(const ResidualContext& context, int index, int symbol) {
  if (symbol == context.escape) return kEscapeQuotient;
  if (index != 0) return symbol + context.lowest;
  return symbol / kZeroOctaves * 256 - symbol % kZeroOctaves;
}

std::uint32_t encode_entry(const ResidualContext& context, int index, int symbol) {
  const bool escape = symbol == context.escape;
  const unsigned raw_bits = escape ? 0 : static_cast<unsigned>(residual_raw_bits(index));
  const unsigned length = context.code.lengths.of[symbol];
  const std::uint32_t word = 1u << length | context.code.words[symbol];
  return word << 8 | (escape ? 0x80u : 0u) | raw_bits << 4 | (length + raw_bits);
}

void add_context(const ResidualContext& context, int index, ResidualTables* tables) {
  std::uint32_t* row = tables->encode + index * kQuotients;
  std::uint32_t* negative = tables->encode + kNegativeZeroRow * kQuotients;
  for (int i = 0; i < kQuotients; ++i) {
    row[i] = encode_entry(context, index, context.escape);
    if (index == 0) negative[i] = row[i];
  }
  for (int symbol = 0; symbol < context.escape; ++symbol) {
    const bool of_negative = index == 0 && symbol >= kZeroOctaves;
    const int at = quotient_of(context, index, symbol) - (of_negative ? 256 : 0) + kQuotients / 2;
    assert(at > 0 && at < kQuotients - 1);  // The first and the last are escapes: what lies outside is looked up there.
    (of_negative ? negative : row)[at] = encode_entry(context, index, symbol);
  }
  for (int next = 0; next < kNextBytes; ++next) {
    const int symbol = context.table.exponents[next];
    const int raw_bits = symbol == context.escape ? 0 : residual_raw_bits(index);
    tables->decode[index * kNextBytes + next] =
        static_cast<std::uint16_t>(quotient_of(context, index, symbol) * 64 + raw_bits * 8 + context.table.lengths[next / 2] - 1);
  }
}

ResidualTables make_residual_tables(bool wide) {
  ResidualTables tables{};
  for (int index = 0; index < kResidualContexts; ++index) add_context(residual_code(wide).contexts[index], index, &tables);
  return tables;
}

}  // namespace

const ResidualTables& residual_tables(bool wide) {
  static const ResidualTables tables = make_residual_tables(false);
  static const ResidualTables wide_tables = make_residual_tables(true);
  return wide ? wide_tables : tables;
}

}  // namespace lynx::quant
