// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/data/images/image_source.hpp"

namespace flotilla {

/// Caches the bytes of files in memory, each when it is first read. Safe from several threads at once.
class FileCache {
 public:
  /// Looks up the size of every file; a missing file is not cached.
  /// @throws UserError if `ranks_on_host` such caches do not fit into the memory that is free now.
  FileCache(const ImageSource& images, std::int64_t ranks_on_host);
  std::int64_t bytes() const { return static_cast<std::int64_t>(begins_.back()); }
  /// The bytes of file i; empty if they are not cached yet.
  std::span<const std::byte> find(std::int64_t i) const;
  /// Caches the bytes of file i, unless they are cached or the file's size has changed since the start.
  void keep(std::int64_t i, std::span<const std::byte> bytes);

 private:
  enum State : std::uint8_t { absent, being_written, kept };
  std::vector<std::uint64_t> begins_;
  std::vector<std::atomic<std::uint8_t>> states_;
  std::unique_ptr<std::byte[]> memory_;  // pages come with their first use
};

}  // namespace flotilla
