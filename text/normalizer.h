#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace lynx::text {

/// Whether NFC certainly leaves `text` as it is: nothing at or beyond U+0300. A quick scan; false means "perhaps not".
bool is_trivially_nfc(std::string_view text);

/// Unicode's canonical composition (NFC) of valid UTF-8, by the Unicode 9 tables that Hugging Face `tokenizers` has. Time O(n log
/// n), also for endless runs of combining marks.
Result<std::string> to_nfc(std::string_view text);

}  // namespace lynx::text
