// SPDX-License-Identifier: Apache-2.0
#include "tests/data/images/image_files.hpp"

#include <png.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <jpeglib.h>

namespace flotilla::test {

namespace {

void fail(j_common_ptr info) {
  std::array<char, JMSG_LENGTH_MAX> text{};
  info->err->format_message(info, text.data());
  // The C frames below are compiled with unwinding tables where the tests run.
  throw std::runtime_error(text.data());
}

J_COLOR_SPACE input_space(JpegForm::Colours colours) {
  if (colours == JpegForm::grey) return JCS_GRAYSCALE;
  return colours == JpegForm::cmyk || colours == JpegForm::ycck ? JCS_CMYK : JCS_RGB;
}

J_COLOR_SPACE file_space(JpegForm::Colours colours) {
  switch (colours) {
    case JpegForm::grey: return JCS_GRAYSCALE;
    case JpegForm::ycc: return JCS_YCbCr;
    case JpegForm::rgb: return JCS_RGB;
    case JpegForm::cmyk: return JCS_CMYK;
    case JpegForm::ycck: return JCS_YCCK;
  }
  return JCS_UNKNOWN;
}

void put(Bytes& to, std::uint32_t value, int size, bool big_endian) {
  for (int i = 0; i < size; ++i) {
    const int shift = 8 * (big_endian ? size - 1 - i : i);
    to.push_back(static_cast<std::uint8_t>(value >> shift));
  }
}

}  // namespace

Picture draw(int width, int height, const std::function<int(int, int, int)>& f, int channels) {
  Picture picture{width, height, channels, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) picture.values.push_back(static_cast<std::uint8_t>(f(x, y, c)));
    }
  }
  return picture;
}

Picture busy(int width, int height, int channels) {
  return draw(
      width, height,
      [](int x, int y, int c) {
        const double wave = std::sin(0.02 * x * x + c) * std::cos(0.013 * y * y + 0.1 * x - c);
        const int edge = (x / 5 + y / 7 + c) % 3 == 0 ? 40 : 0;
        return 107 + static_cast<int>(107 * wave) + edge;
      },
      channels);
}

Picture pattern(int width, int height, int channels) {
  return draw(
      width, height, [](int x, int y, int c) { return (37 * x + 59 * y + 83 * c + 11 * x * y) % 256; },
      channels);
}

Bytes jpeg(const Picture& picture, const JpegForm& form) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  errors.error_exit = fail;
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(picture.width);
  info.image_height = static_cast<JDIMENSION>(picture.height);
  info.input_components = picture.channels;
  info.in_color_space = input_space(form.colours);
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, file_space(form.colours));
  jpeg_set_quality(&info, form.quality, TRUE);
  info.comp_info[0].h_samp_factor = form.colours == JpegForm::grey ? 1 : form.sampling_x;
  info.comp_info[0].v_samp_factor = form.colours == JpegForm::grey ? 1 : form.sampling_y;
  if (form.colours == JpegForm::ycck) {
    info.comp_info[3].h_samp_factor = form.sampling_x;
    info.comp_info[3].v_samp_factor = form.sampling_y;
  }
  info.arith_code = form.arithmetic ? TRUE : FALSE;
  info.restart_in_rows = form.restart_rows;
  if (form.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  if (form.orientation != 0) {
    Bytes segment = bytes(std::string("Exif\0\0", 6));
    const Bytes tiff = exif(form.orientation, form.big_endian);
    segment.insert(segment.end(), tiff.begin(), tiff.end());
    jpeg_write_marker(&info, JPEG_APP0 + 1, segment.data(), static_cast<unsigned>(segment.size()));
  }
  const auto stride = static_cast<std::size_t>(picture.width * picture.channels);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPLE*>(picture.values.data() + info.next_scanline * stride);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes file(size);
  std::memcpy(file.data(), memory, size);
  std::free(memory);
  return file;
}

Picture decode_jpeg(const Bytes& file) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  errors.error_exit = fail;
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&info);
  Picture picture{
      static_cast<int>(info.output_width), static_cast<int>(info.output_height), info.output_components, {}};
  const auto stride = static_cast<std::size_t>(picture.width * picture.channels);
  picture.values.resize(stride * static_cast<std::size_t>(picture.height));
  while (info.output_scanline < info.output_height) {
    JSAMPLE* row = picture.values.data() + info.output_scanline * stride;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return picture;
}

Bytes png(const Picture& picture, const PngForm& form) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  Bytes file;
  png_set_write_fn(
      png, &file,
      [](png_structp writer, png_bytep data, std::size_t size) {
        auto& to = *static_cast<Bytes*>(png_get_io_ptr(writer));
        const auto* from = static_cast<const std::uint8_t*>(data);
        to.insert(to.end(), from, from + size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(picture.width), static_cast<png_uint_32>(picture.height),
               form.depth, form.colour_type, form.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (std::size_t i = 0; i + 2 < form.palette.size(); i += 3) {
    palette.push_back({form.palette[i], form.palette[i + 1], form.palette[i + 2]});
  }
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  png_byte opaque = 0;
  png_color_16 nothing{};
  if (form.transparent) png_set_tRNS(png, info, form.colour_type == 3 ? &opaque : nullptr, 1, &nothing);
  Bytes tiff = exif(form.orientation);
  if (form.orientation != 0) {
    png_set_eXIf_1(png, info, static_cast<png_uint_32>(tiff.size()), tiff.data());
  }
  png_write_info(png, info);
  if (form.depth < 8) png_set_packing(png);
  std::vector<std::uint8_t> values;
  for (const std::uint8_t value : picture.values) {
    values.push_back(value);
    if (form.depth == 16) values.push_back(0x80);
  }
  const auto stride = values.size() / static_cast<std::size_t>(picture.height);
  std::vector<png_bytep> rows;
  for (std::size_t y = 0; y < static_cast<std::size_t>(picture.height); ++y)
    rows.push_back(values.data() + y * stride);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

Bytes exif(int orientation, bool big_endian) {
  Bytes tiff = bytes(big_endian ? "MM" : "II");
  put(tiff, 42, 2, big_endian);
  put(tiff, 8, 4, big_endian);  // The first directory
  put(tiff, 2, 2, big_endian);  // Entries
  const auto entry = [&](std::uint32_t tag, std::uint32_t value) {
    put(tiff, tag, 2, big_endian);
    put(tiff, 3, 2, big_endian);  // Short
    put(tiff, 1, 4, big_endian);
    put(tiff, value, 2, big_endian);
    put(tiff, 0, 2, big_endian);
  };
  entry(0x0106, 2);
  entry(0x0112, static_cast<std::uint32_t>(orientation));
  put(tiff, 0, 4, big_endian);
  return tiff;
}

Bytes bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace flotilla::test
