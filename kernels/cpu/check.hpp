// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include <source_location>

#include "kernels/error.hpp"

namespace flotilla {

/// @throws LibraryError unless oneDNN succeeded.
inline void check(dnnl_status_t status, const char* call,
                  std::source_location at = std::source_location::current()) {
  if (status != dnnl_success) throw LibraryError(call, dnnl_status2str(status), at);
}

}  // namespace flotilla
