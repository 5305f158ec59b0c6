// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/state_json.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>

#include "src/files/checksum.hpp"

namespace flotilla {

std::int64_t integer_in(const nlohmann::json& number) {
  return number.get_ref<const nlohmann::json::number_integer_t&>();
}

void to_json(nlohmann::json& json, const CheckpointPart& part) {
  json = {{"name", part.name}, {"bytes", part.bytes}, {"xxh3", hexadecimal(part.checksum)}};
}

void from_json(const nlohmann::json& json, CheckpointPart& part) {
  json.at("name").get_to(part.name);
  part.bytes = integer_in(json.at("bytes"));
  part.checksum = from_hexadecimal(json.at("xxh3").get<std::string>()).value_or(0);
}

nlohmann::json json_of(const std::map<std::string, double>& numbers) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, number] : numbers) {
    if (std::isfinite(number))
      json[name] = number;
    else
      json[name] = std::isnan(number) ? "nan" : number > 0.0 ? "inf" : "-inf";
  }
  return json;
}

std::map<std::string, double> numbers_of(const nlohmann::json& json) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::map<std::string, double> others = {
      {"nan", std::numeric_limits<double>::quiet_NaN()}, {"inf", infinity}, {"-inf", -infinity}};
  std::map<std::string, double> numbers;
  for (const auto& [name, number] : json.items())
    numbers[name] = number.is_string() ? others.at(number.get<std::string>()) : number.get<double>();
  return numbers;
}

void to_json(nlohmann::json& json, const CheckpointState& state) {
  json = {{"schema", state.schema},
          {"step", state.step},
          {"epoch", state.position.epoch},
          {"offset", state.position.offset},
          {"samples", state.samples},
          {"seed", state.seed},
          {"optimizer_step", state.optimizer_step},
          {"deck", state.deck},
          {"versions", state.versions},
          {"choices", state.choices},
          {"inference_only", state.inference_only},
          {"numbers", json_of(state.numbers)},
          {"parts", state.parts},
          {"training_samples", state.training_samples},
          {"server_parts", state.server_parts}};
}

void from_json(const nlohmann::json& json, CheckpointState& state) {
  state.schema = integer_in(json.at("schema"));
  state.step = integer_in(json.at("step"));
  state.position.epoch = integer_in(json.at("epoch"));
  state.position.offset = integer_in(json.at("offset"));
  state.samples = integer_in(json.at("samples"));
  state.seed = integer_in(json.at("seed"));
  state.optimizer_step = integer_in(json.at("optimizer_step"));
  json.at("deck").get_to(state.deck);
  json.at("versions").get_to(state.versions);
  json.at("choices").get_to(state.choices);
  json.at("inference_only").get_to(state.inference_only);
  state.numbers = numbers_of(json.at("numbers"));
  json.at("parts").get_to(state.parts);
  state.training_samples = integer_in(json.at("training_samples"));
  json.at("server_parts").get_to(state.server_parts);
}

namespace {

constexpr std::size_t max_bytes = 48000;  // an attribute has 64 KiB, and the text is quoted again

}  // namespace

std::string text_of_class_names(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const std::string text =
      nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json(text).dump().size() > max_bytes ? std::string() : text;
}

std::vector<std::string> class_names_of(const CheckpointState& state) {
  const auto kept = state.choices.find("data.class_names");
  if (kept == state.choices.end()) return {};
  return nlohmann::json::parse(kept->second).get<std::vector<std::string>>();
}

}  // namespace flotilla
