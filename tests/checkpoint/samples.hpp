// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

/// A small checkpoint with tensors of rank 0 to 4 in all groups; values depend on `step`.
Snapshot sample_snapshot(std::int64_t step);

/// `snapshot` with another tensor at its end.
void add_tensor(Snapshot& snapshot, const std::string& path, const Shape& shape, float value);

std::vector<std::byte> bytes_of(const std::string& path);
void put_bytes(const std::string& path, const std::vector<std::byte>& bytes);
void put_byte(const std::string& path, std::size_t position, std::byte value);

/// Whether everything in two snapshots is equal, values bit for bit.
bool equal(const Snapshot& a, const Snapshot& b);

/// The text of the UserError that `action` throws; empty if it throws none.
std::string user_error(const std::function<void()>& action);

/// Succeeds if `text` holds all of `parts`.
testing::AssertionResult mentions(const std::string& text, const std::vector<std::string>& parts);

}  // namespace flotilla
