// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

/// A checkpoint's state as a JSON object, for `flotilla inspect` and for messages between ranks;
/// nlohmann-json finds both functions by their names.
void to_json(nlohmann::json& json, const CheckpointPart& part);
void from_json(const nlohmann::json& json, CheckpointPart& part);
void to_json(nlohmann::json& json, const CheckpointState& state);
void from_json(const nlohmann::json& json, CheckpointState& state);

/// The value of a JSON integer. @throws nlohmann::json::exception for everything else: get() would cast a
/// number with a point, which is undefined beyond 64 bits
std::int64_t integer_in(const nlohmann::json& number);

/// Numbers as JSON; infinities and NaN, which JSON lacks, are the texts "inf", "-inf" and "nan".
nlohmann::json json_of(const std::map<std::string, double>& numbers);
std::map<std::string, double> numbers_of(const nlohmann::json& json);

/// The value of "data.class_names" in CheckpointState::choices: the names as a JSON array; empty for none,
/// and for more than an attribute of HDF5 can hold together with the other choices.
std::string text_of_class_names(const std::vector<std::string>& names);

/// The names of the classes of a checkpoint; empty: it holds none.
std::vector<std::string> class_names_of(const CheckpointState& state);

}  // namespace flotilla
