// SPDX-License-Identifier: Apache-2.0
#include "src/data/idx_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/augmentation.hpp"
#include "src/data/data_file.hpp"
#include "src/data/data_reader.hpp"
#include "src/files/gzip_reader.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t max_pixels = std::int64_t{1} << 26;  // of one image: more is a damaged header
constexpr const char* idx_again = "; copy or download the file again";

std::uint32_t big_endian(std::span<const std::uint8_t> from) {
  return std::uint32_t{from[0]} << 24 | std::uint32_t{from[1]} << 16 | std::uint32_t{from[2]} << 8 | from[3];
}

const char* name(IdxKind kind) {
  return kind == IdxKind::images ? "images" : "labels";
}

std::string wanted_file(IdxKind kind) {
  return cat("an IDX file of ", name(kind));
}

/// Bytes of a number of an IDX type; 0: there is no such type.
std::int64_t type_bytes(int type) {
  switch (type) {
    case 0x08:
    case 0x09: return 1;
    case 0x0B: return 2;
    case 0x0C:
    case 0x0D: return 4;
    case 0x0E: return 8;
    default: return 0;
  }
}

/// Describes a file whose magic number is none of `kind`.
std::string foreign(std::uint32_t magic, IdxKind kind) {
  const std::string begin = fmt::format("{:08x}", magic);
  if (magic == 0x01080000U || magic == 0x03080000U)
    return cat("begins with ", begin, ": its numbers are little-endian; IDX is big-endian, write it anew");
  if (magic >> 16 != 0 || type_bytes(static_cast<int>(magic >> 8)) == 0)
    return cat("begins with ", begin, ", which is neither IDX nor gzip; ", wanted_file(kind),
               " belongs here");
  const std::uint32_t extents = magic & 0xffU;
  const IdxKind other = kind == IdxKind::images ? IdxKind::labels : IdxKind::images;
  if (extents == (kind == IdxKind::images ? 1 : 3))
    return cat("holds ", name(other), " (magic ", magic, "), but ", name(kind),
               kind == IdxKind::images ? " (magic 2051)" : " (magic 2049)",
               " belong here; are the deck's keys \"images\" and \"labels\" swapped?");
  return cat("begins with ", begin, ": IDX in ", extents, " dimensions, but ", name(kind), " have ",
             kind == IdxKind::images ? "3: count, rows, columns" : "1: count",
             "; write it as a NumPy array, which data.kind = \"numpy\" reads in any shape");
}

/// Reads the header out of its first bytes. @throws UserError if they are not what `kind` says.
void parse_header(IdxFile& idx, IdxKind kind, std::span<const std::uint8_t> header) {
  const auto fail = [&](const auto&... what) { throw UserError(cat(idx.path, ": ", what...)); };
  if (header.empty()) fail("is empty", idx_again);
  if (header.size() < 4) fail("is truncated: ", header.size(), " bytes, no magic number", idx_again);
  const std::uint32_t magic = big_endian(header);
  idx.type = static_cast<int>(magic >> 8);
  const std::uint32_t extents = magic & 0xffU;
  const bool fits = kind == IdxKind::images ? extents == 3 : extents == 1 || extents == 2;
  if (!fits || type_bytes(idx.type) == 0) fail(foreign(magic, kind));
  idx.header_bytes = 4 + 4 * std::int64_t{extents};
  idx.begin = idx.header_bytes;
  if (std::ssize(header) < idx.header_bytes) {
    fail("is truncated: ends at byte ", header.size(), " of its ", idx.header_bytes, "-byte header",
         idx_again);
  }
  idx.items = big_endian(header.subspan(4));
  if (idx.items == 0) fail("holds no ", name(kind), " (bytes 4 to 7: count 0); give a file that does");
  if (kind == IdxKind::labels) {
    constexpr std::int64_t of_qmnist = 8;
    if (extents == 2) idx.width = big_endian(header.subspan(8));
    if (idx.width != 1 && idx.width != of_qmnist)
      fail("has ", idx.width, " columns (bytes 8 to 11), but labels have one, or QMNIST's ", of_qmnist,
           "; write the column of the class as an IDX file");
    return;
  }
  idx.rows = big_endian(header.subspan(8));
  idx.columns = big_endian(header.subspan(12));
  // Both factors are below 2³², so the product of two fits; that of all three is bounded by this check.
  if (idx.rows == 0 || idx.columns == 0 || idx.rows > max_pixels / idx.columns) {
    fail("its images are ", idx.rows, "x", idx.columns, " (bytes 8 to 15), which cannot be right: 1 to ",
         max_pixels, " pixels are allowed", idx_again);
  }
}

std::string wrong_length(const IdxFile& idx, IdxKind kind, std::int64_t there) {
  const std::int64_t bytes = idx.stored_item_bytes();
  const std::int64_t wanted = idx.items * bytes;
  const std::string promise =
      cat("its header promises ", idx.items, " ", name(kind), " of ", bytes, bytes == 1 ? " byte" : " bytes");
  if (there > wanted)
    return cat(idx.path, ": is too long: ", promise, ", but data go on after byte ",
               idx.header_bytes + wanted, idx_again);
  return cat(idx.path, ": is truncated: ", promise, ", but the data end at byte ", idx.header_bytes + there,
             ", in item ", there / bytes, idx_again);
}

/// Reads the next bytes of a file, plain or inflated, and returns how many there were.
using Source = std::function<std::size_t(std::span<std::byte>)>;

/// The value of a number of an IDX file.
double value_of(int type, std::span<const std::uint8_t> bytes) {
  std::uint64_t bits = 0;
  for (const std::uint8_t byte : bytes) bits = bits << 8 | byte;
  switch (type) {
    case 0x08: return static_cast<double>(bits);
    case 0x09: return static_cast<std::int8_t>(bits);
    case 0x0B: return static_cast<std::int16_t>(bits);
    case 0x0C: return static_cast<std::int32_t>(bits);
    case 0x0D: return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    default: return std::bit_cast<double>(bits);
  }
}

/// Appends what the header promises to `copy`, of each label the first number, as unsigned bytes.
void convert(const IdxFile& idx, IdxKind kind, const Source& source, File& copy) {
  constexpr std::int64_t max_values = 1 << 15;  // at once
  const std::int64_t bytes = type_bytes(idx.type);
  const std::int64_t values = idx.items * idx.item_bytes() * idx.width;
  std::vector<std::uint8_t> stored;
  std::vector<std::uint8_t> converted;
  for (std::int64_t first = 0; first < values; first += max_values) {
    const std::int64_t count = std::min(max_values, values - first);
    stored.resize(static_cast<std::size_t>(count * bytes));
    const auto got = static_cast<std::int64_t>(source(std::as_writable_bytes(std::span(stored))));
    if (got < count * bytes) throw UserError(wrong_length(idx, kind, first * bytes + got));
    converted.clear();
    for (std::int64_t k = 0; k < count; ++k) {
      if ((first + k) % idx.width != 0) continue;
      const double value = value_of(idx.type, std::span(stored).subspan(static_cast<std::size_t>(k * bytes),
                                                                        static_cast<std::size_t>(bytes)));
      if (!(value >= 0.0 && value <= 255.0 && value == std::floor(value)))
        throw UserError(cat(idx.path, ": the ", kind == IdxKind::images ? "pixel " : "label ", value,
                            " at item ", (first + k) / (idx.item_bytes() * idx.width), " (byte ",
                            idx.header_bytes + (first + k) * bytes,
                            ") is no whole number in 0 … 255; write it as a NumPy array, which data.kind = "
                            "\"numpy\" reads with any numbers"));
      converted.push_back(static_cast<std::uint8_t>(value));
    }
    copy.append(std::as_bytes(std::span(converted)));
  }
}

}  // namespace

std::int64_t IdxFile::stored_item_bytes() const {
  return item_bytes() * width * type_bytes(type);
}

IdxFile idx_header(const std::string& path, IdxKind kind, bool& compressed) {
  try {
    IdxFile idx{.path = path, .bytes = open_data_file(path), .storage = {}};
    std::array<std::uint8_t, 16> header{};
    const auto room = std::as_writable_bytes(std::span(header));
    compressed = GzipReader::recognises(idx.bytes);
    const std::size_t got = compressed ? GzipReader(idx.bytes).read(room) : idx.bytes.read_some(0, room);
    parse_header(idx, kind, std::span(header).first(got));
    return idx;
  } catch (const UserError&) {
    refuse_other_kinds(path, FileFormat::idx, wanted_file(kind));
    throw;
  }
}

IdxFile open_idx(const std::string& path, IdxKind kind, const std::string& inflated) {
  bool compressed = false;
  IdxFile idx = idx_header(path, kind, compressed);
  const std::int64_t wanted = idx.items * idx.stored_item_bytes();
  const bool converts = idx.type != 8 || idx.width > 1;
  if (!compressed && idx.bytes.size() - idx.header_bytes != wanted)
    throw UserError(wrong_length(idx, kind, idx.bytes.size() - idx.header_bytes));
  if (!compressed && !converts) return idx;

  std::optional<GzipReader> reader;
  if (compressed) {
    reader.emplace(idx.bytes);
    std::array<std::byte, 16> header{};
    reader->read(std::span(header).first(static_cast<std::size_t>(idx.header_bytes)));
  }
  std::int64_t at = idx.header_bytes;  // in the plain bytes
  const Source source = [&](std::span<std::byte> to) {
    const std::size_t got = reader ? reader->read(to) : idx.bytes.read_some(at, to);
    at += static_cast<std::int64_t>(got);
    return got;
  };
  const std::string folder = temporary_folder();
  const std::string purpose = cat("the ", converts ? "converted" : "inflated", " copy of ", path);
  std::optional<File> copy = File::of_handle(inflated, purpose);
  if (!copy) {
    copy = File::temporary(folder, purpose);
    if (!reader || reader->can_hold(wanted)) copy->reserve(idx.items * idx.item_bytes());
    if (converts)
      convert(idx, kind, source, *copy);
    else
      inflate_into(*reader, *copy, wanted);
    if (copy->size() < idx.items * idx.item_bytes()) throw UserError(wrong_length(idx, kind, copy->size()));
    // Asking for one byte more also makes zlib compare the checksum.
    std::array<std::byte, 1> more{};
    if (reader && reader->read(more) > 0) throw UserError(wrong_length(idx, kind, wanted + 1));
    if (reader) warn_of_trailing_bytes(path, reader->trailing_bytes());
  }
  reader.reset();  // reads the file that the copy replaces
  idx.bytes = std::move(*copy);
  idx.begin = 0;
  idx.storage = fmt::format("{:.1f} MB {} in {}", static_cast<double>(idx.bytes.size()) * 1e-6,
                            converts ? "converted" : "inflated", folder);
  return idx;
}

namespace {

constexpr std::size_t chunk_bytes = 4096;  // on the stack: an MNIST digit is one chunk of 784

class IdxDataset final : public Dataset {
 public:
  IdxDataset(IdxFile images, std::int64_t classes, const PixelScale& scale)
      : images_(std::move(images)),
        labels_(static_cast<std::size_t>(images_.items)),
        classes_(classes),
        scaler_(scale) {
    set_facts({.size = images_.items,
               .shape = {1, images_.rows, images_.columns},
               .description = cat(images_.items, " images ", images_.rows, "x", images_.columns, " of ",
                                  std::filesystem::path(images_.path).filename().string(),
                                  images_.storage.empty() ? "" : cat(" (", images_.storage, ")")),
               .number_type = "uint8",
               .scaling = ByteScaling{.factor = {scaler_.factor()}, .offset = {scaler_.offset()}}});
  }

  void read_labels(const IdxFile& labels) {
    if (images_.items != labels.items) {
      throw UserError(cat(images_.path, ": holds ", images_.items, " images, but ", labels.path, " holds ",
                          labels.items, " labels; give two files that belong together"));
    }
    labels.bytes.read(labels.begin, std::as_writable_bytes(std::span(labels_)));
    for (std::int64_t i = 0; i < size(); ++i) check_label(labels, i);
    DatasetFacts known = facts();
    known.classes = labels_.empty() ? 0 : *std::ranges::max_element(labels_) + 1;
    set_facts(std::move(known));
  }

  std::int32_t read(std::int64_t i, std::uint64_t /*variation*/, std::span<float> to) const override {
    check(i, to.size());
    std::array<std::uint8_t, chunk_bytes> pixels;  // not zeroed: written before it is read
    std::int64_t byte = images_.begin + i * images_.item_bytes();
    while (!to.empty()) {
      const std::size_t count = std::min(to.size(), chunk_bytes);
      images_.bytes.read(byte, std::as_writable_bytes(std::span(pixels).first(count)));
      scaler_.convert(std::span(pixels).first(count), to.data());
      to = to.subspan(count);
      byte += static_cast<std::int64_t>(count);
    }
    return labels_[static_cast<std::size_t>(i)];
  }

  std::int32_t read_bytes(std::int64_t i, std::uint64_t /*variation*/,
                          std::span<std::uint8_t> to) const override {
    check(i, to.size());
    images_.bytes.read(images_.begin + i * images_.item_bytes(), std::as_writable_bytes(to));
    return labels_[static_cast<std::size_t>(i)];
  }

  void identify(std::span<const std::int64_t> samples, Checksum& sum) const override {
    const std::array<std::int64_t, 2> sizes{images_.rows, images_.columns};
    sum.add(std::as_bytes(std::span(sizes)));
    sum.add(std::as_bytes(std::span(labels_)));
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(sample_shape().size()));
    for (const std::int64_t i : samples) {
      read_bytes(i, 0, pixels);
      sum.add(std::as_bytes(std::span(pixels)));
    }
  }

 private:
  void check(std::int64_t i, std::size_t room) const {
    require(0 <= i && i < size() && static_cast<std::int64_t>(room) == sample_shape().size(), "sample ", i,
            " of ", size(), " cannot be read into ", room, " values");
  }

  void check_label(const IdxFile& labels, std::int64_t i) const {
    const std::uint8_t label = labels_[static_cast<std::size_t>(i)];
    if (label < classes_) return;
    throw UserError(cat(labels.path, ": label ", int{label}, " at item ", i, " (byte ",
                        labels.header_bytes + i * labels.stored_item_bytes(),
                        ") is not below model.classes = ", classes_,
                        "; raise model.classes or correct the file"));
  }

  IdxFile images_;
  /// One byte each: a read of its own would cost as much as the image, and a mapped file that is truncated
  /// meanwhile would end the run with SIGBUS.
  std::vector<std::uint8_t> labels_;
  std::int64_t classes_;
  PixelScaler scaler_;
};

}  // namespace

std::unique_ptr<Dataset> open_idx_dataset(const std::string& images, const std::string& labels,
                                          std::int64_t classes, const PixelScale& scale,
                                          const std::map<std::string, std::string>& inflated) {
  const auto open = [&](const std::string& path, IdxKind kind) {
    const auto copy = inflated.find(path);
    return open_idx(path, kind, copy == inflated.end() ? std::string() : copy->second);
  };
  auto data = std::make_unique<IdxDataset>(open(images, IdxKind::images), classes, scale);
  if (!labels.empty()) data->read_labels(open(labels, IdxKind::labels));
  return data;
}

namespace {

std::unique_ptr<Dataset> open_idx_images(const DataRequest& request) {
  const auto& [data, source, classes, seed, use] = request;
  auto digits = open_idx_dataset(source.images, source.labels, classes, {.mean = data.mean, .std = data.std},
                                 use.inflated);
  const ByteScaling scaling = digits->scaling().value();
  return with_augmentation(std::move(digits), request, scaling);
}

std::map<std::string, File> inflated_idx(const DataRequest& request) {
  std::map<std::string, File> copies;
  const auto add = [&](const std::string& path, IdxKind content) {
    IdxFile idx = open_idx(path, content);
    if (!idx.storage.empty()) copies.emplace(path, std::move(idx.bytes));
  };
  add(request.source.images, IdxKind::images);
  if (!request.source.labels.empty()) add(request.source.labels, IdxKind::labels);
  return copies;
}

}  // namespace

const DataReader idx_reader = {.kind = DataKind::idx,
                               .open = open_idx_images,
                               .list_files =
                                   [](const DataRequest& request, SourceFiles& found) {
                                     found.files.insert({request.source.images, request.source.labels});
                                   },
                               .inflate = inflated_idx,
                               .form =
                                   [](const DataRequest& request) {
                                     bool compressed = false;
                                     const IdxFile idx =
                                         idx_header(request.source.images, IdxKind::images, compressed);
                                     return SampleForm{.shape = {1, idx.rows, idx.columns}, .bytes = true};
                                   },
                               .scaling =
                                   [](const DataConfig& data, bool /*bytes*/) {
                                     return GivenScaling{{data.mean}, {data.std}};
                                   }};

}  // namespace flotilla
