// SPDX-License-Identifier: Apache-2.0
#include "mpi/lateness.hpp"

#include <algorithm>

#include "kernels/error.hpp"

namespace flotilla::mpi {

namespace {

void add(std::vector<std::int64_t>& to, const std::vector<std::int64_t>& more) {
  require(to.size() == more.size(), "lateness of ", to.size(), " ranks and of ", more.size());
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
}

}  // namespace

Lateness::Lateness(int ranks)
    : times_last(static_cast<std::size_t>(ranks)),
      cost_ns(static_cast<std::size_t>(ranks)),
      waited_ns(static_cast<std::size_t>(ranks)) {}

void Lateness::record(std::span<const int> members, std::span<const std::int64_t> arrivals_ns) {
  if (members.size() < 2) return;
  std::size_t last = 0;
  for (std::size_t i = 1; i < members.size(); ++i)
    if (arrivals_ns[i] > arrivals_ns[last]) last = i;
  std::int64_t before = arrivals_ns[last == 0 ? 1 : 0];
  for (std::size_t i = 0; i < members.size(); ++i)
    if (i != last) before = std::max(before, arrivals_ns[i]);
  ++collectives;
  const auto rank = static_cast<std::size_t>(members[last]);
  ++times_last[rank];
  cost_ns[rank] += arrivals_ns[last] - before;
  for (std::size_t i = 0; i < members.size(); ++i)
    waited_ns[static_cast<std::size_t>(members[i])] += arrivals_ns[last] - arrivals_ns[i];
}

Lateness& Lateness::operator+=(const Lateness& other) {
  collectives += other.collectives;
  add(times_last, other.times_last);
  add(cost_ns, other.cost_ns);
  add(waited_ns, other.waited_ns);
  return *this;
}

}  // namespace flotilla::mpi
