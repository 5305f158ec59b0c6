// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/tamper.hpp"

#include <filesystem>

#include "src/files/hdf5_handles.hpp"

namespace flotilla {

using hdf5::check;

namespace {

hdf5::File open_to_change(const std::string& file) {
  return {H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "H5Fopen"};
}

void write_root_attribute(const std::string& file, const std::string& name, hid_t type, hid_t memory_type,
                          const void* value) {
  const hdf5::File handle = open_to_change(file);
  if (H5Aexists(handle.id(), name.c_str()) > 0) check(H5Adelete(handle.id(), name.c_str()), "H5Adelete");
  const hdf5::Space space(H5Screate(H5S_SCALAR), "H5Screate");
  const hdf5::Attribute attribute(
      H5Acreate2(handle.id(), name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT), "H5Acreate2");
  check(H5Awrite(attribute.id(), memory_type, value), "H5Awrite");
}

hdf5::File open_or_make(const std::string& file) {
  return std::filesystem::exists(file)
             ? open_to_change(file)
             : hdf5::File(H5Fcreate(file.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT), "H5Fcreate");
}

hdf5::PropertyList with_groups() {
  hdf5::PropertyList links(H5Pcreate(H5P_LINK_CREATE), "H5Pcreate");
  check(H5Pset_create_intermediate_group(links.id(), 1), "H5Pset_create_intermediate_group");
  return links;
}

hid_t file_type(Stored stored) {
  if (stored == Stored::float64) return H5T_IEEE_F64LE;
  if (stored == Stored::big_endian) return H5T_IEEE_F32BE;
  if (stored == Stored::integers) return H5T_STD_I64LE;
  if (stored == Stored::unsigned64) return H5T_STD_U64LE;
  return H5T_IEEE_F32LE;
}

}  // namespace

void set_attribute(const std::string& file, const std::string& name, std::int64_t value) {
  const hdf5::Session session;
  write_root_attribute(file, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void set_attribute(const std::string& file, const std::string& name, const std::string& text) {
  const hdf5::Session session;
  const hdf5::Type type(H5Tcopy(H5T_C_S1), "H5Tcopy");
  check(H5Tset_size(type.id(), text.size()), "H5Tset_size");
  check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "H5Tset_strpad");
  write_root_attribute(file, name, type.id(), type.id(), text.data());
}

void delete_attribute(const std::string& file, const std::string& object, const std::string& name) {
  const hdf5::Session session;
  const hdf5::File handle = open_to_change(file);
  check(H5Adelete_by_name(handle.id(), object.c_str(), name.c_str(), H5P_DEFAULT), "H5Adelete_by_name");
}

void delete_object(const std::string& file, const std::string& path) {
  const hdf5::Session session;
  const hdf5::File handle = open_to_change(file);
  check(H5Ldelete(handle.id(), path.c_str(), H5P_DEFAULT), "H5Ldelete");
}

void add_dataset(const std::string& file, const std::string& path, const std::vector<std::uint64_t>& extents,
                 const std::vector<float>& values, Stored stored) {
  const hdf5::Session session;
  const hdf5::File handle = open_or_make(file);
  const std::vector<hsize_t> sizes(extents.begin(), extents.end());
  const hdf5::Space space(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
                          "H5Screate_simple");
  const hdf5::PropertyList links = with_groups();
  const hdf5::PropertyList creation(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  const int deflates = stored == Stored::compressed_twice ? 2 : stored == Stored::compressed ? 1 : 0;
  if (deflates > 0)
    check(H5Pset_chunk(creation.id(), static_cast<int>(sizes.size()), sizes.data()), "H5Pset_chunk");
  for (int i = 0; i < deflates; ++i) check(H5Pset_deflate(creation.id(), 6), "H5Pset_deflate");
  if (stored == Stored::compact) check(H5Pset_layout(creation.id(), H5D_COMPACT), "H5Pset_layout");
  const hdf5::Dataset dataset(H5Dcreate2(handle.id(), path.c_str(), file_type(stored), space.id(), links.id(),
                                         creation.id(), H5P_DEFAULT),
                              "H5Dcreate2");
  check(H5Dwrite(dataset.id(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "H5Dwrite");
}

void add_link(const std::string& file, const std::string& path, const std::string& name) {
  const hdf5::Session session;
  const hdf5::File handle = open_to_change(file);
  const hdf5::PropertyList links = with_groups();
  check(H5Lcreate_hard(handle.id(), path.c_str(), handle.id(), name.c_str(), links.id(), H5P_DEFAULT),
        "H5Lcreate_hard");
}

void add_dataset_elsewhere(const std::string& file, const std::string& path, Elsewhere how,
                           const std::string& other, std::uint64_t extent) {
  const hdf5::Session session;
  const hdf5::File handle = open_or_make(file);
  const hdf5::PropertyList links = with_groups();
  const auto link = [&](const std::string& from, const std::string& to) {
    check(H5Lcreate_external(other.c_str(), to.c_str(), handle.id(), from.c_str(), links.id(), H5P_DEFAULT),
          "H5Lcreate_external");
  };
  if (how == Elsewhere::external_link) return link(path, path);
  if (how == Elsewhere::group_link)
    return link(path.substr(0, path.find('/')), path.substr(0, path.find('/')));
  if (how == Elsewhere::link_to_external_link) {
    link("hidden", path);
    check(H5Lcreate_soft("/hidden", handle.id(), path.c_str(), links.id(), H5P_DEFAULT), "H5Lcreate_soft");
    return;
  }
  const hsize_t size = extent;
  const hdf5::Space space(H5Screate_simple(1, &size, nullptr), "H5Screate_simple");
  const hdf5::PropertyList creation(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  if (how == Elsewhere::external_storage) {
    check(H5Pset_external(creation.id(), other.c_str(), 0, size * sizeof(float)), "H5Pset_external");
  } else {
    check(H5Pset_virtual(creation.id(), space.id(), other.c_str(), path.c_str(), space.id()),
          "H5Pset_virtual");
  }
  const hdf5::Dataset dataset(H5Dcreate2(handle.id(), path.c_str(), H5T_IEEE_F32LE, space.id(), links.id(),
                                         creation.id(), H5P_DEFAULT),
                              "H5Dcreate2");
}

void add_unwritten_dataset(const std::string& file, const std::string& path, std::uint64_t extent) {
  const hdf5::Session session;
  const hdf5::File handle = open_or_make(file);
  const hsize_t size = extent;
  const hsize_t chunk = 1024;
  const hdf5::Space space(H5Screate_simple(1, &size, nullptr), "H5Screate_simple");
  const hdf5::PropertyList links = with_groups();
  const hdf5::PropertyList creation(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  check(H5Pset_chunk(creation.id(), 1, &chunk), "H5Pset_chunk");
  check(H5Pset_deflate(creation.id(), 6), "H5Pset_deflate");
  const hdf5::Dataset dataset(H5Dcreate2(handle.id(), path.c_str(), H5T_IEEE_F32LE, space.id(), links.id(),
                                         creation.id(), H5P_DEFAULT),
                              "H5Dcreate2");
}

}  // namespace flotilla
