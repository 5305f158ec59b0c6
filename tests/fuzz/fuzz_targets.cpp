// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz_targets.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <stdexcept>

namespace flotilla::fuzz {

namespace {

int read_inputs = 0;

}  // namespace

void note_read() {
  ++read_inputs;
}

int reads() {
  return read_inputs;
}

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

InputFile::InputFile(Input input)
    : path_((std::filesystem::temp_directory_path() / "flotilla-fuzz-XXXXXX").string()) {
  const int descriptor = mkstemp(path_.data());
  const bool written = descriptor >= 0 && write(descriptor, input.data(), input.size()) == std::ssize(input);
  if (descriptor >= 0) close(descriptor);
  if (!written) throw std::runtime_error("the input's file cannot be made");
}

InputFile::~InputFile() {
  unlink(path_.c_str());
}

}  // namespace flotilla::fuzz
