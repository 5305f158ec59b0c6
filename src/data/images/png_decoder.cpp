// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/images/image_decoder.hpp"

namespace flotilla {

namespace {

constexpr std::array<unsigned char, 12> end_chunk = {0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xAE, 0x42, 0x60, 0x82};

void ignore_warning(png_structp /*png*/, png_const_charp /*text*/) {}

class PngDecoder final : public ImageDecoder {
 public:
  PngDecoder() = default;
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;
  ~PngDecoder() override { close(); }

  Extent open(std::span<const std::byte> file) override {
    close();
    file_ = file;
    taken_ = 0;
    ended_ = false;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, remember_error, ignore_warning);
    if (png_ == nullptr) throw LibraryError("png_create_read_struct", "out of memory");
    guarded([this] {
      info_ = png_create_info_struct(png_);
      if (info_ == nullptr) png_error(png_, "out of memory");
      png_set_read_fn(png_, this, read_bytes);
      // Others than those of pixels and transparency: libpng makes room for what a chunk's head claims.
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_read_info(png_, info_);
    });
    extent_ = {png_get_image_width(png_, info_), png_get_image_height(png_, info_)};
    return extent_;
  }

  void start(const Box& region) override {
    region_ = region;
    row_ = 0;
    guarded([this] {
      png_set_strip_16(png_);
      png_set_expand(png_);
      png_set_gray_to_rgb(png_);
      png_set_add_alpha(png_, 0xFF, PNG_FILLER_AFTER);
      interlaced_ = png_set_interlace_handling(png_) > 1;
      png_read_update_info(png_, info_);
    });
    const auto width = static_cast<std::size_t>(extent_.width);
    require(png_get_rowbytes(png_, info_) == width * sizeof(Pixel),
            "libpng was asked for four bytes a pixel");
    buffer_.resize(width * static_cast<std::size_t>(interlaced_ ? extent_.height : max_rows));
    if (interlaced_) {
      read_interlaced();
    } else {
      for (std::int64_t y = 0; y < region.y; ++y) read_row(buffer_.data());
    }
    row_ = region.y;
  }

  void next(std::span<const Pixel*> rows) override {
    require(std::ssize(rows) <= max_rows, "a decoder delivers ", max_rows, " rows at a time");
    for (std::size_t r = 0; r < rows.size(); ++r, ++row_) {
      const auto line = interlaced_ ? static_cast<std::size_t>(row_) : r;
      Pixel* row = buffer_.data() + line * static_cast<std::size_t>(extent_.width);
      if (!interlaced_) read_row(row);
      rows[r] = row + region_.x;
    }
    if (row_ == region_.y + region_.height) finish();
  }

 private:
  template <class Call>
  void guarded(const Call& call) {
    // Frames left by the jump hold nothing to destroy: the calls below and the library's.
    if (setjmp(png_jmpbuf(png_)) != 0) fail();
    call();
  }

  void read_row(Pixel* row) {
    guarded([&] { png_read_row(png_, reinterpret_cast<png_bytep>(row), nullptr); });
  }

  /// Each of the seven passes fills in its pixels of every row.
  void read_interlaced() {
    guarded([this] {
      for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass) {
        for (std::int64_t y = 0; y < extent_.height; ++y) {
          Pixel* row = buffer_.data() + y * extent_.width;
          png_read_row(png_, reinterpret_cast<png_bytep>(row), nullptr);
        }
      }
    });
  }

  /// A file that ends with the end chunk is whole; others are read to their end.
  void finish() {
    const bool whole =
        file_.size() >= end_chunk.size() &&
        std::memcmp(&file_[file_.size() - end_chunk.size()], end_chunk.data(), end_chunk.size()) == 0;
    if (whole) return;
    if (!interlaced_) {
      spare_.resize(static_cast<std::size_t>(extent_.width));
      for (std::int64_t y = row_; y < extent_.height; ++y) read_row(spare_.data());
    }
    guarded([this] { png_read_end(png_, nullptr); });
  }

  static void read_bytes(png_structp png, png_bytep to, std::size_t count) {
    auto& self = *static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (count > self.file_.size() - self.taken_) {
      self.ended_ = true;
      png_error(png, "end of file");
    }
    std::memcpy(to, self.file_.data() + self.taken_, count);
    self.taken_ += count;
  }

  [[noreturn]] static void remember_error(png_structp png, png_const_charp text) {
    auto& self = *static_cast<PngDecoder*>(png_get_error_ptr(png));
    // No std::string here: the jump would leak it.
    std::strncpy(self.error_.data(), text, self.error_.size() - 1);
    png_longjmp(png, 1);
  }

  [[noreturn]] void fail() const {
    if (ended_) {
      throw BadImage(cat("is truncated: it ends after ", file_.size(), " bytes; copy or download it again"));
    }
    throw BadImage(cat("is damaged: libpng reports \"", error_.data(), "\"; copy or download it again"));
  }

  void close() { png_destroy_read_struct(&png_, &info_, nullptr); }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::byte> file_;
  std::size_t taken_ = 0;  ///< Bytes of file_ read so far.
  bool ended_ = false;     ///< More bytes were wanted than there are.
  bool interlaced_ = false;
  Extent extent_;
  Box region_;
  std::int64_t row_ = 0;  ///< The next to deliver.
  std::vector<Pixel> buffer_;
  std::vector<Pixel> spare_;
  std::array<char, 200> error_{};
};

}  // namespace

std::unique_ptr<ImageDecoder> make_png_decoder() {
  return std::make_unique<PngDecoder>();
}

}  // namespace flotilla
