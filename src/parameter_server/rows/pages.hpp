// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/error.hpp"

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

/// Rows of one size, by number, zero at first, in slabs that never move: (row_floats) each.
class RowSlabs {
 public:
  static constexpr std::size_t slab_bytes = std::size_t{32}
                                            << 20;  ///< Maximum; smaller if rows do not fill it

  explicit RowSlabs(std::size_t row_floats) : row_floats_(row_floats) {
    require(row_floats > 0 && row_floats * sizeof(float) <= slab_bytes, "a row of ", row_floats,
            " floats, with its state");
    shift_ = static_cast<int>(std::bit_width(slab_bytes / (row_floats * sizeof(float)))) - 1;
  }

  float* row(std::uint32_t number) const {
    return reinterpret_cast<float*>(slabs_[number >> shift_].data()) +
           (number & ((std::size_t{1} << shift_) - 1)) * row_floats_;
  }
  std::uint32_t size() const { return size_; }  ///< Rows, and the number of the next one
  float* add() {
    if ((size_ >> shift_) == slabs_.size())
      slabs_.emplace_back((std::size_t{1} << shift_) * row_floats_ * sizeof(float));
    return row(size_++);
  }
  std::size_t row_floats() const { return row_floats_; }

 private:
  std::size_t row_floats_;
  int shift_ = 0;  ///< log₂ of the rows in a slab
  std::uint32_t size_ = 0;
  std::vector<Pages> slabs_;
};

}  // namespace flotilla
