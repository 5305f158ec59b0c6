// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/data/arrays/numbers.hpp"
#include "tests/data/idx_files.hpp"

namespace flotilla::test {

/// An array in memory, in the byte order of its type.
struct StoredArray {
  std::string name;
  NumberType type{};
  std::vector<std::int64_t> extents;
  Bytes bytes;
};

/// The layout of an array in an HDF5 file.
struct Hdf5Layout {
  std::vector<std::int64_t> chunk{};  ///< Empty: contiguous
  bool shuffle = false;
  int deflate = 0;  ///< Level; 0: none
  bool fletcher32 = false;
  bool compact = false;
  std::int64_t written_rows = -1;  ///< Rows of a chunked array that are written; −1: all
  bool no_fill_value = false;      ///< Values that were not written are undefined
  double fill_value = 0.0;         ///< Value of what was not written
};

/// Numbers (7 k + start) mod 120, which all types hold; floats have a quarter more.
StoredArray counted(const std::string& name, NumberType type, const std::vector<std::int64_t>& extents,
                    int start = 0);
/// Number k of counted().
double counted_value(NumberType type, std::int64_t k, int start = 0);
/// Numbers of a type, in its byte order.
Bytes numbers(NumberType type, const std::vector<double>& values);
StoredArray of_values(const std::string& name, NumberType type, const std::vector<std::int64_t>& extents,
                      const std::vector<double>& values);

/// Writes arrays, whose names may have groups in them, into a new HDF5 file. @param user_block bytes in front
void save_hdf5(const std::string& path, const std::vector<StoredArray>& arrays, const Hdf5Layout& layout = {},
               std::int64_t user_block = 0);
/// An array as a .npy file.
Bytes npy(const StoredArray& array, int version = 1, bool fortran = false);
struct ZipForm {
  bool deflated = false;
  bool zip64 = false;  ///< Sizes and positions are in extra fields, like those above 4 GiB
};
/// A ZIP archive of NAME.npy files.
Bytes npz(const std::vector<StoredArray>& arrays, const ZipForm& form = {});

}  // namespace flotilla::test
