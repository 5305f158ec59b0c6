// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs it and does not include it.
#include <utility>
#include <vector>

#include <jerror.h>
#include <jpeglib.h>

#include "kernels/error.hpp"
#include "src/data/images/image_decoder.hpp"

namespace flotilla {

namespace {

/// A file may hold any number of scans that change nothing, a few hundred bytes each, and each costs a pass
/// over all coefficients. Real files have about ten; libjpeg-turbo recommends 500 as the limit ("Two Issues
/// with the JPEG Standard"). Large images may have fewer, so that none takes more than a second or two.
constexpr std::int64_t max_scans = 500;
constexpr std::int64_t min_scans = 20;
constexpr std::int64_t max_scanned_pixels = std::int64_t{1} << 31;

/// libjpeg's error manager with a way back. The library is C: it is left by longjmp, not by an exception.
struct ErrorManager {
  jpeg_error_mgr base{};  // First: the library hands back its address.
  std::jmp_buf way_back{};
};

[[noreturn]] void leave(j_common_ptr info) {
  std::longjmp(reinterpret_cast<ErrorManager*>(info->err)->way_back, 1);
}

/// Warnings pass, as in all readers, except that the data ended: the library would invent the rest.
void take_message(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) leave(info);
}

void print_nothing(j_common_ptr /*info*/) {}

bool ends_with_its_marker(std::span<const std::byte> file) {
  const std::size_t n = file.size();
  return n >= 2 && file[n - 2] == std::byte{0xFF} && file[n - 1] == std::byte{0xD9};
}

/// Inks as stored (255 − ink) to light, rounded as PIL does.
void inks_to_light(std::span<Pixel> row) {
  for (Pixel& pixel : row) {
    const std::uint32_t black = pixel >> 24;
    Pixel light = 0xFF000000;
    for (int shift = 0; shift < 24; shift += 8) {
      const std::uint32_t covered = (255 - ((pixel >> shift) & 255)) * black + 128;
      light |= (black - ((covered + (covered >> 8)) >> 8)) << shift;
    }
    pixel = light;
  }
}

class JpegDecoder final : public ImageDecoder {
 public:
  JpegDecoder() {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave;
    errors_.base.emit_message = take_message;
    errors_.base.output_message = print_nothing;
    monitor_.progress_monitor = count_scans;
    guarded([this] { jpeg_create_decompress(&info_); });
    info_.progress = &monitor_;
    info_.client_data = this;
  }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
  ~JpegDecoder() override { jpeg_destroy_decompress(&info_); }

  Extent open(std::span<const std::byte> file) override {
    file_ = file;
    guarded([this] {
      jpeg_abort_decompress(&info_);
      info_.output_scanline = 0;  // of the image before
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
      jpeg_read_header(&info_, TRUE);
    });
    return {info_.image_width, info_.image_height};
  }

  // Always at full size. Large images at 1/2 or 1/4 (libjpeg's scaled transform) would save 10 to 25 % of
  // their time, most of which is Huffman decoding; values would change by up to 3 of 255, and parts of images
  // with unusual sampling would differ from the whole.
  void start(const Box& region) override {
    region_ = region;
    info_.out_color_space = info_.num_components == 4 ? JCS_CMYK : JCS_EXT_RGBX;
    first_column_ = static_cast<JDIMENSION>(std::max<std::int64_t>(0, region.x - margin_));
    const auto end = std::min<std::int64_t>(info_.image_width, region.x + region.width + margin_);
    guarded([&] {
      jpeg_start_decompress(&info_);
      JDIMENSION width = static_cast<JDIMENSION>(end) - first_column_;
      if (width < info_.output_width) jpeg_crop_scanline(&info_, &first_column_, &width);
      if (region_.y > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(region_.y));
    });
    buffer_.resize(std::size_t{info_.output_width} * max_rows);
  }

  void next(std::span<const Pixel*> rows) override {
    require(std::ssize(rows) <= max_rows, "a decoder delivers ", max_rows, " rows at a time");
    std::array<unsigned char*, max_rows> to{};
    for (std::size_t r = 0; r < rows.size(); ++r) {
      Pixel* row = buffer_.data() + r * info_.output_width;
      to[r] = reinterpret_cast<unsigned char*>(row);
      rows[r] = row + (region_.x - first_column_);
    }
    read_lines(to.data(), static_cast<JDIMENSION>(rows.size()));
    if (info_.out_color_space == JCS_CMYK) {
      inks_to_light(std::span(buffer_).first(rows.size() * info_.output_width));
    }
    if (info_.output_scanline == region_.y + region_.height) finish();
  }

 private:
  // Smooth upsampling of chroma uses the neighbouring samples, two pixels wide.
  static constexpr std::int64_t margin_ = 2;

  template <class Call>
  void guarded(const Call& call) {
    // Frames left by the jump hold nothing to destroy: the calls below and the library's.
    if (setjmp(errors_.way_back) != 0) fail();
    call();
  }

  void read_lines(unsigned char** to, JDIMENSION count) {
    guarded([&] {
      for (JDIMENSION done = 0; done < count;) done += jpeg_read_scanlines(&info_, to + done, count - done);
    });
  }

  /// A file that ends with the end marker is whole. In others the rest is read as well: trailing bytes are
  /// harmless, missing ones are not.
  void finish() {
    if (ends_with_its_marker(file_)) return;
    auto* row = reinterpret_cast<unsigned char*>(spare_row());
    while (info_.output_scanline < info_.output_height) read_lines(&row, 1);
    guarded([this] { jpeg_finish_decompress(&info_); });
  }

  /// A row of its own: the caller still reads the other rows.
  Pixel* spare_row() {
    spare_.resize(info_.output_width);
    return spare_.data();
  }

  /// The library calls it for each row of blocks that it reads.
  static void count_scans(j_common_ptr common) {
    const auto& info = *reinterpret_cast<j_decompress_ptr>(common);
    const std::int64_t pixels = std::int64_t{info.image_width} * info.image_height;
    if (info.input_scan_number <= std::max(min_scans, std::min(max_scans, max_scanned_pixels / pixels)))
      return;
    static_cast<JpegDecoder*>(info.client_data)->too_many_scans_ = true;
    leave(common);
  }

  [[noreturn]] void fail() {
    if (std::exchange(too_many_scans_, false))
      throw BadImage(cat("has more than ", info_.input_scan_number - 1, " scans of ", info_.image_width,
                         " x ", info_.image_height,
                         " pixels, which no program for photographs writes; save it anew as JPEG or PNG"));
    std::array<char, JMSG_LENGTH_MAX> text{};
    if (info_.err->msg_code == JWRN_JPEG_EOF) {
      const auto row = info_.output_scanline;
      throw BadImage(cat("is truncated: it ends after ", file_.size(), " bytes, ",
                         row == 0 ? std::string("before its first row is complete")
                                  : cat("in or before row ", row + 1, " of ", info_.image_height),
                         "; copy or download it again"));
    }
    info_.err->format_message(reinterpret_cast<j_common_ptr>(&info_), text.data());
    if (info_.err->msg_code == JERR_OUT_OF_MEMORY) throw LibraryError("libjpeg", text.data());
    throw BadImage(cat("is damaged or of a kind that cannot be read: libjpeg reports \"", text.data(), "\""));
  }

  jpeg_decompress_struct info_{};
  ErrorManager errors_;
  jpeg_progress_mgr monitor_{};
  bool too_many_scans_ = false;
  std::span<const std::byte> file_;
  Box region_;
  JDIMENSION first_column_ = 0;  ///< First column of the decoded rows in the image.
  std::vector<Pixel> buffer_;
  std::vector<Pixel> spare_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_jpeg_decoder() {
  return std::make_unique<JpegDecoder>();
}

}  // namespace flotilla
