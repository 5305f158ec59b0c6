// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace flotilla {

enum class PredictionFormat { csv, jsonl };

struct PredictArguments {
  std::string checkpoint;           ///< A file, or a folder: its newest good checkpoint
  std::vector<std::string> inputs;  ///< Images, folders or a list of them; a file of arrays or of click data
  std::string deck;                 ///< Empty: the one in the checkpoint
  std::vector<std::string> overrides;
  bool best = false;   ///< The best checkpoint of the folder
  std::string output;  ///< File for the predictions; empty: stdout
  PredictionFormat format = PredictionFormat::csv;
  std::int64_t top = 0;  ///< Classes written per sample; 0: one, for click data all
  bool all = false;      ///< All classes
};

/// The kind of a sample's predictions: its classes; labels of 0 or 1, as the probability of 1 (the model
/// gives their logits); or numbers as they are.
enum class Told { classes, labels, numbers };

/// The layout of written predictions.
struct PredictionLayout {
  PredictionFormat format = PredictionFormat::csv;
  Told told = Told::classes;
  std::vector<std::string> classes{};  ///< Their names; empty: their numbers
  std::int64_t outputs = 0;  ///< Number of classes, labels or numbers; the latter have a column each
  std::int64_t top = 1;      ///< Classes written per sample, the most probable ones
  bool all = false;          ///< All classes instead; in CSV a column for each, in their order
  bool names = false;        ///< Samples have names, not only numbers
};

/// The softmax of outputs, in double.
std::vector<double> probabilities_of(std::span<const float> outputs);

/// The first line of a CSV file, with its line feed; empty for JSON lines.
std::string prediction_header(const PredictionLayout& layout);

/// The line of a sample, with its line feed. Of equal probabilities the lower class comes first.
/// @param outputs of the network, finite
std::string prediction_line(const PredictionLayout& layout, std::int64_t sample, const std::string& name,
                            std::span<const float> outputs);

/// The line of a sample that cannot be read: in CSV empty fields after its name, in JSON `why` as "error".
std::string unread_line(const PredictionLayout& layout, std::int64_t sample, const std::string& name,
                        const std::string& why);

}  // namespace flotilla
