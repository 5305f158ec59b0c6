// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/fuzz_targets.hpp"

namespace flotilla::fuzz {
namespace {

class Corpus : public testing::TestWithParam<Target> {};

INSTANTIATE_TEST_SUITE_P(Targets, Corpus, testing::ValuesIn(all_targets()),
                         [](const auto& each) { return std::string(each.param.name); });

/// Seeds named refused_… have broken a reader once, or have mistakes; all others are good, but for those that
/// fuzz.sh --keep adds, whose names are hashes of 40 digits.
TEST_P(Corpus, IsReadOrRefused) {
  const auto folder = std::filesystem::path(FLOTILLA_SOURCE_DIR) / "tests/fuzz/corpus" / GetParam().name;
  const int reads_at_begin = reads();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    const int reads_before = reads();
    EXPECT_NO_THROW(GetParam().run(std::as_bytes(std::span(content))));
    const std::string name = entry.path().filename();
    const bool good = !name.starts_with("refused_");
    EXPECT_TRUE(name.size() == 40 || (reads() > reads_before) == good);
    // Cut short at some places as well.
    for (std::size_t part = 1; part < 8; ++part)
      EXPECT_NO_THROW(GetParam().run(std::as_bytes(std::span(content)).first(content.size() * part / 8)));
  }
  EXPECT_GT(reads(), reads_at_begin) << "no good seed in " << folder;
}

}  // namespace
}  // namespace flotilla::fuzz
