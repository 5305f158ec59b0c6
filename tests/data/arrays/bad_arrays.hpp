// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/dataset.hpp"
#include "src/data/mistake_list.hpp"
#include "tests/data/arrays/array_files.hpp"
#include "tests/data/read_samples.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla::test {

inline constexpr NumberType u8{};
inline constexpr NumberType f32{NumberType::Kind::f32};
inline constexpr NumberType f64{NumberType::Kind::f64};

/// A folder for files of arrays, and the sentence that a bad one gets.
class BadArrays : public testing::Test {
 protected:
  std::unique_ptr<Dataset> open(const std::string& name, std::int64_t targets = 0) const {
    return open_dataset(data, source_at(folder.path(name)), 3, 1,
                        {.training = true, .targets = targets, .binary = binary});
  }
  /// The message of opening and checking the targets, without the folder's name.
  std::string mistake(const std::string& name, std::int64_t targets = 0) const {
    return without_folder(error_of([&] {
      const auto opened = open(name, targets);
      MistakeList mistakes;
      opened->check_targets(0, opened->size(), mistakes);
      mistakes.throw_if_any("targets");
    }));
  }
  std::string without_folder(std::string text) const {
    const std::string begin = folder.path("");
    for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin))
      text.erase(at, begin.size());
    return text;
  }
  void save(const std::string& name, const std::vector<StoredArray>& arrays,
            const Hdf5Layout& layout = {}) const {
    save_hdf5(folder.path(name), arrays, layout);
  }
  void cut(const std::string& name, std::uintmax_t bytes) const {
    std::filesystem::resize_file(folder.path(name), std::filesystem::file_size(folder.path(name)) - bytes);
  }

  /// Writes `to` at the first occurrence of `from`, which must exist, or `behind` bytes after it.
  void replace(const std::string& name, const Bytes& from, const Bytes& to, std::ptrdiff_t behind = 0) const {
    std::ifstream in(folder.path(name), std::ios::binary);
    Bytes bytes{std::istreambuf_iterator<char>(in), {}};
    const auto found = std::ranges::search(bytes, from);
    ASSERT_FALSE(found.empty()) << name;
    std::ranges::copy(to, found.begin() + behind);
    test::save(folder.path(name), bytes);
  }

  TemporaryFolder folder;
  bool binary = false;
  StoredArray images = counted("images", f32, {4, 2});
  StoredArray labels = of_values("labels", u8, {4}, {0, 1, 2, 0});
  DataConfig data = [] {
    DataConfig config;
    config.kind = DataKind::hdf5;
    return config;
  }();
};

}  // namespace flotilla::test
