// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/files/hdf5_handles.hpp"

namespace flotilla::test {

/// Good HDF5 files that are refused. Each holds the rows 0 … rows − 1 of `values` as array "images" (rows,
/// columns) of uint8.
struct Bytes2d {
  hsize_t rows = 0;
  hsize_t columns = 0;
  std::vector<std::uint8_t> values{};
};

/// Writes `images` as `set` asks for. @param newest in the newest format that the library has
inline void save_as(const std::string& path, const Bytes2d& images,
                    const std::function<void(hid_t creation)>& set, bool newest = false) {
  const hdf5::Session session;
  const hdf5::PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
  if (newest)
    hdf5::check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST),
                "H5Pset_libver_bounds");
  const hdf5::File file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id()), "H5Fcreate");
  const hdf5::PropertyList creation(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  set(creation.id());
  const std::vector<hsize_t> extents{images.rows, images.columns};
  const hdf5::Space space(H5Screate_simple(2, extents.data(), nullptr), "H5Screate_simple");
  const hdf5::Dataset dataset(
      H5Dcreate2(file.id(), "images", H5T_STD_U8LE, space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
      "H5Dcreate2");
  hdf5::check(H5Dwrite(dataset.id(), H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, images.values.data()),
              "H5Dwrite");
}

/// One chunk that went through h5py's filter lzf, in which nothing is a repetition.
inline void save_lzf(const std::string& path, const Bytes2d& images) {
  const hdf5::Session session;
  const hdf5::File file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "H5Fcreate");
  const hdf5::PropertyList creation(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  const std::vector<hsize_t> extents{images.rows, images.columns};
  hdf5::check(H5Pset_chunk(creation.id(), 2, extents.data()), "H5Pset_chunk");
  const std::vector<unsigned> values{4, 261, static_cast<unsigned>(images.values.size())};
  hdf5::check(H5Pset_filter(creation.id(), 32000, H5Z_FLAG_OPTIONAL, values.size(), values.data()),
              "H5Pset_filter");
  const hdf5::Space space(H5Screate_simple(2, extents.data(), nullptr), "H5Screate_simple");
  const hdf5::Dataset dataset(
      H5Dcreate2(file.id(), "images", H5T_STD_U8LE, space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
      "H5Dcreate2");
  constexpr std::size_t longest = 32;
  std::vector<std::uint8_t> stored;
  for (std::size_t at = 0; at < images.values.size(); at += longest) {
    const std::size_t count = std::min(longest, images.values.size() - at);
    stored.push_back(static_cast<std::uint8_t>(count - 1));
    const auto begin = images.values.begin() + static_cast<std::ptrdiff_t>(at);
    stored.insert(stored.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  const std::vector<hsize_t> first{0, 0};
  hdf5::check(H5Dwrite_chunk(dataset.id(), H5P_DEFAULT, 0, first.data(), stored.size(), stored.data()),
              "H5Dwrite_chunk");
}

}  // namespace flotilla::test
