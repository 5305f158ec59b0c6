// SPDX-License-Identifier: Apache-2.0
#include "tests/data/arrays/array_files.hpp"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "src/files/hdf5_handles.hpp"

namespace flotilla::test {

namespace {

template <class T>
T number_of(double value) {
  if constexpr (std::is_same_v<T, Float16>) {
    // Exact for small multiples of 1/4: 2^e (1 + m / 1024).
    if (value == 0.0) return Float16{0};
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);  // 0.5 … 1
    return Float16{
        static_cast<std::uint16_t>((exponent + 14) << 10 | static_cast<int>((fraction * 2 - 1) * 1024))};
  } else {
    return static_cast<T>(value);
  }
}

std::int64_t product(const std::vector<std::int64_t>& extents) {
  std::int64_t size = 1;
  for (const std::int64_t extent : extents) size *= extent;
  return size;
}

hid_t checked(hid_t id) {
  if (id < 0) throw std::runtime_error("HDF5 failed");
  return id;
}

hid_t hdf5_type(NumberType type) {
  using Kind = NumberType::Kind;
  const bool big = type.big_endian;
  switch (type.kind) {
    case Kind::u8: return H5Tcopy(H5T_STD_U8LE);
    case Kind::i8: return H5Tcopy(H5T_STD_I8LE);
    case Kind::u16: return H5Tcopy(big ? H5T_STD_U16BE : H5T_STD_U16LE);
    case Kind::i16: return H5Tcopy(big ? H5T_STD_I16BE : H5T_STD_I16LE);
    case Kind::u32: return H5Tcopy(big ? H5T_STD_U32BE : H5T_STD_U32LE);
    case Kind::i32: return H5Tcopy(big ? H5T_STD_I32BE : H5T_STD_I32LE);
    case Kind::u64: return H5Tcopy(big ? H5T_STD_U64BE : H5T_STD_U64LE);
    case Kind::i64: return H5Tcopy(big ? H5T_STD_I64BE : H5T_STD_I64LE);
    case Kind::f32: return H5Tcopy(big ? H5T_IEEE_F32BE : H5T_IEEE_F32LE);
    case Kind::f64: return H5Tcopy(big ? H5T_IEEE_F64BE : H5T_IEEE_F64LE);
    case Kind::f16: break;
  }
  const hid_t half = H5Tcopy(big ? H5T_IEEE_F32BE : H5T_IEEE_F32LE);
  H5Tset_fields(half, 15, 10, 5, 0, 10);
  H5Tset_size(half, 2);
  H5Tset_ebias(half, 15);
  return half;
}

std::vector<hsize_t> sizes(const std::vector<std::int64_t>& extents) {
  return {extents.begin(), extents.end()};
}

void write_array(hid_t file, const StoredArray& array, const Hdf5Layout& layout) {
  const hid_t type = checked(hdf5_type(array.type));
  std::vector<hsize_t> extents = sizes(array.extents);
  const int rank = static_cast<int>(extents.size());
  const hid_t space = checked(H5Screate_simple(rank, extents.data(), nullptr));
  const hid_t creation = checked(H5Pcreate(H5P_DATASET_CREATE));
  if (!layout.chunk.empty()) {
    std::vector<hsize_t> chunk = sizes(layout.chunk);
    chunk.resize(extents.size(), 1);
    for (std::size_t axis = 0; axis < chunk.size(); ++axis)
      chunk[axis] = std::min(chunk[axis], extents[axis]);
    checked(H5Pset_chunk(creation, rank, chunk.data()));
  }
  if (layout.compact) checked(H5Pset_layout(creation, H5D_COMPACT));
  if (layout.shuffle) checked(H5Pset_shuffle(creation));
  if (layout.deflate > 0) checked(H5Pset_deflate(creation, static_cast<unsigned>(layout.deflate)));
  if (layout.fletcher32) checked(H5Pset_fletcher32(creation));
  const Bytes fill = numbers(array.type, {layout.fill_value});
  if (layout.no_fill_value || layout.fill_value != 0.0)
    checked(H5Pset_fill_value(creation, type, layout.no_fill_value ? nullptr : fill.data()));
  const hid_t links = checked(H5Pcreate(H5P_LINK_CREATE));
  checked(H5Pset_create_intermediate_group(links, 1));
  const hid_t dataset =
      checked(H5Dcreate2(file, array.name.c_str(), type, space, links, creation, H5P_DEFAULT));
  if (layout.written_rows >= 0) extents[0] = static_cast<hsize_t>(layout.written_rows);
  const std::vector<hsize_t> zeros(extents.size(), 0);
  if (layout.written_rows != 0) {
    checked(H5Sselect_hyperslab(space, H5S_SELECT_SET, zeros.data(), nullptr, extents.data(), nullptr));
    const hid_t memory = checked(H5Screate_simple(rank, extents.data(), nullptr));
    checked(H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, array.bytes.data()));
    H5Sclose(memory);
  }
  H5Dclose(dataset);
  H5Pclose(links);
  H5Pclose(creation);
  H5Sclose(space);
  H5Tclose(type);
}

void append(Bytes& to, std::uint64_t number, int bytes) {
  for (int k = 0; k < bytes; ++k) to.push_back(k < 8 ? static_cast<std::uint8_t>(number >> (8 * k)) : 0);
}

void append(Bytes& to, const Bytes& more) {
  to.insert(to.end(), more.begin(), more.end());
}

Bytes text(const std::string& letters) {
  return {letters.begin(), letters.end()};
}

/// The fields that a local header and an entry of the directory share: version … lengths.
Bytes shared_fields(const Bytes& name, const Bytes& plain, const Bytes& stored, const ZipForm& form,
                    std::size_t extra) {
  Bytes fields;
  append(fields, 45, 2);
  append(fields, 0, 2);
  append(fields, form.deflated ? 8 : 0, 2);
  append(fields, 0, 4);
  append(fields, crc32(crc32(0, nullptr, 0), plain.data(), static_cast<uInt>(plain.size())), 4);
  append(fields, form.zip64 ? 0xFFFFFFFFU : stored.size(), 4);
  append(fields, form.zip64 ? 0xFFFFFFFFU : plain.size(), 4);
  append(fields, name.size(), 2);
  append(fields, extra, 2);
  return fields;
}

Bytes extra64(const std::vector<std::uint64_t>& values) {
  Bytes extra;
  append(extra, 1, 2);
  append(extra, 8 * values.size(), 2);
  for (const std::uint64_t value : values) append(extra, value, 8);
  return extra;
}

}  // namespace

double counted_value(NumberType type, std::int64_t k, int start) {
  return static_cast<double>((7 * k + start) % 120) + (type.is_integer() ? 0.0 : 0.25);
}

Bytes numbers(NumberType type, const std::vector<double>& values) {
  Bytes bytes;
  with_number(type.kind, [&]<class T>(T) {
    for (const double value : values) {
      const T number = number_of<T>(value);
      Bytes one(sizeof(T));
      std::memcpy(one.data(), &number, sizeof(T));
      if (type.big_endian) std::ranges::reverse(one);
      append(bytes, one);
    }
  });
  return bytes;
}

StoredArray of_values(const std::string& name, NumberType type, const std::vector<std::int64_t>& extents,
                      const std::vector<double>& values) {
  return {name, type, extents, numbers(type, values)};
}

StoredArray counted(const std::string& name, NumberType type, const std::vector<std::int64_t>& extents,
                    int start) {
  std::vector<double> values;
  for (std::int64_t k = 0; k < product(extents); ++k) values.push_back(counted_value(type, k, start));
  return of_values(name, type, extents, values);
}

void save_hdf5(const std::string& path, const std::vector<StoredArray>& arrays, const Hdf5Layout& layout,
               std::int64_t user_block) {
  const hdf5::Session session;
  const hid_t creation = checked(H5Pcreate(H5P_FILE_CREATE));
  if (user_block > 0) checked(H5Pset_userblock(creation, static_cast<hsize_t>(user_block)));
  const hid_t file = checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, H5P_DEFAULT));
  for (const StoredArray& array : arrays) write_array(file, array, layout);
  H5Fclose(file);
  H5Pclose(creation);
}

Bytes npy(const StoredArray& array, int version, bool fortran) {
  static const std::vector<std::string> codes = {"u1", "i1", "u2", "i2", "u4", "i4",
                                                 "u8", "i8", "f2", "f4", "f8"};
  std::string header = "{'descr': '";
  header += array.type.bytes() == 1 ? "|" : array.type.big_endian ? ">" : "<";
  header += codes[static_cast<std::size_t>(array.type.kind)] + "', 'fortran_order': ";
  header += fortran ? "True" : "False";
  header += ", 'shape': (";
  for (const std::int64_t extent : array.extents) header += std::to_string(extent) + ", ";
  header += "), }\n";
  Bytes bytes = text("\x93NUMPY");
  bytes.push_back(static_cast<std::uint8_t>(version));
  bytes.push_back(0);
  append(bytes, header.size(), version == 1 ? 2 : 4);
  append(bytes, text(header));
  append(bytes, array.bytes);
  return bytes;
}

Bytes npz(const std::vector<StoredArray>& arrays, const ZipForm& form) {
  Bytes archive;
  Bytes directory;
  for (const StoredArray& array : arrays) {
    const Bytes plain = npy(array);
    const Bytes stored = form.deflated ? deflated(plain, 6, -MAX_WBITS) : plain;
    const Bytes name = text(array.name + ".npy");
    const std::uint64_t begin = archive.size();
    const Bytes local_extra = form.zip64 ? extra64({plain.size(), stored.size()}) : Bytes();
    append(archive, 0x04034b50, 4);
    append(archive, shared_fields(name, plain, stored, form, local_extra.size()));
    append(archive, name);
    append(archive, local_extra);
    append(archive, stored);
    const Bytes extra = form.zip64 ? extra64({plain.size(), stored.size(), begin}) : Bytes();
    append(directory, 0x02014b50, 4);
    append(directory, 45, 2);
    append(directory, shared_fields(name, plain, stored, form, extra.size()));
    append(directory, 0, 2 + 2 + 2 + 4);
    append(directory, form.zip64 ? 0xFFFFFFFFU : begin, 4);
    append(directory, name);
    append(directory, extra);
  }
  const std::uint64_t begin = archive.size();
  append(archive, directory);
  if (form.zip64) {
    const std::uint64_t end64 = archive.size();
    append(archive, 0x06064b50, 4);
    append(archive, 44, 8);
    append(archive, 45 | 45 << 16, 4);
    append(archive, 0, 8);
    append(archive, arrays.size(), 8);
    append(archive, arrays.size(), 8);
    append(archive, directory.size(), 8);
    append(archive, begin, 8);
    append(archive, 0x07064b50, 4);
    append(archive, 0, 4);
    append(archive, end64, 8);
    append(archive, 1, 4);
  }
  append(archive, 0x06054b50, 4);
  append(archive, 0, 4);
  append(archive, arrays.size(), 2);
  append(archive, arrays.size(), 2);
  append(archive, directory.size(), 4);
  append(archive, form.zip64 ? 0xFFFFFFFFU : begin, 4);
  append(archive, 0, 2);
  return archive;
}

}  // namespace flotilla::test
