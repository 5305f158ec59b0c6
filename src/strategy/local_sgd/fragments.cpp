// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/local_sgd/fragments.hpp"

#include <algorithm>
#include <cstdlib>

#include "kernels/error.hpp"

namespace flotilla {

std::vector<Fragment> cut_fragments(const ArenaLayout& parameters, std::int64_t count) {
  const std::vector<Slice>& tensors = parameters.slices();
  if (count > std::ssize(tensors))
    throw UserError(cat("strategy.fragments = ", count, ", but the network has only ", tensors.size(),
                        " tensors of parameters, which are not cut; give at most that many"));
  std::vector<Fragment> fragments;
  std::int64_t first = 0;  // tensor of the next fragment
  for (std::int64_t left = count; left > 0; --left) {
    const std::int64_t goal = (count - left + 1) * parameters.size() / count;
    const auto end_at = [&](std::int64_t next) {
      return next < std::ssize(tensors) ? tensors[static_cast<std::size_t>(next)].offset : parameters.size();
    };
    std::int64_t next = left == 1 ? std::ssize(tensors) : first + 1;
    while (next + left - 1 < std::ssize(tensors) &&
           std::abs(end_at(next + 1) - goal) <= std::abs(end_at(next) - goal))
      ++next;
    fragments.push_back({.begin = fragments.empty() ? 0 : fragments.back().end,
                         .end = static_cast<std::size_t>(end_at(next)),
                         .statistics = left == 1});
    first = next;
  }
  return fragments;
}

}  // namespace flotilla
