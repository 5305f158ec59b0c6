// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla::fuzz {

/// The bytes that a target reads; of any length and content.
using Input = std::span<const std::byte>;

/// A reader of foreign bytes. It may refuse an input by the exceptions that its callers expect, and by no
/// other.
struct Target {
  std::string_view name;  ///< Name, also of its folder in corpus/
  void (*run)(Input input);
};

std::vector<Target> text_targets();
std::vector<Target> data_targets();
std::vector<Target> array_targets();
std::vector<Target> checkpoint_targets();
std::vector<Target> message_targets();

/// All of them.
std::vector<Target> all_targets();
/// @throws std::out_of_range if there is none of that name
Target target(std::string_view name);

/// To be called by a target that has accepted an input.
void note_read();
/// The number of calls of note_read().
int reads();

inline std::string text_of(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}
/// The bytes before the first byte 0, and those after it.
struct TwoInputs {
  Input first;
  Input second;
};
TwoInputs split(Input input);

/// A temporary file that holds an input, for readers of files. It has a name: HDF5 opens no others.
class InputFile {
 public:
  explicit InputFile(Input input);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace flotilla::fuzz
