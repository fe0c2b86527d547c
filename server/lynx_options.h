#pragma once

// The `lynx` object of a request: what no other server has.

#include <optional>

#include "server/transfer_mode.h"

namespace lynx::server {

class FieldReader;

struct LynxOptions {
  std::optional<TransferMode> transfer;
  std::optional<GapMode> gap;  ///< Or its alias, `speculation`.
  bool provisional = false;
  bool receipt = false;
};

/// Reads the `lynx` object of a request body. Errors are left in `reader`: a key that is not known, a value that is none of the
/// key's, `provisional` outside of a stream, `speculation` that contradicts `gap`.
LynxOptions read_lynx_options(FieldReader& reader, bool stream);

}  // namespace lynx::server
