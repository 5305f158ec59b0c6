// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/state_json.hpp"

#include <nlohmann/json.hpp>

namespace flotilla {

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
          {"inference_only", state.inference_only}};
}

void from_json(const nlohmann::json& json, CheckpointState& state) {
  json.at("schema").get_to(state.schema);
  json.at("step").get_to(state.step);
  json.at("epoch").get_to(state.position.epoch);
  json.at("offset").get_to(state.position.offset);
  json.at("samples").get_to(state.samples);
  json.at("seed").get_to(state.seed);
  json.at("optimizer_step").get_to(state.optimizer_step);
  json.at("deck").get_to(state.deck);
  json.at("versions").get_to(state.versions);
  json.at("choices").get_to(state.choices);
  json.at("inference_only").get_to(state.inference_only);
}

}  // namespace flotilla
