#include "transport/wake_event.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace lynx::transport {

WakeEvent::WakeEvent() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

WakeEvent::~WakeEvent() {
  if (fd_ >= 0) close(fd_);
}

void WakeEvent::ring() {
  // It fails only when the counter is full, and then the thread wakes anyway.
  [[maybe_unused]] const int result = eventfd_write(fd_, 1);
}

void WakeEvent::wait(std::span<const int> fds, std::int64_t wait_us) {
  std::array<pollfd, 8> events{};
  events[0] = {fd_, POLLIN, 0};
  const std::size_t count = std::min(fds.size(), events.size() - 1);
  for (std::size_t i = 0; i < count; ++i) events[i + 1] = {fds[i], POLLIN, 0};
  const std::int64_t bounded_us = std::max<std::int64_t>(0, wait_us);
  const timespec wait{bounded_us / 1'000'000, bounded_us % 1'000'000 * 1000};
  if (ppoll(events.data(), count + 1, wait_us == kForever ? nullptr : &wait, nullptr) > 0 && events[0].revents != 0) {
    eventfd_t rung = 0;
    eventfd_read(fd_, &rung);
  }
}

}  // namespace lynx::transport
