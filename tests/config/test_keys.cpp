// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/keys.hpp"

namespace flotilla::config {
namespace {

/// A value of any type, for the members of an aggregate.
struct Anything {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor): never called
};

/// The number of members of an aggregate: as many values as its braces take.
template <class T, class... Values>
consteval std::size_t members() {
  if constexpr (requires { T{Values()..., Anything()}; })
    return members<T, Values..., Anything>();
  else
    return sizeof...(Values);
}

/// The fields that a deck can set.
constexpr std::size_t count_fields() {
  std::size_t all = members<RunConfig>() - 1 + members<RunFilesConfig>();  // files
  all += members<EmulatedStragglerConfig>();
  all += members<DeviceConfig>() - 1 + members<LossScaleConfig>();  // loss_scale
  all += members<ModelConfig>() - 2;                                // layer_places, own
  all += members<DataConfig>() - 7;   // train, validation, pixel_scale_given, found, table, crop, erased
  all += members<TableConfig>() - 1;  // labels_classes
  all += members<CropConfig>() + members<EraseConfig>();
  all += 2 * (members<DataSourceConfig>() - 4) + 1;  // given, staged_below, inputs; share is of validation
  all += members<TrainConfig>() + members<OptimizerConfig>();
  all += members<ScheduleConfig>() - 1 + members<PlateauConfig>();    // plateau
  all += members<ReductionConfig>() - 1 + members<mpi::LinkModel>();  // link
  all += 2;  // the strategy's kind is the variant's alternative; preset
  all += members<AllReduceConfig>() + members<ServerConfig>();
  all += members<LocalSgdConfig>() - 4;  // adaptive, aims, outer, streaming
  all += members<PeriodAims>() + members<OuterConfig>() + members<StreamingConfig>();
  all += 4;  // RolesConfig
  return all + members<CheckpointConfig>() + members<ValidationConfig>();
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
  EXPECT_EQ(all_keys().size(), count_fields());
  for (const Key& key : all_keys()) {
    if (key.path == "strategy.preset") continue;  // stands for others
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

/// The class of each key at a resume, as it was considered; "optimizer.*" stands for the other keys of that
/// table. A new key of a table that is not named as a whole belongs here.
const std::map<OnResume, std::set<std::string>> considered = {
    {OnResume::of_start, {"run.output", "run.resume", "run.resume_with"}},
    {OnResume::of_machine,
     {"run.log_every",
      "run.rank_logs",
      "run.trace",
      "run.mlperf_log",
      "run.watchdog_s",
      "run.check_network",
      "run.check_collectives",
      "run.time_limit_s",
      "run.stop_margin_s",
      "run.agreement_every",
      "device.kind",
      "device.threads",
      "run.emulate_link.*",
      "device.share",
      "device.graphs",
      "device.workspace_mb",
      "model.recompute",
      "data.class_names",
      "data.stage_to",
      "data.threads",
      "data.prefetch",
      "data.cache",
      "data.cache_mb",
      "data.max_bad_images",
      "checkpoint.every",
      "checkpoint.every_s",
      "checkpoint.keep",
      "checkpoint.best",
      "checkpoint.keep_best",
      "checkpoint.per_rank",
      "checkpoint.resident",
      "validation.every",
      "validation.batch_size",
      "roles.kind",
      "roles.servers",
      "roles.server_ranks",
      "roles.worker_ranks"}},
    {OnResume::may_change,
     {"run.reproducible",
      "run.virtual_shards",
      "run.emulate_straggler.*",
      "device.precision",
      "device.convolution",
      "device.tf32",
      "device.loss_scale.*",
      "model.weight_names",
      "data.max_pixels",
      "data.on_bad_image",
      "train.epochs",
      "train.steps",
      "train.seconds",
      "train.batch_size",
      "train.global_batch_size",
      "train.accumulate_steps",
      "train.patience",
      "train.target",
      "strategy.*",
      "strategy.outer.*",
      "server.*"}},
    {OnResume::same_samples,
     {"data.train.images", "data.train.labels", "data.train.path", "data.train.root", "data.train.inputs",
      "data.train.targets", "data.validation.inputs", "data.validation.targets", "data.validation.images",
      "data.validation.labels", "data.validation.path", "data.validation.root"}},
    {OnResume::must_match,
     {"run.seed",
      "model.*",
      "optimizer.kind",
      "optimizer.frozen",
      "data.train.samples",
      "data.validation.samples",
      "data.validation.share",
      "data.kind",
      "data.shape",
      "data.last_batch",
      "data.order",
      "data.shuffle_block",
      "data.shuffle_buffer",
      "data.inputs",
      "data.targets",
      "data.channels_last",
      "data.hash_buckets",
      "data.dense_transform",
      "data.deal",
      "data.delimiter",
      "data.header",
      "data.columns",
      "data.target_columns",
      "data.categories",
      "data.ignored_columns",
      "data.missing_texts",
      "data.fill_missing"}},
    {OnResume::on_request,
     {"model.dropout", "model.initial_weights", "schedule.*", "optimizer.*", "train.*", "data.*"}},
};

/// The class under which the key is listed, otherwise the one of its table; empty if neither is listed.
std::optional<OnResume> class_of(const Key& key) {
  for (const std::string& name : {key.path, key.table() + ".*"})
    for (const auto& [on_resume, names] : considered)
      if (names.contains(name)) return on_resume;
  return std::nullopt;
}

TEST(Keys, EachHasTheClassThatWasConsideredForAResume) {
  std::set<std::string> known;
  for (const Key& key : all_keys()) {
    known.insert({key.path, key.table() + ".*"});
    const std::optional<OnResume> expected = class_of(key);
    ASSERT_TRUE(expected) << key.path;
    EXPECT_EQ(key.on_resume, *expected) << key.path;
  }
  for (const auto& [on_resume, names] : considered)
    for (const std::string& name : names) EXPECT_TRUE(known.contains(name)) << name;
}

}  // namespace
}  // namespace flotilla::config
