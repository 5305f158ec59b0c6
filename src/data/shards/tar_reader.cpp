// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/tar_reader.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/file_kind.hpp"

namespace flotilla::tar {

namespace {

constexpr std::int64_t window_bytes = 16384;
/// A longer name or list of attributes is a mistake, or an attack.
constexpr std::int64_t most_extension_bytes = 1 << 20;

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
  if (header.bytes > most_extension_bytes)
    fail(at,
         cat("a header of ", header.bytes, " bytes; ", most_extension_bytes, " are the most that is read"));
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
