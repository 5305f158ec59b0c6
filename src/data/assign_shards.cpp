// SPDX-License-Identifier: Apache-2.0
#include "src/data/assign_shards.hpp"

namespace flotilla {

Sharding assign_shards(Sharding sharding, const Dataset& data, ShardBy how) {
  if (how == ShardBy::samples) return sharding;
  sharding.shares = data.deal(how, sharding.workers);
  check_sharding(sharding);
  return sharding;
}

}  // namespace flotilla
