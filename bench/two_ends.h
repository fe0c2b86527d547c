#pragma once

// How the two processes of a measurement find each other: files in a directory that both see.

#include <chrono>
#include <filesystem>
#include <string>

#include "common/status.h"
#include "transport/link.h"

namespace lynx::bench {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start);  ///< Seconds.

/// Readers see all of a file or nothing.
void publish(const std::filesystem::path& path, const std::string& content);

/// Waits for a file and reads it. UNAVAILABLE: it did not come for so long.
Result<std::string> await(const std::filesystem::path& path, double patience_s = 60);

void publish_address(const std::filesystem::path& folder, const std::string& name, const transport::LinkAddress& address);
Result<transport::LinkAddress> await_address(const std::filesystem::path& folder, const std::string& name);

}  // namespace lynx::bench
