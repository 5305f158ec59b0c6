// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/class_names.hpp"

#include <cstddef>
#include <nlohmann/json.hpp>

namespace flotilla {

namespace {

constexpr std::size_t most_bytes = 48000;  // an attribute has 64 KiB, and the text is quoted once more

}  // namespace

std::string text_of_class_names(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const std::string text =
      nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json(text).dump().size() > most_bytes ? std::string() : text;
}

std::vector<std::string> class_names_of(const CheckpointState& state) {
  const auto kept = state.choices.find("data.class_names");
  if (kept == state.choices.end()) return {};
  return nlohmann::json::parse(kept->second).get<std::vector<std::string>>();
}

}  // namespace flotilla
