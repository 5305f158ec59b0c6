// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/data/arrays/numbers.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// A text among the labels or categories of a file, and the place of its first occurrence: "train.csv:17".
struct Word {
  std::string text;
  std::string place;
};

/// The type and shape of an array on disk. Its first axis counts rows: samples.
struct ArrayForm {
  std::string name;                   ///< For messages: "'train.h5', images"
  std::vector<std::int64_t> extents;  ///< Extents of all axes, at least one; the last one varies fastest
  NumberType type;
  std::string storage;        ///< "contiguous", "chunks of (64,28,28), shuffle, deflate"
  std::string warning{};      ///< About the rows, for the user; empty: none
  std::vector<Word> words{};  ///< Texts of labels, which their values index; empty: no texts

  std::int64_t rows() const { return extents.front(); }
  std::int64_t row_values() const;
  std::int64_t row_bytes() const { return row_values() * type.bytes(); }
  std::string shape_text() const;  ///< "(60000,28,28)"
};

/// An array of numbers on disk, of which rows are read. Safe from several threads at once.
class Array {
 public:
  explicit Array(ArrayForm form) : form_(std::move(form)) {}
  virtual ~Array() = default;
  const ArrayForm& form() const { return form_; }

  /// Writes `count` rows from row `first` on, in the byte order of the form's type. `to` holds
  /// count · row_bytes() bytes. @throws UserError naming the array where the file is damaged or has changed
  virtual void read(std::int64_t first, std::int64_t count, std::span<std::byte> to) const = 0;
  /// Rows that one read of the disk brings at least, from a multiple of that number on.
  virtual std::int64_t rows_at_once() const { return 1; }
  /// Bytes of all rows where whole chunks of them are decoded to read one; 0: rows are read as they lie in
  /// the file.
  virtual std::int64_t decoded_bytes() const { return 0; }
  /// Asks the system to fetch these rows meanwhile.
  virtual void will_read(std::int64_t first, std::int64_t count) const = 0;

 private:
  ArrayForm form_;
};

/// A file of named arrays, or a folder of files of one array each.
class ArrayFile {
 public:
  virtual ~ArrayFile() = default;
  virtual std::vector<std::string> names() const = 0;
  /// Whether an array has this name, as a user may write it.
  virtual bool has(const std::string& name) const;
  /// The array of one of the names. @throws UserError where it cannot be read
  virtual std::unique_ptr<Array> open(const std::string& name) const = 0;
};

/// "(60000,28,28)".
std::string extents_text(std::span<const std::int64_t> extents);

/// @throws UserError naming the array if it is a single number, holds none, or has more bytes than a file can
/// hold
void check_form(const ArrayForm& form);

/// A file of samples that must stay as it is while it is read: now and then its stamp is compared with that
/// at the start. Safe from several threads.
class UnchangedFile {
 public:
  explicit UnchangedFile(File file);
  const std::string& name() const { return file_.name(); }
  std::int64_t size() const { return file_.size(); }
  const File& file() const { return file_; }

  /// @throws UserError if the file ends before `to` is full, or has changed
  void read(std::int64_t begin, std::span<std::byte> to) const;
  /// Asks the system to fetch these bytes meanwhile.
  void will_read(std::int64_t begin, std::int64_t bytes) const;
  /// @throws UserError if the file has changed since it was opened
  void check() const;

 private:
  File file_;
  FileStamp stamp_;
  mutable std::atomic<std::uint32_t> reads_{0};
};

/// The position of an array's rows in a file: row r begins at byte begin + r · stride.
struct PlainPlace {
  std::int64_t begin = 0;
  std::int64_t stride = 0;  ///< bytes; 0: the rows lie one after another
};

/// An array whose rows lie in a file as they are. @throws UserError if the file ends before the last row
std::unique_ptr<Array> make_plain_array(ArrayForm form, std::shared_ptr<const UnchangedFile> file,
                                        const PlainPlace& place);

/// Labels that are texts, one for each row, as numbers of ArrayForm::words.
/// @throws UserError where one is not UTF-8
std::unique_ptr<Array> make_word_array(ArrayForm form, const std::vector<std::string>& texts);

/// Writes the next bytes of a compressed array and returns their number; fewer only at its end.
using ByteReader = std::function<std::size_t(std::span<std::byte>)>;

/// An array whose rows are inflated when they are read, without a copy on the disk: cheap where they are read
/// once from the first to the last, or where only the form is wanted. Rows before the last ones that were
/// read are inflated from the start again. @param open a reader of the array's file from its start
/// @param begin of the first row in the inflated bytes
std::unique_ptr<Array> make_streamed_array(ArrayForm form, std::int64_t begin,
                                           std::function<ByteReader()> open);

}  // namespace flotilla
