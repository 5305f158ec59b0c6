// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace flotilla {

std::string version_numbers();  ///< "0.1.0 (Open MPI 4.1.4, oneDNN 2.6.3, …)"
std::string version_line();     ///< "flotilla 0.1.0 (Open MPI 4.1.4, oneDNN 2.6.3, …)"
std::string version_text();     ///< `flotilla --version`: one line for each library that was built in

}  // namespace flotilla
