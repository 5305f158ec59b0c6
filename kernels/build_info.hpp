// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace flotilla {

/// The libraries and options that this executable was built with, for --version and the first lines of a run.
struct BuildInfo {
  std::string onednn;        ///< "2.6.3", of the library that was loaded
  std::string kokkos;        ///< "not built in" or "4.7.1"
  std::string cuda;          ///< "not built in" or the versions
  std::string architecture;  ///< "native (avx2 fma avx512f)": -march, and what the program needs for it
};
BuildInfo build_info();

}  // namespace flotilla
