// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "kernels/gpu/loops/launch.hpp"

/// The loops of a GPU on the host, with indices, teams and lanes in random order: what depends on their order
/// gives other results each time. FLOTILLA_FAKE_GPU_SEED selects the orders (1 if it is not set).
namespace flotilla::test {

class ShuffledSerial : public Kokkos::Serial {};

/// A random number, and the next state (SplitMix64: Steele, Lea & Flood 2014).
KOKKOS_INLINE_FUNCTION std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15U;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBU;
  return mixed ^ (mixed >> 31U);
}

/// The state that the orders of kernels are drawn from.
inline std::uint64_t& order_state() {
  static std::uint64_t state = [] {
    const char* const seed = std::getenv("FLOTILLA_FAKE_GPU_SEED");
    return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
  }();
  return state;
}

/// The numbers 0 … count − 1 in a random order: factor · i + offset, modulo count, where factor and count
/// have no common divisor. Below 2³¹.
class Permutation {
 public:
  KOKKOS_INLINE_FUNCTION Permutation(std::int64_t count, std::uint64_t& random)
      : count_(static_cast<std::uint64_t>(count)) {
    if (count < 2) return;
    offset_ = next_random(random) % count_;
    do {
      factor_ = next_random(random) % count_;
    } while (std::gcd(factor_, count_) != 1);
  }
  KOKKOS_INLINE_FUNCTION std::int64_t operator()(std::int64_t i) const {
    return static_cast<std::int64_t>((factor_ * static_cast<std::uint64_t>(i) + offset_) % count_);
  }

 private:
  std::uint64_t count_;
  std::uint64_t factor_ = 1;
  std::uint64_t offset_ = 0;
};

using SerialTeam = loops::Policy<Kokkos::Serial>::member_type;

/// A team of another rank, and the state that the orders of its lanes are drawn from.
class ShuffledTeam : public SerialTeam {
 public:
  KOKKOS_INLINE_FUNCTION ShuffledTeam(const SerialTeam& team, std::int64_t rank, std::uint64_t state)
      : SerialTeam(team), rank_(static_cast<int>(rank)), state_(state + static_cast<std::uint64_t>(rank)) {}
  KOKKOS_INLINE_FUNCTION int league_rank() const { return rank_; }
  KOKKOS_INLINE_FUNCTION Permutation order_of(int lanes) const { return {lanes, state_}; }

 private:
  int rank_;
  mutable std::uint64_t state_;
};

/// Instead of loops::each_lane.
template <class Body>
KOKKOS_INLINE_FUNCTION void each_lane(const ShuffledTeam& team, int lanes, const Body& body) {
  const Permutation order = team.order_of(lanes);
  loops::each_lane(static_cast<const SerialTeam&>(team), lanes,
                   [&](int i) { body(static_cast<int>(order(i))); });
}

/// A functor that is called with other indices or teams.
template <class Functor>
struct Shuffled {
  Functor functor;
  Permutation order;
  std::uint64_t state;
  void operator()(std::int64_t i) const { functor(order(i)); }
  void operator()(const SerialTeam& team) const {
    functor(ShuffledTeam(team, order(team.league_rank()), state));
  }
};

}  // namespace flotilla::test

template <>
struct flotilla::loops::Order<flotilla::test::ShuffledSerial> {
  using Team = flotilla::test::ShuffledTeam;
  template <class Functor>
  static flotilla::test::Shuffled<Functor> of(const Functor& functor, std::int64_t count) {
    std::uint64_t& random = flotilla::test::order_state();
    const flotilla::test::Permutation order(count, random);
    return {functor, order, flotilla::test::next_random(random)};
  }
};
