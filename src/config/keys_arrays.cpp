// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"

namespace flotilla::config {
namespace {

constexpr std::size_t most_scalings = 1 << 20;

template <auto member>
Key array_key(std::string name, Rule rule, std::string help, OnResume on_resume) {
  return {.path = "data." + std::move(name),
          .field = field<&Config::data, member>(),
          .rule = std::move(rule),
          .help = std::move(help),
          .on_resume = on_resume,
          .condition = {"data.kind", {"hdf5", "numpy"}}};
}

}  // namespace

std::vector<Key> array_keys() {
  using D = DataConfig;
  std::vector<Key> keys = {
      array_key<&D::inputs>("inputs", {},
                            "Name of the array of samples: (N), (N,F), (N,H,W) or (N,C,H,W); with groups as "
                            "\"train/images\"",
                            must_match),
      array_key<&D::targets>(
          "targets", {},
          "Name of the array of labels 0 … classes − 1 (integers), or of the numbers to be predicted, "
          "(N) or (N,model.outputs)",
          must_match),
      array_key<&D::channels_last>("channels_last", {}, "Images lie as (N,H,W,C)", must_match),
      array_key<&D::input_mean>("input_mean", array_of(0, most_scalings, {}),
                                "The network sees (x − mean) / std: one value, or one for each feature of "
                                "(N,F), each channel of (N,C,H,W); "
                                "of uint8, x is the value / 255, and data.mean and data.std are left out. "
                                "`flotilla inspect FILE` measures "
                                "them",
                                on_request),
      array_key<&D::input_std>("input_std", array_of(0, most_scalings, positive()), "See data.input_mean",
                               on_request),
      array_key<&D::target_mean>(
          "target_mean", array_of(0, most_scalings, {}),
          "The loss sees (t − mean) / std of numbers to be predicted: one value, or one for each",
          on_request),
      array_key<&D::target_std>("target_std", array_of(0, most_scalings, positive()), "See data.target_mean",
                                on_request),
      array_key<&D::cache_mb>(
          "cache_mb", at_least(1, 1048576),
          "MiB of decoded chunks that each rank keeps of training data, and as much of validation "
          "data; at least a chunk for each thread",
          of_machine),
  };
  keys.back().condition = data_is("hdf5");
  return keys;
}

}  // namespace flotilla::config
