// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/rows/pages.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::byte* mapped(std::size_t bytes) {
  void* const address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    throw LibraryError("mmap", cat(std::strerror(errno), ", for ", bytes, " bytes of a table"));
  return static_cast<std::byte*>(address);
}

}  // namespace

Pages::Pages(std::size_t bytes) : bytes_(rounded_up(bytes, page)) {
  if (bytes_ < huge_page) {
    if (bytes_ > 0) data_ = mapped(bytes_);
    return;
  }
  // More is mapped than wanted, and what lies before and after the aligned part is unmapped again.
  std::byte* const all = mapped(bytes_ + huge_page);
  const std::size_t before =
      rounded_up(reinterpret_cast<std::uintptr_t>(all), huge_page) - reinterpret_cast<std::uintptr_t>(all);
  data_ = all + before;
  if (before > 0) munmap(all, before);
  if (before < huge_page) munmap(data_ + bytes_, huge_page - before);
  madvise(data_, bytes_ / huge_page * huge_page, MADV_HUGEPAGE);  // A refusal changes nothing else.
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace flotilla
