// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/keys.hpp"

namespace flotilla::config {
namespace {

template <class... Fields>
void count(std::size_t& fields, const Fields&...) {
  fields += sizeof...(Fields);
}

/// The fields that a deck can set. One added to the structures stops this from compiling.
std::size_t count_fields(const Config& config) {
  std::size_t all = 0;
  const auto& [run, device, model, data, train, optimizer, schedule, reduction, strategy, roles, checkpoint,
               validation, resolved_text] = config;
  {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, straggler] = run;
    count(all, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
    const auto& [rank, slow_factor, pause_s, every, take_turns] = straggler;
    count(all, rank, slow_factor, pause_s, every, take_turns);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, loss_scale] = device;
    count(all, a, b, c, d, e, f, g, h);
    const auto& [kind, value, initial, growth, growth_every, backoff, backoff_every] = loss_scale;
    count(all, kind, value, initial, growth, growth_every, backoff, backoff_every);
  }
  {
    // layer_places follows from layers; own models' keys come later
    const auto& [a, b, c, layers, layer_places, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, own] =
        model;
    count(all, a, b, c, layers, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t);
  }
  {
    // pixel_scale_given follows from what the deck holds
    const auto& [kind, train_data, validation_data, shape, mean, std, pixel_scale_given, class_names,
                 stage_to, threads, prefetch, last_batch, order, block, buffer, inputs_name, targets_name,
                 channels_last, cache_mb, input_mean, input_std, target_mean, target_std, buckets, transform,
                 deal, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = data;
    count(all, kind, shape, mean, std, class_names, stage_to, threads, prefetch, last_batch, order, buckets,
          transform, deal);
    count(all, block, buffer, inputs_name, targets_name, channels_last, cache_mb, input_mean, input_std,
          target_mean, target_std);
    count(all, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t);
    for (const DataSourceConfig* source : {&train_data, &validation_data}) {
      // given follows from the others, staged_below from data.stage_to, inputs from a command line
      const auto& [given, images, labels, samples, path, root, staged_below, inputs] = *source;
      count(all, images, labels, samples, path, root);
    }
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = train;
    count(all, a, b, c, d, e, f, g, h, i, j, k, l, m, n);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i, j, k] = optimizer;
    count(all, a, b, c, d, e, f, g, h, i, j, k);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i] = schedule;
    count(all, a, b, c, d, e, f, g, h, i);
  }
  {
    const auto& [a, b, c, d, e] = reduction;
    count(all, strategy, a, b, c, d, e);  // the strategy's kind is the variant's alternative
  }
  {
    const auto& [a, b] = AllReduceConfig();
    count(all, a, b);
  }
  {
    const auto& [adaptive, a, b, c, d, e, f, g, h, i, j, k, l, outer] = LocalSgdConfig();
    count(all, a, b, c, d, e, f, g, h, i, j, k, l);
    const auto& [outer_kind, outer_rate, outer_momentum] = outer;
    count(all, outer_kind, outer_rate, outer_momentum);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i] = ServerConfig();
    count(all, a, b, c, d, e, f, g, h, i);
  }
  {
    const auto& [a, b, c, d] = roles;
    count(all, a, b, c, d);
  }
  {
    const auto& [a, b, c, d, e] = checkpoint;
    count(all, a, b, c, d, e);
  }
  {
    const auto& [a, b] = validation;
    count(all, a, b);
  }
  return all;
}

/// Another value of the key's type than its default.
Value other_than_default(const Key& key) {
  const std::string word = key.field.words.empty() ? "x" : key.field.words.back();
  return std::visit(
      [&]<class T>(const T& held) -> Value {
        if constexpr (std::is_same_v<T, bool>) {
          return !held;
        } else if constexpr (std::is_same_v<T, std::string>) {
          return held == word ? key.field.words.front() : word;
        } else if constexpr (std::is_arithmetic_v<T>) {
          return held + 1;
        } else {
          T longer = held;
          if constexpr (std::is_same_v<T, std::vector<std::string>>)
            longer.push_back(word);
          else
            longer.push_back({});
          return longer;
        }
      },
      default_of(key));
}

TEST(Choices, PrecisionHasTheWordsOfDevicesAndWires) {
  for (const auto precision : {Precision::float32, Precision::float16, Precision::bfloat16}) {
    EXPECT_EQ(name(precision), word(precision));
    EXPECT_EQ(name(precision), word(static_cast<DevicePrecision>(precision)));
  }
  EXPECT_THROW(choice<Precision>("float64"), InternalError);
}

/// The deck's defaults with the strategy that has the key.
Config with_strategy_of(const Key& key) {
  Config config;
  if (key.condition.selector == "strategy.kind")
    find_key("strategy.kind")->field.write(config, key.condition.values.back());
  else if (!key.condition.selector.empty())
    config = with_strategy_of(*find_key(key.condition.selector));
  return config;
}

TEST(Keys, EveryFieldOfTheConfigHasExactlyOneKey) {
  EXPECT_EQ(all_keys().size(), count_fields({}));
  for (const Key& key : all_keys()) {
    Config config = with_strategy_of(key);
    const Config before = config;
    const Value value = other_than_default(key);
    key.field.write(config, value);
    for (const Key& other : all_keys()) {
      const Value wanted = &other == &key ? value : other.field.read(before);
      EXPECT_EQ(other.field.read(config), wanted) << key.path << " and " << other.path;
    }
  }
}

TEST(Keys, AKeyOfAnotherStrategyHasNoPlace) {
  for (const Key& key : all_keys()) {
    const auto& kinds = key.condition.values;
    if (key.condition.selector != "strategy.kind" || std::ranges::count(kinds, "all-reduce") > 0) continue;
    Config config;
    key.field.write(config, other_than_default(key));
    EXPECT_EQ(key.field.read(config), default_of(key)) << key.path;
  }
}

TEST(Keys, PathsAreUniqueAndTablesAreContiguous) {
  std::set<std::string> paths;
  std::set<std::string> tables;
  std::string table;
  for (const Key& key : all_keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    if (key.table() != table) {
      table = key.table();
      EXPECT_TRUE(tables.insert(table).second) << "the keys of " << table << " are not together";
    }
  }
}

TEST(Keys, ASelectorStandsBeforeItsKeysAndHasTheValuesTheyName) {
  std::set<std::string> before;
  for (const Key& key : all_keys()) {
    if (const Condition& condition = key.condition; !condition.selector.empty()) {
      ASSERT_TRUE(before.contains(condition.selector)) << key.path;
      const Key& selector = *find_key(condition.selector);
      for (const std::string& value : condition.values) {
        const auto& choices = selector.rule.choices;
        const bool is_choice = std::find(choices.begin(), choices.end(), value) != choices.end();
        EXPECT_TRUE(is_choice || value == "true") << key.path << " names " << value;
      }
    }
    before.insert(key.path);
  }
}

TEST(Keys, DefaultsKeepTheirOwnRules) {
  for (const Key& key : all_keys()) {
    if (key.presence != Necessity::has_default) continue;
    EXPECT_FALSE(broken_rule(key, default_of(key))) << key.path;
  }
}

TEST(Keys, EveryKeyHasHelpWithoutAFullStop) {
  for (const Key& key : all_keys()) {
    ASSERT_FALSE(key.help.empty()) << key.path;
    EXPECT_NE(key.help.back(), '.') << key.path;
  }
}

TEST(Keys, WhatTheUpdatesDependOnMustMatchOnResumeOrBeNamed) {
  const std::set<std::string> free_tables = {"run.emulate_straggler",
                                             "device",
                                             "device.loss_scale",
                                             "strategy",
                                             "checkpoint",
                                             "validation",
                                             "roles",
                                             "server"};
  const std::set<std::string> free_keys = {
      "model.recompute",        "data.stage_to",     "data.threads",
      "data.prefetch",          "train.epochs",      "train.steps",
      "train.seconds",          "train.batch_size",  "train.global_batch_size",
      "train.accumulate_steps", "data.cache",        "data.max_bad_images",
      "data.max_pixels",        "data.on_bad_image", "model.weight_names",
      "train.patience",         "data.class_names",  "train.target",
      "data.cache_mb"};
  const std::set<std::string> request_tables = {"schedule", "optimizer", "train"};
  const std::set<std::string> request_keys = {"model.dropout",    "model.initial_weights", "data.mean",
                                              "data.std",         "data.input_mean",       "data.input_std",
                                              "data.target_mean", "data.target_std"};
  for (const Key& key : all_keys()) {
    const bool may_change = free_tables.contains(key.table()) || free_keys.contains(key.path) ||
                            key.table() == "strategy.outer" || key.table() == "run.emulate_straggler" ||
                            (key.table() == "run" && key.path != "run.seed");
    const bool names_samples =
        key.path.starts_with("data.") && key.path_role == PathRole::input && key.path != "data.class_names";
    EXPECT_EQ(key.on_resume == OnResume::may_change, may_change) << key.path;
    EXPECT_EQ(key.on_resume == OnResume::same_samples, names_samples) << key.path;
    if (may_change || names_samples) continue;
    const bool on_request = (request_tables.contains(key.table()) && key.path != "optimizer.kind" &&
                             key.path != "optimizer.frozen") ||
                            request_keys.contains(key.path) ||
                            std::ranges::count(key.condition.values, "image-folder") > 0;
    EXPECT_EQ(key.on_resume == OnResume::on_request, on_request) << key.path;
  }
}

}  // namespace
}  // namespace flotilla::config
