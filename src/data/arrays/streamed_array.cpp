// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/streamed_array.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t skipped_at_once = std::int64_t{1} << 18;

class StreamedArray final : public Array {
 public:
  StreamedArray(ArrayForm form, std::int64_t begin, std::function<ByteReader()> open)
      : Array(std::move(form)), begin_(begin), open_(std::move(open)) {}

  void read(std::int64_t first, std::int64_t count, std::span<std::byte> to) const override {
    const std::lock_guard lock(mutex_);
    const std::int64_t wanted = begin_ + first * form().row_bytes();
    if (!reader_ || wanted < at_) {
      reader_ = open_();
      at_ = 0;
    }
    std::vector<std::byte> skipped(static_cast<std::size_t>(std::min(wanted - at_, skipped_at_once)));
    while (at_ < wanted)
      take(std::span(skipped).first(static_cast<std::size_t>(std::min(wanted - at_, skipped_at_once))));
    take(to);
    std::byte more{};
    if (first + count == form().rows() && reader_({&more, 1}) > 0)  // also compares checksums
      throw UserError(cat(form().name, ": is damaged: data go on behind its last row; copy the file again"));
  }
  void will_read(std::int64_t /*first*/, std::int64_t /*count*/) const override {}

 private:
  void take(std::span<std::byte> to) const {
    if (reader_(to) < to.size())
      throw UserError(cat(form().name,
                          ": is truncated or damaged: its data end before its last row; copy the "
                          "file again"));
    at_ += std::ssize(to);
  }

  std::int64_t begin_;
  std::function<ByteReader()> open_;
  mutable std::mutex mutex_;
  mutable ByteReader reader_;
  mutable std::int64_t at_ = 0;  ///< Bytes that the reader has given
};

}  // namespace

std::unique_ptr<Array> make_streamed_array(ArrayForm form, std::int64_t begin,
                                           std::function<ByteReader()> open) {
  return std::make_unique<StreamedArray>(std::move(form), begin, std::move(open));
}

}  // namespace flotilla
