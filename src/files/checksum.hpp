// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace flotilla {

/// XXH3 (64 bits) of bytes that arrive piece by piece.
class Checksum {
 public:
  Checksum();
  Checksum(Checksum&& other) noexcept;
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  ~Checksum();
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t checksum_of(std::span<const std::byte> bytes);
std::string hexadecimal(std::uint64_t checksum);                         ///< 16 digits.
std::optional<std::uint64_t> from_hexadecimal(const std::string& text);  ///< Nothing unless 16 digits.

}  // namespace flotilla
