// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "src/train/monitor/output_metrics.hpp"

namespace flotilla {

/// The figures of all outputs together, a line each, and below them a table of the outputs, by their numbers,
/// where there are several; of more than 32 outputs the table is left to add_metrics().
std::vector<std::string> lines_of(const OutputMetrics& metrics);

/// Adds the figures to a JSON object: "rmse" … of all outputs, and "outputs", an object for each.
void add_metrics(const OutputMetrics& metrics, nlohmann::ordered_json& json);

}  // namespace flotilla
