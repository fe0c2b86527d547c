#include "bench/two_ends.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <thread>

namespace lynx::bench {

namespace fs = std::filesystem;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void publish(const fs::path& path, const std::string& content) {
  const fs::path partial = path.string() + ".part";
  std::ofstream(partial, std::ios::binary) << content;
  fs::rename(partial, path);
}

Result<std::string> await(const fs::path& path, double patience_s) {
  for (const auto start = Clock::now(); !fs::exists(path); std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    if (since(start) > patience_s) return Status(Code::kUnavailable, "the other end does not come");
  }
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void publish_address(const fs::path& folder, const std::string& name, const transport::LinkAddress& address) {
  for (std::size_t i = 0; i < address.lanes.size(); ++i) publish(folder / fmt::format("{}{}", name, i), address.lanes[i]);
}

Result<transport::LinkAddress> await_address(const fs::path& folder, const std::string& name) {
  transport::LinkAddress address;
  for (int i = 0; i < transport::kLanes; ++i) {
    LYNX_TRY(std::string lane, await(folder / fmt::format("{}{}", name, i)));
    address.lanes.push_back(std::move(lane));
  }
  return address;
}

}  // namespace lynx::bench
