// SPDX-License-Identifier: Apache-2.0
#include "src/data/found.hpp"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::size_t max_found_bytes = 30000;  // an attribute of HDF5 has 64 KiB for all choices

}  // namespace

std::string found_text(const Config& config) {
  const FoundInData& found = config.data.found;
  if (found == FoundInData()) return {};
  const nlohmann::json json = {
      {"columns", found.columns},     {"categories", found.categories},   {"fills", found.fills},
      {"classes", found.classes},     {"class_count", found.class_count}, {"input_mean", found.input_mean},
      {"input_std", found.input_std}, {"target_mean", found.target_mean}, {"target_std", found.target_std}};
  const std::string text = json.dump();
  if (text.size() > max_found_bytes)
    throw UserError(
        cat("what the training data say (names of columns, categories, classes, scaling) takes ", text.size(),
            " bytes, and a checkpoint keeps ", max_found_bytes,
            ": leave out columns of many categories by data.ignored_columns, or shorten the texts"));
  return text;
}

std::string found_line(const DataConfig& data) {
  const FoundInData& found = data.found;
  std::string text;
  const auto add = [&](bool has, const auto&... parts) {
    if (has) text += cat(text.empty() ? "" : ", ", parts...);
  };
  std::size_t columns = 0;
  std::size_t categories = 0;
  for (const std::vector<std::string>& column : found.categories) {
    columns += column.empty() ? 0 : 1;
    categories += column.size();
  }
  add(found.class_count > 0, found.class_count, " classes");
  add(categories > 0, categories, " categories of ", columns, columns == 1 ? " column" : " columns");
  for (const auto& [name, values] :
       {std::pair("input mean", &found.input_mean), std::pair("input deviation", &found.input_std),
        std::pair("target mean", &found.target_mean), std::pair("target deviation", &found.target_std)})
    add(!values->empty(), name, " ", values->empty() ? 0.0 : values->front(),
        values->size() > 1 ? cat(" … ", values->back()) : "");
  return text;
}

void use_found(Config& config) {
  DataConfig& data = config.data;
  const FoundInData& found = data.found;
  const auto use = [](std::vector<double>& values, const std::vector<double>& instead) {
    if (is_auto(values) && !instead.empty()) values = instead;
  };
  use(data.input_mean, found.input_mean);
  use(data.input_std, found.input_std);
  use(data.target_mean, found.target_mean);
  use(data.target_std, found.target_std);
  if (config.model.has_classes() && config.model.classes == 0) config.model.classes = found.class_count;
}

void take_found(const std::map<std::string, std::string>& choices, Config& config) {
  const auto kept = choices.find(found_in_data);
  if (kept == choices.end()) return;
  const auto json = nlohmann::json::parse(kept->second);
  FoundInData& found = config.data.found;
  json.at("columns").get_to(found.columns);
  json.at("categories").get_to(found.categories);
  json.at("fills").get_to(found.fills);
  json.at("classes").get_to(found.classes);
  json.at("class_count").get_to(found.class_count);
  json.at("input_mean").get_to(found.input_mean);
  json.at("input_std").get_to(found.input_std);
  json.at("target_mean").get_to(found.target_mean);
  json.at("target_std").get_to(found.target_std);
  use_found(config);
}

}  // namespace flotilla
