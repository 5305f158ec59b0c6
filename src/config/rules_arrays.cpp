// SPDX-License-Identifier: Apache-2.0
#include "src/config/rule_checks.hpp"

namespace flotilla::config {
namespace {

class ArrayRules : public RuleChecks {
 public:
  using RuleChecks::RuleChecks;

  void blocks() {
    const DataConfig& data = config.data;
    if (!usable({"data.order", "data.shuffle_block", "data.shuffle_buffer"}) ||
        data.order != SampleOrder::blocks || data.shuffle_buffer % data.shuffle_block == 0)
      return;
    mistakes.add(origin({"data.shuffle_buffer", "data.shuffle_block"}),
                 cat("data.shuffle_buffer must be a multiple of data.shuffle_block, got ",
                     data.shuffle_buffer, " and ", data.shuffle_block));
  }

  void shares() {
    exclude("data.deal", config.data.deal != ShardBy::samples, "run.reproducible", config.run.reproducible,
            "the samples of a step must not depend on the number of workers");
  }

  void pixel_scale() {
    const DataConfig& data = config.data;
    const char* const of_inputs = data.input_mean.empty() ? "data.input_std" : "data.input_mean";
    const char* const of_pixels = given.find("data.mean") == nullptr ? "data.std" : "data.mean";
    exclude(of_inputs, data.has_arrays() && !(data.input_mean.empty() && data.input_std.empty()), of_pixels,
            data.pixel_scale_given, "data.input_mean and data.input_std are enough, of uint8 too");
  }
};

}  // namespace

void check_array_rules(const Config& config, const DeckValues& given, Mistakes& mistakes) {
  ArrayRules rules(config, given, mistakes);
  rules.blocks();
  rules.shares();
  rules.pixel_scale();
}

}  // namespace flotilla::config
