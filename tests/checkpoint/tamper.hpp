// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flotilla {

/// Changes to an HDF5 file that leave it a valid HDF5 file.
void set_attribute(const std::string& file, const std::string& name,
                   std::int64_t value);  ///< An attribute of the root.
void set_attribute(const std::string& file, const std::string& name, const std::string& text);
void delete_attribute(const std::string& file, const std::string& object, const std::string& name);
void delete_object(const std::string& file, const std::string& path);

enum class Stored {
  float32,
  float64,
  big_endian,
  compressed,
  compressed_twice,
  compact,
  integers,
  unsigned64
};

/// Adds a dataset without checksum, and its groups; makes the file if there is none.
void add_dataset(const std::string& file, const std::string& path, const std::vector<std::uint64_t>& extents,
                 const std::vector<float>& values, Stored stored = Stored::float32);

/// Gives what lies at `path` a second name, with the groups that it needs.
void add_link(const std::string& file, const std::string& path, const std::string& name);

/// The ways in which a file refers to values in another one.
enum class Elsewhere {
  external_link,
  link_to_external_link,
  group_link,  ///< The dataset's group is an external link
  external_storage,
  virtual_dataset
};

/// Adds a float32 dataset of `extent` values that are those of `other`'s dataset of the same path, or with
/// external_storage the first bytes of `other`.
void add_dataset_elsewhere(const std::string& file, const std::string& path, Elsewhere how,
                           const std::string& other, std::uint64_t extent);

/// Adds a compressed dataset of which nothing was written: a small file that claims many values.
void add_unwritten_dataset(const std::string& file, const std::string& path, std::uint64_t extent);

}  // namespace flotilla
