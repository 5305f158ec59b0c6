// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/fuzz_targets.hpp"

// For libFuzzer: one executable of all targets, of which FLOTILLA_FUZZ_TARGET names one (scripts/fuzz.sh).

namespace {

flotilla::fuzz::Target chosen;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** /*arguments*/) {
  const char* name = std::getenv("FLOTILLA_FUZZ_TARGET");
  if (name == nullptr) {
    for (const auto& target : flotilla::fuzz::all_targets())
      std::printf("%.*s\n", static_cast<int>(target.name.size()), target.name.data());
    std::exit(0);
  }
  chosen = flotilla::fuzz::target(name);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen.run(std::as_bytes(std::span(data, size)));
  return 0;
}
