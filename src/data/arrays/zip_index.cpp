// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/zip_index.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"
#include "src/data/mistake_list.hpp"

namespace flotilla {

namespace {

// Signatures and sizes of the records of PKWARE's APPNOTE.
constexpr std::uint64_t directory_end = 0x06054b50;
constexpr std::uint64_t directory_end64 = 0x06064b50;
constexpr std::uint64_t locator64 = 0x07064b50;
constexpr std::uint64_t directory_entry = 0x02014b50;
constexpr std::uint64_t local_header = 0x04034b50;
constexpr std::int64_t end_bytes = 22;
constexpr std::int64_t locator_bytes = 20;
constexpr std::int64_t end64_bytes = 56;
constexpr std::int64_t entry_bytes = 46;
constexpr std::int64_t local_bytes = 30;
constexpr std::int64_t max_comment = 65535;
constexpr std::int64_t max_directory = std::int64_t{1} << 28;
constexpr std::uint64_t in_extra = 0xFFFFFFFF;  // the number is in the extra field of ZIP64
constexpr std::size_t zip_buffer_bytes = 1 << 18;

/// Bytes of an archive, as little-endian numbers.
class Record {
 public:
  Record(const File& archive, std::int64_t begin, std::int64_t bytes) : archive_(archive) {
    if (begin < 0 || bytes < 0 || begin > archive.size() - bytes) fail();
    bytes_.resize(static_cast<std::size_t>(bytes));
    archive.read(begin, std::as_writable_bytes(std::span(bytes_)));
  }
  std::uint64_t number(std::size_t at, std::size_t size) const {
    if (at + size > bytes_.size()) fail();
    std::uint64_t value = 0;
    for (std::size_t k = size; k-- > 0;) value = value << 8 | bytes_[at + k];
    return value;
  }
  std::int64_t place(std::size_t at, std::size_t size) const {
    return static_cast<std::int64_t>(number(at, size));
  }
  std::string text(std::size_t at, std::size_t size) const {
    if (at + size > bytes_.size()) fail();
    return {bytes_.begin() + static_cast<std::ptrdiff_t>(at),
            bytes_.begin() + static_cast<std::ptrdiff_t>(at + size)};
  }
  std::size_t size() const { return bytes_.size(); }
  [[noreturn]] void fail() const {
    throw UserError(cat("'", archive_.name(),
                        "' is no .npz file, or is truncated or damaged: it has no whole "
                        "directory of its arrays; copy it again, or write it with numpy.savez"));
  }

 private:
  const File& archive_;
  std::vector<std::uint8_t> bytes_;
};

/// The position of the central directory.
struct Directory {
  std::int64_t begin = 0;  ///< Position from the archive's begin, as those of its entries
  std::int64_t bytes = 0;
  std::uint64_t count = 0;
  std::int64_t front = 0;  ///< Bytes of the file before the archive
};

/// The directory ends where the record that describes it begins; the bytes by which its stated position is
/// too small are in front.
Directory behind_front(Directory directory, std::int64_t end, const Record& record) {
  directory.front = end - directory.bytes - directory.begin;
  if (directory.bytes < 0 || directory.begin < 0 || directory.front < 0) record.fail();
  return directory;
}

Directory find_directory(const File& archive) {
  const std::int64_t tail_bytes = std::min(archive.size(), end_bytes + max_comment);
  const Record tail(archive, archive.size() - tail_bytes, tail_bytes);
  if (tail_bytes < end_bytes) tail.fail();
  std::size_t at = static_cast<std::size_t>(tail_bytes - end_bytes);
  while (tail.number(at, 4) != directory_end) {
    if (at == 0) tail.fail();
    --at;
  }
  Directory directory{
      .begin = tail.place(at + 16, 4), .bytes = tail.place(at + 12, 4), .count = tail.number(at + 10, 2)};
  const std::int64_t end = archive.size() - tail_bytes + static_cast<std::int64_t>(at);
  if (end < locator_bytes) return behind_front(directory, end, tail);
  const Record locator(archive, end - locator_bytes, locator_bytes);
  if (locator.number(0, 4) != locator64) return behind_front(directory, end, tail);
  const std::int64_t at64 =
      end - locator_bytes - end64_bytes;  // its position in the archive does not include bytes in front
  const Record end64(archive, at64, end64_bytes);
  if (end64.number(0, 4) != directory_end64) end64.fail();
  return behind_front(
      {.begin = end64.place(48, 8), .bytes = end64.place(40, 8), .count = end64.number(32, 8)}, at64, end64);
}

/// Sizes and place of an entry, of which those that do not fit 32 bits are in its extra field.
struct EntryNumbers {
  std::uint64_t bytes;
  std::uint64_t stored;
  std::uint64_t header;
};

void take_extra(const Record& record, std::size_t at, std::size_t end, EntryNumbers& numbers) {
  for (; at + 4 <= end; at += 4 + record.number(at + 2, 2)) {
    if (record.number(at, 2) != 1) continue;
    std::size_t next = at + 4;
    for (std::uint64_t* number : {&numbers.bytes, &numbers.stored, &numbers.header}) {
      if (*number != in_extra) continue;
      *number = record.number(next, 8);
      next += 8;
    }
    return;
  }
}

}  // namespace

std::vector<ZipMember> zip_members(const File& archive) {
  const Directory directory = find_directory(archive);
  if (directory.bytes > max_directory) Record(archive, 0, 0).fail();
  const Record record(archive, directory.front + directory.begin, directory.bytes);
  std::vector<ZipMember> members;
  std::int64_t stored = 0;  // of all
  std::size_t at = 0;
  for (std::uint64_t k = 0; k < directory.count; ++k) {
    if (record.number(at, 4) != directory_entry) record.fail();
    const std::size_t name = record.number(at + 28, 2);
    const std::size_t extra = record.number(at + 30, 2);
    EntryNumbers numbers{record.number(at + 24, 4), record.number(at + 20, 4), record.number(at + 42, 4)};
    take_extra(record, at + entry_bytes + name, at + entry_bytes + name + extra, numbers);
    ZipMember member{.name = record.text(at + entry_bytes, name),
                     .deflated = record.number(at + 10, 2) == Z_DEFLATED,
                     .stored = static_cast<std::int64_t>(numbers.stored),
                     .bytes = static_cast<std::int64_t>(numbers.bytes),
                     .crc32 = static_cast<std::uint32_t>(record.number(at + 16, 4))};
    if ((record.number(at + 8, 2) & 1U) != 0 || (!member.deflated && record.number(at + 10, 2) != 0))
      throw UserError(
          cat("'", archive.name(), "', ", shown(member.name),
              ": is encrypted or compressed in a way that NumPy has not; write it with numpy.savez"));
    const std::int64_t header = directory.front + static_cast<std::int64_t>(numbers.header);
    const Record local(archive, header, local_bytes);
    if (local.number(0, 4) != local_header) local.fail();
    member.begin = header + local_bytes + local.place(26, 2) + local.place(28, 2);
    if (member.stored < 0 || member.begin > archive.size() - member.stored) record.fail();
    stored += member.stored;
    if (stored > archive.size())
      throw UserError(cat("'", archive.name(), "', ", shown(member.name),
                          ": is damaged: its arrays lie one over the other; copy it again, or write it with "
                          "numpy.savez"));
    members.push_back(std::move(member));
    at += entry_bytes + name + extra + record.number(at + 32, 2);
  }
  return members;
}

void check_stored(const File& archive, const ZipMember& member) {
  std::vector<std::byte> bytes(zip_buffer_bytes);
  uLong sum = crc32(0, nullptr, 0);
  for (std::int64_t taken = 0; taken < member.stored;) {
    const auto count =
        static_cast<std::size_t>(std::min<std::int64_t>(zip_buffer_bytes, member.stored - taken));
    archive.read(member.begin + taken, std::span(bytes).first(count));
    sum = crc32(sum, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(count));
    taken += static_cast<std::int64_t>(count);
  }
  if (sum != member.crc32)
    throw UserError(cat("'", archive.name(), "', ", shown(member.name),
                        ": is damaged: it holds other bytes than were packed; copy the file again"));
}

MemberReader::MemberReader(const File& archive, ZipMember member)
    : archive_(archive), member_(std::move(member)), in_(zip_buffer_bytes), sum_(crc32(0, nullptr, 0)) {
  const int code = inflateInit2(&stream_, -MAX_WBITS);
  if (code != Z_OK) throw LibraryError("inflateInit2", zError(code));
}

MemberReader::~MemberReader() {
  inflateEnd(&stream_);
}

std::size_t MemberReader::read(std::span<std::byte> to) {
  std::size_t done = 0;
  bool good = true;
  while (good && !ended_ && done < to.size()) {
    if (stream_.avail_in == 0) {
      const auto count =
          static_cast<std::size_t>(std::min<std::int64_t>(zip_buffer_bytes, member_.stored - taken_));
      archive_.read(member_.begin + taken_, std::span(in_).first(count));
      taken_ += static_cast<std::int64_t>(count);
      stream_.next_in = reinterpret_cast<Bytef*>(in_.data());
      stream_.avail_in = static_cast<uInt>(count);
    }
    const std::span<std::byte> room = to.subspan(done, std::min(to.size() - done, zip_buffer_bytes));
    stream_.next_out = reinterpret_cast<Bytef*>(room.data());
    stream_.avail_out = static_cast<uInt>(room.size());
    const int state = inflate(&stream_, Z_NO_FLUSH);
    if (state == Z_MEM_ERROR) throw LibraryError("inflate", zError(state));
    const std::size_t got = room.size() - stream_.avail_out;
    sum_ = crc32(sum_, reinterpret_cast<const Bytef*>(room.data()), static_cast<uInt>(got));
    got_ += static_cast<std::int64_t>(got);
    done += got;
    ended_ = state == Z_STREAM_END;
    good = (state == Z_OK || ended_) && got_ <= member_.bytes;
  }
  if (!good || (ended_ && (got_ != member_.bytes || sum_ != member_.crc32)))
    throw UserError(cat("'", archive_.name(), "', ", shown(member_.name),
                        ": is damaged: it inflates to other bytes than were packed; copy the file again"));
  return done;
}

File inflated_member(const File& archive, const ZipMember& member) {
  File copy = File::temporary(temporary_folder(),
                              cat("the inflated copy of '", archive.name(), "', ", shown(member.name)));
  if (member.bytes / 1032 <= member.stored) copy.reserve(member.bytes);  // deflate shrinks by 1032 at most
  MemberReader reader(archive, member);
  std::vector<std::byte> out(zip_buffer_bytes);
  while (const std::size_t got = reader.read(out)) copy.append(std::span(out).first(got));
  return copy;
}

}  // namespace flotilla
