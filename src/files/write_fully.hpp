// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace flotilla {

/// Writes all of `text`, with one system call where the system takes it whole. Returns 0 or the errno. A
/// reader that has gone away is EPIPE, never a signal.
int write_fully(int descriptor, std::string_view text) noexcept;

}  // namespace flotilla
