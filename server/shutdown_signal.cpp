#include "server/shutdown_signal.h"

#include <pthread.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace lynx::server {
namespace {

sigset_t shutdown_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

ShutdownSignal::ShutdownSignal() {
  const sigset_t set = shutdown_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void ShutdownSignal::wait() {
  const sigset_t set = shutdown_signals();
  int signal = 0;
  while (sigwait(&set, &signal) != 0) {
  }
}

bool ShutdownSignal::wait_for(std::chrono::milliseconds timeout) {
  const sigset_t set = shutdown_signals();
  const timespec time{.tv_sec = static_cast<time_t>(timeout.count() / 1000),
                      .tv_nsec = static_cast<long>(timeout.count() % 1000) * 1'000'000};
  return sigtimedwait(&set, nullptr, &time) > 0;
}

}  // namespace lynx::server
