#include "server/process_limits.h"

#include <sys/resource.h>

#include "common/log.h"

namespace lynx::server {

void raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  const bool raised = ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
  log_debug("open files", {{"limit", limit.rlim_max}, {"raised", raised}});
}

}  // namespace lynx::server
