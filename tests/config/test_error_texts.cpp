// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "src/config/keys.hpp"

// docs/troubleshooting.md: what it says that the program prints is in the program.

namespace flotilla {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// The texts of all sources, string literals as the compiler joins them.
std::string program_texts() {
  std::string all;
  for (const char* folder : {"kernels", "models", "mpi", "src"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(FLOTILLA_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
      const std::string text = read(entry.path());
      for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '"') {  // `" "` over lines: nothing
          std::size_t next = at + 1;
          while (next < text.size() && std::isspace(static_cast<unsigned char>(text[next])) != 0) ++next;
          if (next > at + 1 && next < text.size() && text[next] == '"' && text.find('\n', at) < next) {
            at = next;
            continue;
          }
        }
        all += text[at];
      }
    }
  replace_all(all, "\\\"", "\"");
  return all;
}

/// The messages of docs/troubleshooting.md: the first cells of its tables that hold a message only.
std::vector<std::string> documented_messages() {
  const std::string text = read(fs::path(FLOTILLA_SOURCE_DIR) / "docs" / "troubleshooting.md");
  std::vector<std::string> messages;
  const std::regex row("\\n\\| `([^`]+)` \\|");
  for (std::sregex_iterator found(text.begin(), text.end(), row); found != std::sregex_iterator(); ++found)
    messages.push_back((*found)[1]);
  return messages;
}

/// The parts between "…" that are long enough to be looked for.
std::vector<std::string> parts_of(const std::string& message) {
  constexpr std::size_t least = 6;
  const std::string gap = "…";
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= message.size();) {
    const std::size_t end = std::min(message.find(gap, begin), message.size());
    if (end - begin >= least) parts.push_back(message.substr(begin, end - begin));
    begin = end + gap.size();
  }
  return parts;
}

TEST(ErrorTexts, OfTheDocumentationAreInTheProgram) {
  const std::string program = program_texts();
  const std::vector<std::string> messages = documented_messages();

  EXPECT_GE(messages.size(), 30U);
  for (const std::string& message : messages) {
    const std::vector<std::string> parts = parts_of(message);
    EXPECT_FALSE(parts.empty()) << message;
    for (const std::string& part : parts)
      EXPECT_NE(program.find(part), std::string::npos) << "'" << part << "' of: " << message;
  }
}

TEST(ErrorTexts, OfTheDocumentationNameKeysThatAreThere) {
  const std::string text = read(fs::path(FLOTILLA_SOURCE_DIR) / "docs" / "troubleshooting.md");
  const std::regex key("`((?:run|train|data|model|device|strategy|schedule|optimizer)(?:\\.[a-z_]+)+)");
  int found = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), key); at != std::sregex_iterator(); ++at, ++found) {
    const std::string path = (*at)[1];
    EXPECT_TRUE(config::find_key(path) != nullptr || path == "optimizer.momentun") << path;
  }
  EXPECT_GT(found, 20);
}

}  // namespace
}  // namespace flotilla
