// SPDX-License-Identifier: Apache-2.0
#include "src/files/checksum.hpp"

#include <xxhash.h>

#include <array>
#include <charconv>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

void check(XXH_errorcode code, const char* call) {
  if (code != XXH_OK) throw LibraryError(call, "out of memory");
}

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

}  // namespace

struct Checksum::State {
  std::unique_ptr<XXH3_state_t, FreeState> handle{XXH3_createState()};
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  if (!state_->handle) throw LibraryError("XXH3_createState", "out of memory");
  check(XXH3_64bits_reset(state_->handle.get()), "XXH3_64bits_reset");
}

Checksum::Checksum(Checksum&& other) noexcept = default;

Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  check(XXH3_64bits_update(state_->handle.get(), bytes.data(), bytes.size()), "XXH3_64bits_update");
}

std::uint64_t Checksum::value() const {
  return XXH3_64bits_digest(state_->handle.get());
}

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hexadecimal(std::uint64_t checksum) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), checksum, 16).ptr;
  const auto count = static_cast<std::size_t>(end - digits.data());
  return std::string(digits.size() - count, '0') + std::string(digits.data(), count);
}

std::optional<std::uint64_t> from_hexadecimal(const std::string& text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  if (text.size() != 16 || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace flotilla
