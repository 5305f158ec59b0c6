// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

namespace flotilla {

/// Zeroed memory by mmap. Untouched pages take no memory, and all is returned to the system at once, so that
/// growing tables leave no fragments. From 2 MiB on it is aligned to 2 MiB and uses huge pages.
class Pages {
 public:
  Pages() = default;
  explicit Pages(std::size_t bytes);  ///< Rounded up to whole pages. @throws LibraryError
  Pages(Pages&& other) noexcept { swap(other); }
  Pages& operator=(Pages&& other) noexcept {
    swap(other);
    return *this;
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  static constexpr std::size_t page = 4096;
  static constexpr std::size_t huge_page = std::size_t{2} << 20;

 private:
  void swap(Pages& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace flotilla
