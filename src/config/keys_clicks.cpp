// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"

namespace flotilla::config {

std::vector<Key> click_keys() {
  return {
      {.path = "data.hash_buckets",
       .field = field<&Config::data, &DataConfig::hash_buckets>(),
       .rule = at_least(0, 9e18),
       .help = "Ids are the hash of slot and category modulo this; 0: the whole hash of 64 bits",
       .on_resume = must_match,
       .condition = {"data.kind", {"criteo", "libsvm"}}},
      {.path = "data.dense_transform",
       .field = field<&Config::data, &DataConfig::dense_transform>(),
       .help = "What becomes of a number: \"log\": ln(1 + max(x, 0)); \"min-max\": capped at the 95th "
               "percentile of Criteo's challenge and scaled to [0, 1], as PaddlePaddle's Fleet does. A "
               "missing number: 0",
       .on_resume = must_match,
       .condition = {"data.kind", {"criteo"}}},
      {.path = "data.deal",
       .field = field<&Config::data, &DataConfig::deal>(),
       .help =
           "What a worker reads: \"samples\": its part of each global batch; \"files\": files of its own, "
           "neighbours, as in PaddlePaddle's Fleet; \"bytes\": a part of all files of its own, as long as "
           "the "
           "others', of arrays in whole chunks. "
           "A worker that reaches its end starts again until the largest part is read",
       .on_resume = must_match,
       .condition = {"data.kind", {"hdf5", "numpy", "cifar", "criteo", "libsvm"}}},
  };
}

}  // namespace flotilla::config
