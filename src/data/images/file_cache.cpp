// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/file_cache.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "src/observe/console.hpp"

namespace flotilla {

FileCache::FileCache(const ImageSource& images, std::int64_t ranks_on_host)
    : begins_(1, 0), states_(static_cast<std::size_t>(images.size())) {
  begins_.reserve(static_cast<std::size_t>(images.size()) + 1);
  for (std::int64_t i = 0; i < images.size(); ++i)
    begins_.push_back(begins_.back() + static_cast<std::uint64_t>(images.bytes(i)));
  const std::int64_t available = available_memory_bytes();
  if (bytes() > available / ranks_on_host) {
    throw UserError(cat(images.origin(), ": data.cache = \"files\" would keep ", bytes_text(bytes()),
                        ranks_on_host > 1 ? cat(" on each of ", ranks_on_host, " ranks of a host") : "",
                        ", but only ", bytes_text(available),
                        " of memory are free; use data.cache = \"none\" (the system caches files too)",
                        ranks_on_host > 1 ? " or fewer ranks with more threads" : ""));
  }
  memory_.reset(new std::byte[begins_.back()]);
}

std::span<const std::byte> FileCache::find(std::int64_t i) const {
  const auto k = static_cast<std::size_t>(i);
  if (states_[k].load(std::memory_order_acquire) != kept) return {};
  return {memory_.get() + begins_[k], static_cast<std::size_t>(begins_[k + 1] - begins_[k])};
}

void FileCache::keep(std::int64_t i, std::span<const std::byte> bytes) {
  const auto k = static_cast<std::size_t>(i);
  if (bytes.size() != begins_[k + 1] - begins_[k]) return;
  std::uint8_t expected = absent;
  if (!states_[k].compare_exchange_strong(expected, being_written, std::memory_order_relaxed)) return;
  std::copy(bytes.begin(), bytes.end(), memory_.get() + begins_[k]);
  states_[k].store(kept, std::memory_order_release);
}

}  // namespace flotilla
