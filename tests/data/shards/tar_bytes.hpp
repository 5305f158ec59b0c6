// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flotilla::test {

/// The form of a member of a tar file.
struct TarForm {
  char type = '0';
  std::string size{};    ///< The bytes of the field; empty: octal digits
  std::string prefix{};  ///< ustar's
  bool gnu = false;      ///< The magic of GNU tar instead of ustar's
  bool damaged = false;  ///< A checksum that does not fit
};

/// A header and the contents, filled up with zeros to whole blocks.
std::string tar_member(const std::string& name, const std::string& contents, const TarForm& form = {});
/// A pax header of one record for the member after it.
std::string pax_header(const std::string& key, const std::string& value);
/// GNU's header of a long name for the member after it.
std::string gnu_long_name(const std::string& name);
/// GNU's size of base 256, as the field of a header.
std::string gnu_size(std::uint64_t bytes);
std::string tar_end();  ///< Two blocks of zeros

}  // namespace flotilla::test
