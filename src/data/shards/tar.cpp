// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/tar.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"

namespace flotilla::tar {

namespace {

/// A field of a header: its first byte and its length.
struct Field {
  std::size_t begin;
  std::size_t length;
};

constexpr Field name_field{0, 100};
constexpr Field mode_field{100, 8};
constexpr Field owner_field{108, 8};
constexpr Field group_field{116, 8};
constexpr Field size_field{124, 12};
constexpr Field time_field{136, 12};
constexpr Field sum_field{148, 8};
constexpr std::size_t type_at = 156;
constexpr Field magic_field{257, 8};
constexpr Field prefix_field{345, 155};
constexpr std::string_view ustar{"ustar\0", 6};

std::string_view field_of(std::string_view block, Field field) {
  return block.substr(field.begin, field.length);
}

/// The text of a field up to the first zero byte.
std::string_view field_text(std::string_view block, Field field) {
  const std::string_view text = field_of(block, field);
  return text.substr(0, text.find('\0'));
}

std::string_view text_of_block(std::span<const std::byte> block) {
  require(std::ssize(block) == block_bytes, "a block of a tar file has 512 bytes, got ", block.size());
  return {reinterpret_cast<const char*>(block.data()), block.size()};
}

/// The sum of a block's bytes, its own field taken as blanks; some old programs added signed bytes.
template <class Byte>
std::int64_t sum_of(std::string_view block) {
  std::int64_t sum = std::int64_t{' '} * static_cast<std::int64_t>(sum_field.length);
  for (std::size_t i = 0; i < block.size(); ++i)
    if (i < sum_field.begin || i >= sum_field.begin + sum_field.length) sum += static_cast<Byte>(block[i]);
  return sum;
}

/// Octal digits between blanks and zeros, or with the uppermost bit set a number of base 256 (GNU).
std::optional<std::int64_t> number_of(std::string_view field) {
  if ((static_cast<unsigned char>(field.front()) & 0x80U) != 0) {
    std::uint64_t value = static_cast<unsigned char>(field.front()) & 0x7FU;
    for (const char c : field.substr(1)) {
      if (value >> 55 != 0) return {};  // 2⁶³ and above, and negative numbers
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return static_cast<std::int64_t>(value);
  }
  const std::size_t begin = std::min(field.find_first_not_of(' '), field.size());
  const std::size_t end = std::min(field.find_first_of(std::string_view(" \0", 2), begin), field.size());
  if (begin == end) return 0;
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(field.data() + begin, field.data() + end, value, 8);
  if (error != std::errc() || stop != field.data() + end || value < 0) return {};
  return value;
}

void put(std::string& block, Field field, std::string_view text) {
  std::ranges::copy(text, block.begin() + static_cast<std::ptrdiff_t>(field.begin));
}

/// Writes octal digits that fill the field, except for a zero byte at its end.
void put_number(std::string& block, Field field, std::int64_t number) {
  for (std::size_t k = field.length - 1; k-- > 0; number /= 8)
    block[field.begin + k] = static_cast<char>('0' + number % 8);
}

}  // namespace

std::string header(std::string_view name, std::int64_t bytes) {
  require(!name.empty() && name.size() <= name_field.length && 0 <= bytes && bytes < std::int64_t{1} << 33,
          "no tar header for ", name, " of ", bytes, " bytes");
  std::string block(block_bytes, '\0');
  put(block, name_field, name);
  put_number(block, mode_field, 0444);
  put_number(block, owner_field, 0);
  put_number(block, group_field, 0);
  put_number(block, size_field, bytes);
  put_number(block, time_field, 0);
  block[type_at] = '0';
  put(block, magic_field, std::string_view("ustar\00000", 8));
  put_number(block, {sum_field.begin, 7}, sum_of<unsigned char>(block));
  block[sum_field.begin + 7] = ' ';
  return block;
}

bool is_zero(std::span<const std::byte> block) {
  return std::ranges::all_of(block, [](std::byte byte) { return byte == std::byte{0}; });
}

std::optional<Header> parse_header(std::span<const std::byte> bytes) {
  const std::string_view block = text_of_block(bytes);
  const std::optional<std::int64_t> sum = number_of(field_of(block, sum_field));
  if (!sum || (*sum != sum_of<unsigned char>(block) && *sum != sum_of<signed char>(block))) return {};
  Header header{.name = std::string(field_text(block, name_field)),
                .bytes = number_of(field_of(block, size_field)).value_or(-1),
                .type = block[type_at] == '\0' ? '0' : block[type_at]};
  const std::string_view prefix = field_text(block, prefix_field);
  if (field_of(block, magic_field).starts_with(ustar) && !prefix.empty())
    header.name = cat(prefix, '/', header.name);
  return header;
}

std::optional<PaxRecords> parse_pax(std::string_view text) {
  PaxRecords records;
  while (!text.empty() && text.front() != '\0') {
    std::size_t length = 0;  // of the record: digits, blank, keyword=value, line feed
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<std::size_t>(stop - text.data());
    if (error != std::errc() || length > text.size() || length < digits + 3 || *stop != ' ' ||
        text[length - 1] != '\n')
      return {};
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return {};
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") records.path = std::string(value);
    if (key.starts_with("GNU.sparse.")) records.sparse = true;
    if (key == "size") {
      std::int64_t bytes = 0;
      const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), bytes);
      if (failure != std::errc() || end != value.data() + value.size() || bytes < 0) return {};
      records.bytes = bytes;
    }
    text.remove_prefix(length);
  }
  return records;
}

namespace {

constexpr std::int64_t window_bytes = 16384;
/// A longer name or list of attributes is a mistake, or an attack.
constexpr std::int64_t max_extension_bytes = 1 << 20;

/// Whether contents follow a header: links, devices and folders have none, whatever size their headers have.
bool has_contents(char type) {
  return type < '1' || type > '6';
}

}  // namespace

void Reader::fail(std::int64_t at, const std::string& what) const {
  throw UserError(cat(config::printable(file_.name()), ", byte ", at, ": ", what));
}

std::span<const std::byte> Reader::view(std::int64_t begin, std::int64_t bytes) {
  const std::int64_t window_end = window_begin_ + std::ssize(window_);
  if (begin < window_begin_ || begin + bytes > window_end) {
    window_.resize(static_cast<std::size_t>(std::min(std::max(bytes, window_bytes), file_.size() - begin)));
    window_begin_ = begin;
    file_.read(begin, window_);
  }
  return std::span<const std::byte>(window_).subspan(static_cast<std::size_t>(begin - window_begin_),
                                                     static_cast<std::size_t>(bytes));
}

std::string Reader::text_of_extension(const Header& header, std::int64_t at) {
  if (header.bytes > max_extension_bytes)
    fail(at,
         cat("a header of ", header.bytes, " bytes; ", max_extension_bytes, " are the most that is read"));
  const std::span<const std::byte> contents = view(at + block_bytes, header.bytes);
  return {reinterpret_cast<const char*>(contents.data()), contents.size()};
}

bool Reader::find_header() {
  while (file_.size() - next_ >= block_bytes) {
    const std::span<const std::byte> block = view(next_, block_bytes);
    if (!is_zero(block)) return parse_header(block).has_value();
    next_ += block_bytes;
  }
  if (is_zero(view(next_, file_.size() - next_))) next_ = file_.size();
  return false;
}

bool Reader::next(Member& member) {
  PaxRecords pax;
  std::optional<std::string> long_name;
  for (;;) {
    const std::int64_t at = next_;
    if (at == 0 && file_.size() < block_bytes)
      refuse_other_kinds(file_.name(), FileFormat::tar, "a tar file");
    if (file_.size() - at < block_bytes)
      fail(file_.size(),
           "it ends without the blocks of zeros that end a tar file: it was cut short; copy or "
           "write it again");
    if (is_zero(view(at, block_bytes))) {
      if (!find_header()) return false;
      ++archive_;
      continue;
    }
    const std::optional<Header> header = parse_header(view(at, block_bytes));
    if (!header && at == 0) refuse_other_kinds(file_.name(), FileFormat::tar, "a tar file");
    if (!header) fail(at, "there is no header of a tar file, or a damaged one; copy or write it again");
    if (header->bytes < 0)
      fail(at, cat(config::quoted(header->name), " has a size that is no number below 2^63"));
    member.type = pax.sparse ? 'S' : header->type;
    const bool extension = std::string_view("xgLK").find(header->type) != std::string_view::npos;
    member.bytes =
        has_contents(header->type) ? (extension ? header->bytes : pax.bytes.value_or(header->bytes)) : 0;
    member.begin = at + block_bytes;
    if (member.bytes > file_.size() - member.begin)
      fail(file_.size(),
           cat("it ends inside ", config::quoted(header->name), ", whose ", member.bytes,
               " bytes begin at byte ", member.begin, ": it was cut short; copy or write it again"));
    next_ = std::min(member.begin + padded(member.bytes), file_.size());
    if (header->type == 'x') {
      const std::optional<PaxRecords> records = parse_pax(text_of_extension(*header, at));
      if (!records) fail(at, "a pax header that cannot be read; copy or write it again");
      pax = *records;
    } else if (header->type == 'L') {
      long_name = text_of_extension(*header, at);
      long_name->resize(std::min(long_name->find('\0'), long_name->size()));
    } else if (!extension) {
      member.name = pax.path ? *pax.path : long_name.value_or(header->name);
      return true;
    }
  }
}

}  // namespace flotilla::tar
