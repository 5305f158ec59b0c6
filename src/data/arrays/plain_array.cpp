// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/plain_array.hpp"

#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

class PlainArray final : public Array {
 public:
  PlainArray(ArrayForm form, std::shared_ptr<const UnchangedFile> file, const PlainPlace& place)
      : Array(std::move(form)),
        file_(std::move(file)),
        begin_(place.begin),
        stride_(place.stride == 0 ? this->form().row_bytes() : place.stride) {
    const std::int64_t end = begin_ + (this->form().rows() - 1) * stride_ + this->form().row_bytes();
    if (end > file_->size())
      throw UserError(cat(this->form().name, ": is truncated: its ", this->form().rows(),
                          " rows end at byte ", end, ", but the file has ", file_->size(),
                          " bytes; copy or write it again"));
  }

  void read(std::int64_t first, std::int64_t count, std::span<std::byte> to) const override {
    if (stride_ == form().row_bytes()) return file_->read(begin_ + first * stride_, to);
    const auto bytes = static_cast<std::size_t>(form().row_bytes());
    for (std::int64_t row = first; row < first + count; ++row) {
      file_->read(begin_ + row * stride_, to.first(bytes));
      to = to.subspan(bytes);
    }
  }
  void will_read(std::int64_t first, std::int64_t count) const override {
    file_->will_read(begin_ + first * stride_, count * stride_);
  }

 private:
  std::shared_ptr<const UnchangedFile> file_;
  std::int64_t begin_;
  std::int64_t stride_;
};

}  // namespace

std::unique_ptr<Array> make_plain_array(ArrayForm form, std::shared_ptr<const UnchangedFile> file,
                                        const PlainPlace& place) {
  return std::make_unique<PlainArray>(std::move(form), std::move(file), place);
}

}  // namespace flotilla
