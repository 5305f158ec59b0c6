// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz_targets.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace flotilla::fuzz {

std::vector<Target> all_targets() {
  std::vector<Target> all;
  for (const auto& some :
       {text_targets(), data_targets(), array_targets(), checkpoint_targets(), message_targets()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

Target target(std::string_view name) {
  for (const Target& each : all_targets())
    if (each.name == name) return each;
  throw std::out_of_range("no fuzz target is called '" + std::string(name) + "'");
}

TwoInputs split(Input input) {
  const auto end = std::ranges::find(input, std::byte{0});
  const auto first = static_cast<std::size_t>(end - input.begin());
  return {input.first(first), input.subspan(std::min(first + 1, input.size()))};
}

InputFile::InputFile(Input input) : descriptor_(memfd_create("input", 0)) {
  if (descriptor_ < 0 || write(descriptor_, input.data(), input.size()) != std::ssize(input))
    throw std::runtime_error("the input's file cannot be made");
  path_ = "/proc/self/fd/" + std::to_string(descriptor_);
}

InputFile::~InputFile() {
  close(descriptor_);
}

}  // namespace flotilla::fuzz
