#include "quant/residual_tables.h"

#include <cassert>

#include "quant/residual_code.h"

namespace lynx::quant {
namespace {

std::uint16_t encode_entry(const ResidualContext& context, int index, int symbol) {
  const bool escape = symbol == context.escape;
  const unsigned raw_bits = escape ? 0 : static_cast<unsigned>(residual_raw_bits(index));
  const unsigned word = 1u << context.code.lengths.of[symbol] | context.code.words[symbol];
  return static_cast<std::uint16_t>(word << 4 | (escape ? 8u : 0u) | raw_bits);
}

/// A row of the encoders' tables.
struct Row {
  int context;
  int lowest;
  int symbols;  ///< Without the escape.
  bool negative_zero;

  int symbol(int quotient) const { return context == 0 ? (negative_zero ? kZeroOctaves : 0) - quotient : quotient - lowest; }
};

Row row_at(const ResidualCode& code, int row) {
  if (row == 0 || row == kNegativeZeroRow) return {0, 1 - kZeroOctaves, kZeroOctaves, row != 0};
  return {row, code.contexts[row].lowest, code.contexts[row].escape, false};
}

/// The row's entries in both tables; how many symbols are packed then.
int add_row(const ResidualCode& code, int index, int packed, ResidualTables* tables) {
  const Row row = row_at(code, index);
  const ResidualContext& context = code.contexts[row.context];
  const std::uint16_t escape = encode_entry(context, row.context, context.escape);
  std::uint16_t* entries = tables->encode + index * kQuotients;
  for (int i = 0; i < kQuotients; ++i) entries[i] = escape;
  tables->packed_from[index] = static_cast<std::int16_t>(packed);
  tables->lowest[index] = static_cast<std::int16_t>(row.lowest);
  tables->escape[index] = static_cast<std::int16_t>(row.symbols);
  for (int i = 0; i < row.symbols; ++i) {
    const int at = row.lowest + i + kQuotients / 2;
    assert(at > 0 && at < kQuotients - 1);  // The first and the last are escapes: what lies outside is looked up there.
    entries[at] = encode_entry(context, row.context, row.symbol(row.lowest + i));
    tables->packed[packed++] = entries[at];
  }
  assert(packed < kPackedSymbols);
  tables->packed[packed++] = escape;
  return packed;
}

void add_context(const ResidualContext& context, int index, ResidualTables* tables) {
  for (int next = 0; next < kNextBytes; ++next) {
    const int symbol = context.table.exponents[next];
    const bool escape = symbol == context.escape;
    const int quotient = index != 0 ? symbol + context.lowest : symbol / kZeroOctaves * 256 - symbol % kZeroOctaves;
    tables->decode[index * kNextBytes + next] =
        static_cast<std::uint16_t>((escape ? kEscapeQuotient : quotient) * 64 + (escape ? 0 : residual_raw_bits(index)) * 8 +
                                   context.table.lengths[next / 2] - 1);
  }
}

ResidualTables make_residual_tables(bool wide) {
  const ResidualCode& code = residual_code(wide);
  ResidualTables tables{};
  int packed = 0;
  for (int index = 0; index < kResidualRows; ++index) {
    packed = add_row(code, index, packed, &tables);
    add_context(code.contexts[index], index, &tables);
  }
  return tables;
}

}  // namespace

const ResidualTables& residual_tables(bool wide) {
  static const ResidualTables tables = make_residual_tables(false);
  static const ResidualTables wide_tables = make_residual_tables(true);
  return wide ? wide_tables : tables;
}

}  // namespace lynx::quant
