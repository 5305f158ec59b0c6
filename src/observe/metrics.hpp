// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace flotilla {

/// Values of metrics by their keys: those that the model has.
using Figures = std::map<std::string, double, std::less<>>;

/// Models that have a metric, by what they predict.
enum class MetricOf { all, classes, numbers, labels, clicks };

/// The console's form of a metric.
enum class Shown {
  no,
  four_digits,
  five_digits,
  significant,  ///< Six digits whatever its size: in units of the data
};

/// A metric as a chart of the report; its curves are those of training, validation and averaged weights.
struct MetricChart {
  int place = 0;             ///< Position among the charts, from 1; 0: no chart
  std::string_view name{};   ///< Name of its picture's file
  std::string_view title{};  ///< "Accuracy, top 1"
  bool from_zero = false;
};

/// A figure of validations: everything about it except how it is computed. A new one gets a row in metrics(),
/// and its value where the sums of all ranks are made into figures (src/train/monitor,
/// src/train/evaluation.cpp). metrics.jsonl, console, best checkpoint, evaluate, compare, report and the
/// table of docs/metrics.md follow.
struct Metric {
  std::string_view key;  ///< Key in metrics.jsonl and in checkpoint.best
  MetricOf of = MetricOf::all;
  std::string_view unit{};
  std::string_view meaning{};
  bool less_is_better = false;
  bool compared = false;  ///< Compares validations of its models where checkpoint.best names none
  bool of_each = false;   ///< Reported of each output too, as "output_KEY"
  bool averaged = false;  ///< Reported of the averaged weights too, as "average_KEY"
  Shown shown = Shown::five_digits;
  bool shown_averaged = false;    ///< The averaged weights' figure is on the console too
  std::int64_t min_classes = 0;   ///< People are not shown it for models with fewer classes
  std::string_view short_name{};  ///< Name on the console; empty: its key
  std::string_view label{};       ///< In the lines of `flotilla evaluate`; empty: its key
  std::string_view heading{};     ///< In the table of `flotilla compare`; empty: an accuracy, in percent
  MetricChart chart{};

  std::string_view name_on_console() const { return short_name.empty() ? key : short_name; }
  /// Whether the value is for people. @param classes of the model; 0: not known
  bool is_shown(std::int64_t classes, double value) const {
    return classes == 0 ? min_classes == 0 || value < 1.0 : classes >= min_classes;
  }
  std::string average_key() const { return "average_" + std::string(key); }
};

/// All metrics, in the order in which they are reported.
std::span<const Metric> metrics();

/// Null: there is none of this key.
const Metric* find_metric(std::string_view key);

/// The metric by which validations are compared where the deck names none.
const Metric& compared_metric(const Figures& figures);
const Metric& compared_metric(MetricOf of);

/// The figures of the averaged weights that are reported.
Figures reported_averages(const Figures& figures);

}  // namespace flotilla
