// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/file_kind.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include "kernels/error.hpp"
#include "src/data/images/image_decoder.hpp"

namespace flotilla {

namespace {

using std::literals::string_view_literals::operator""sv;

constexpr auto jpeg_begin = "\xFF\xD8\xFF"sv;
constexpr auto png_begin = "\x89PNG\r\n\x1A\n"sv;

struct Foreign {
  std::size_t at;
  std::string_view bytes;
  std::string_view name;
};

constexpr std::array foreign_kinds = {
    Foreign{0, "GIF8"sv, "a GIF file"},
    Foreign{8, "WEBP"sv, "a WebP file"},
    Foreign{0, "BM"sv, "a BMP file"},
    Foreign{0, "II*\0"sv, "a TIFF file"},
    Foreign{0, "MM\0*"sv, "a TIFF file"},
    Foreign{4, "ftypavif"sv, "an AVIF file"},
    Foreign{4, "ftyp"sv, "an HEIF or video file"},
    Foreign{0, "\0\0\0\x0CjP  "sv, "a JPEG 2000 file"},
    Foreign{0, "\xFF\x0A"sv, "a JPEG XL file"},
    Foreign{0, "8BPS"sv, "a Photoshop file"},
    Foreign{0, "%PDF"sv, "a PDF file"},
};
constexpr std::array archives = {
    Foreign{0, "\x1F\x8B"sv, "a gzip file"},
    Foreign{0, "PK\3\4"sv, "a zip file"},
    Foreign{257, "ustar"sv, "a tar file"},
};

bool has(std::string_view file, const Foreign& kind) {
  return file.size() >= kind.at && file.substr(kind.at).starts_with(kind.bytes);
}

bool is_text(std::string_view begin) {
  return std::all_of(begin.begin(), begin.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7F : std::isspace(byte) != 0;
  });
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

[[noreturn]] void refuse_text(std::string_view begin) {
  if (begin.starts_with("version https://git-lfs")) {
    throw BadImage("is a Git LFS pointer, not the image; fetch the images with git lfs pull");
  }
  const std::size_t word = begin.find_first_not_of(" \t\r\n\v\f");
  const std::string text = lower(begin.substr(word == std::string_view::npos ? 0 : word));
  if (text.starts_with("<!doctype html") || text.starts_with("<html")) {
    throw BadImage(
        "is an HTML page, as servers send instead of a file that they do not have; download it again");
  }
  if (text.starts_with("<svg") || text.starts_with("<?xml")) {
    throw BadImage("is an SVG or XML file; convert it to JPEG or PNG");
  }
  throw BadImage("is a text file, not a JPEG or PNG image");
}

}  // namespace

FileKind recognise_image(std::span<const std::byte> file) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()),
                               std::min<std::size_t>(file.size(), 512));
  if (bytes.empty()) throw BadImage("is empty; copy or download it again");
  if (bytes.starts_with(jpeg_begin)) return FileKind::jpeg;
  if (bytes.starts_with(png_begin)) return FileKind::png;
  if (jpeg_begin.starts_with(bytes) || png_begin.starts_with(bytes)) {
    throw BadImage(cat("is truncated: it ends after ", file.size(), " bytes; copy or download it again"));
  }
  for (const Foreign& kind : foreign_kinds) {
    if (has(bytes, kind)) throw BadImage(cat("is ", kind.name, "; convert it to JPEG or PNG"));
  }
  for (const Foreign& kind : archives) {
    if (has(bytes, kind)) throw BadImage(cat("is ", kind.name, "; unpack it"));
  }
  if (is_text(bytes)) refuse_text(bytes);
  if (std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; })) {
    throw BadImage("is not a JPEG or PNG image: it begins with zeros; copy or download it again");
  }
  throw BadImage("is not a JPEG or PNG image, nor another kind of file that is known here");
}

}  // namespace flotilla
