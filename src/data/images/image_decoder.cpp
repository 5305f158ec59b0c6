// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/image_decoder.hpp"

#include "kernels/error.hpp"

namespace flotilla {

FileFormat recognise_image(std::span<const std::byte> file) {
  constexpr std::size_t shortest = 8;  // bytes that identify a PNG file
  const FileKind kind = kind_of_bytes(file);
  if (kind.format == FileFormat::jpeg || kind.format == FileFormat::png) return kind.format;
  if (!file.empty() && file.size() < shortest && (file[0] == std::byte{0xFF} || file[0] == std::byte{0x89}))
    throw BadImage(cat("is truncated: it ends after ", file.size(), " bytes; copy or download it again"));
  throw BadImage(wrong_kind_text(kind, "a JPEG or PNG image"));
}

}  // namespace flotilla
