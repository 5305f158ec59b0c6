// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

/// A checkpoint's state as a JSON object, for `flotilla inspect` and for the way between ranks; nlohmann-json
/// finds both by their names.
void to_json(nlohmann::json& json, const CheckpointState& state);
void from_json(const nlohmann::json& json, CheckpointState& state);

}  // namespace flotilla
