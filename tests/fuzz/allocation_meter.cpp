#include "tests/fuzz/allocation_meter.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

std::size_t in_use = 0;
std::size_t baseline = 0;
std::size_t peak = 0;

}  // namespace

namespace lynx::fuzz {

void reset_allocation_peak() {
  baseline = in_use;
  peak = in_use;
}

std::size_t allocation_peak() {
  return peak - baseline;
}

}  // namespace lynx::fuzz

// All forms but the over-aligned ones, so that none is left to pair with the library's own.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  void* block = std::malloc(size);
  if (block == nullptr) return nullptr;
  in_use += malloc_usable_size(block);
  peak = std::max(peak, in_use);
  return block;
}

void* operator new(std::size_t size) {
  void* block = operator new(size, std::nothrow);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void* operator new[](std::size_t size) {
  return operator new(size);
}

void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept {
  return operator new(size, tag);
}

void operator delete(void* block) noexcept {
  if (block != nullptr) in_use -= malloc_usable_size(block);
  std::free(block);
}

void operator delete(void* block, std::size_t) noexcept {
  operator delete(block);
}

void operator delete(void* block, const std::nothrow_t&) noexcept {
  operator delete(block);
}

void operator delete[](void* block) noexcept {
  operator delete(block);
}

void operator delete[](void* block, std::size_t) noexcept {
  operator delete(block);
}

void operator delete[](void* block, const std::nothrow_t&) noexcept {
  operator delete(block);
}
