#pragma once

namespace lynx::server {

/// Raises the soft limit of open files to the hard one: every connection is one, and servers behave badly without. Logs what it is.
void raise_open_files_limit();

}  // namespace lynx::server
