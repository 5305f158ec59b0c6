// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/data/arrays/number_type.hpp"

namespace flotilla {

/// What an array on disk is, wherever it lies. Its first axis counts rows: samples.
struct ArrayForm {
  std::string name;                   ///< For messages: "'train.h5', images"
  std::vector<std::int64_t> extents;  ///< Of all axes, at least one; the last one varies fastest
  NumberType type;
  std::string storage;  ///< "contiguous", "chunks of (64,28,28), shuffle, deflate"

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

}  // namespace flotilla
