// SPDX-License-Identifier: Apache-2.0
#include "src/data/input_form.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/data_reader.hpp"
#include "src/files/checksum.hpp"

namespace flotilla {

namespace {

constexpr std::size_t max_letters = 256;  // checkpoints keep the text in an attribute

/// "127.5" for equal values, otherwise "[0.1, 0.2]"; for very many values their checksum.
std::string values_text(std::vector<double> values, double unit) {
  for (double& value : values) value *= unit;
  if (std::ranges::all_of(values, [&](double value) { return value == values.front(); }))
    return fmt::format("{:.9g}", values.front());
  const std::string text = fmt::format("[{:.9g}]", fmt::join(values, ", "));
  if (text.size() <= max_letters) return text;
  return cat("[", values.size(), " values, xxh3 ", hexadecimal(checksum_of(std::as_bytes(std::span(text)))),
             "]");
}

/// @param unit of the means and deviations, in numbers as they are stored
std::string formula(const std::string& number, const GivenScaling& scaling, double unit) {
  const std::string mean = values_text(scaling.mean.empty() ? std::vector{0.0} : scaling.mean, unit);
  const std::string deviation = values_text(scaling.std.empty() ? std::vector{1.0} : scaling.std, unit);
  const std::string moved = mean == "0" ? number : cat("(", number, " - ", mean, ")");
  return deviation == "1" ? moved : cat(moved, " / ", deviation);
}

/// The parts of an input_form().
struct Parts {
  explicit Parts(const std::string& form)
      : type(form.substr(0, form.rfind(' ', form.find(", ")))), formula(form.substr(form.find(", ") + 2)) {}
  std::string type, formula;
};

}  // namespace

GivenScaling scaling_of(const DataConfig& data, bool bytes) {
  const auto of_kind = reader_of(data.kind).scaling;
  return of_kind == nullptr ? GivenScaling() : of_kind(data, bytes);
}

std::string input_form(const DataConfig& data, const Dataset& set) {
  const std::string& type = set.facts().number_type;
  const auto of_kind = reader_of(data.kind).input;
  const bool bytes = type == "uint8";
  return cat(type, " ", set.sample_shape().text(), ", ",
             of_kind == nullptr ? formula("x", scaling_of(data, bytes), bytes ? 255.0 : 1.0) : of_kind(data));
}

Shape shape_in(const std::string& form) {
  const Parts parts(form);
  Shape shape;
  std::istringstream text(form.substr(parts.type.size()));
  for (std::int64_t extent = 0; text >> extent; text.ignore()) shape.append(extent);
  return shape;
}

std::string target_form(const DataConfig& data) {
  return formula("t", {data.target_mean, data.target_std}, 1.0);
}

std::string compare_inputs(const std::string& trained, const std::string& now, const std::string& data) {
  const Parts before(trained);
  const Parts here(now);
  if (before.formula != here.formula) {
    std::string remedy = "scale them by the keys of the model's deck";
    if (before.type != here.type) {
      remedy = cat("convert them to ", before.type);
      if (before.type == "uint8") remedy += ", or give data.input_mean and data.input_std these values";
    }
    throw UserError(cat("the model sees ", before.formula, " of a number x of ", before.type,
                        ", and of those of ", data, ", ", here.type, ", it would see ", here.formula, ": ",
                        remedy));
  }
  if (before.type == here.type) return {};
  return cat("the numbers of ", data, " are ", here.type, ", those of training are ", before.type,
             ": the model sees ", here.formula, " of both");
}

void compare_targets(const std::string& trained, const std::string& now) {
  if (trained != now)
    throw UserError(cat("the model was trained to predict ", trained, " of a target t, and the deck says ",
                        now, ": give data.target_mean and data.target_std as they were"));
}

}  // namespace flotilla
