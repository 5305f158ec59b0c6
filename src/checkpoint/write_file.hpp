// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

/// As write_checkpoint_file. @returns the bytes of the file.
std::int64_t write_snapshot(const std::string& path, const Snapshot& snapshot);

/// The name under which `path` is written before it is complete: "step-00000400.h5.tmp-1234".
std::string temporary_name(const std::string& path);

}  // namespace flotilla
