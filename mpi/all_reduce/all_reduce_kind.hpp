// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/core/wire.hpp"

namespace flotilla {
class Storage;
struct NativeStream;
}  // namespace flotilla

namespace flotilla::mpi {

class Collectives;
class Communicator;
class EmulatedLink;
class SharedStorage;
struct Place;

/// The order of additions. `tree`: as in sum_arrays.hpp, over the ranks; `any` may depend on the number of
/// ranks and the size of the array.
enum class SumOrder { any, tree };

/// A network link, slower than the real one: run.emulate_link.
struct LinkModel {
  double gbit_s = 0.0;      ///< Rate of each direction, with the headers of packets; 0: none is emulated
  double latency_us = 0.0;  ///< Of a message
  double both_ways = 1.0;   ///< The time of messages both ways at a time, by that of one of them
  double burst_kb = 0.0;    ///< KiB that a link at rest takes at once, as tc's tbf
  double jitter = 0.0;      ///< Mean of an exponential addition to the latency, as a part of it

  bool is_on() const { return gbit_s > 0.0; }
};

/// The workers of a run and their all-reduce, as far as an algorithm depends on them: equal on every rank.
struct AllReduceSite {
  int ranks = 1;
  int hosts = 1;
  std::vector<int> groups{};      ///< The group of each rank, numbered from 0
  bool groups_in_memory = false;  ///< No group has ranks of two hosts
  Wire wire = Wire::float32;      ///< Type of values between processes
  SumOrder order = SumOrder::any;
  int communicators = 1;  ///< All-reduces at a time
  std::string no_nccl{};  ///< Why the ranks cannot use NCCL: "needs …"; empty: they can
  LinkModel link{};       ///< Of each rank or, for an all-reduce in groups, of each group

  int group_count() const;
};

/// A site with the ranks of `places`. @param ranks_per_group 0: a group per host
/// @throws UserError if the ranks cannot form such groups
AllReduceSite find_site(const std::vector<Place>& places, int ranks_per_group);

/// The rounding to a scaled wire, and what it has left of an array of this rank.
struct WireRounding {
  std::uint64_t seed = 0;
  bool stochastic = false;
  /// An array whose values are numbered from 0. Every sum is of a part of it, or of arrays of the same size
  /// that follow it in memory, whose values have the same numbers.
  const float* array = nullptr;
  std::span<float> errors{};  ///< By the number of a value
};

/// The parts that an all-reduce is made from. An algorithm uses some of them.
struct AllReduceParts {
  const AllReduceSite& site;
  const Communicator& world;
  const Communicator& host;  ///< The ranks of this host
  Wire wire = Wire::float32;
  const WireRounding* rounding = nullptr;  ///< Of a scaled wire
  EmulatedLink* link = nullptr;            ///< Null: the real one
  SharedStorage* window = nullptr;         ///< Holds the arrays if needs_window(); otherwise null
  std::size_t most = 0;                    ///< Floats that are summed at once
  const NativeStream* stream = nullptr;    ///< Stream of the GPU that holds the arrays
  std::function<Storage(std::size_t floats)> pinned{};  ///< Host memory that copies to the GPU are fast with
};

enum class SumsIn { gpus, one_host, any_host };  ///< The memory in which an algorithm sums
enum class Groups { none, of_any_size, of_equal_size };
enum class Wires { float32, halves, all };            ///< That it can send values on
enum class KeepsTree { always, in_subtrees, never };  ///< Whether it can add in SumOrder::tree

/// An all-reduce that strategy.all_reduce names: all that is known of it. To add one, derive a class from
/// Collectives and write its function `make`, which is declared and listed here.
struct AllReduceKind {
  std::string_view word;
  std::string_view help;  ///< Explanation of how it adds
  SumsIn memory = SumsIn::any_host;
  Groups groups = Groups::none;  ///< Adds inside groups first, then across them
  KeepsTree tree = KeepsTree::never;
  Wires wires = Wires::float32;
  bool several_communicators = true;
  /// Whether "auto" measures it where it is possible. Null: never
  bool (*worth_measuring)(const AllReduceSite& site) = nullptr;
  /// Collective over parts.world.
  std::unique_ptr<Collectives> (*make)(const AllReduceParts& parts) = nullptr;

  constexpr bool carries(Wire wire) const {
    return wire == Wire::float32 || wires == Wires::all || (wires == Wires::halves && !is_scaled(wire));
  }
  bool on_gpus() const { return memory == SumsIn::gpus; }
};

std::unique_ptr<Collectives> make_nccl(const AllReduceParts& parts);
std::unique_ptr<Collectives> make_nccl_hierarchical(const AllReduceParts& parts);
std::unique_ptr<Collectives> make_nccl_over_mpi(const AllReduceParts& parts);
std::unique_ptr<Collectives> make_shared_memory(const AllReduceParts& parts);
std::unique_ptr<Collectives> make_hierarchical(const AllReduceParts& parts);
std::unique_ptr<Collectives> make_mpi(const AllReduceParts& parts);

/// Every all-reduce. "auto" compares those that sum in the same memory, the first memory of this list that
/// has any.
inline constexpr std::array all_reduce_kinds = {
    AllReduceKind{.word = "nccl",
                  .help = "by NCCL in the memory of GPUs, one for each rank",
                  .memory = SumsIn::gpus,
                  .worth_measuring =
                      [](const AllReduceSite& site) {
                        return site.ranks > 1 && (site.wire == Wire::float32 || site.hosts == 1);
                      },
                  .make = make_nccl},
    AllReduceKind{.word = "nccl-hierarchical",
                  .help = "by NCCL inside the groups, then across them",
                  .memory = SumsIn::gpus,
                  .groups = Groups::of_equal_size,
                  .worth_measuring =
                      [](const AllReduceSite& site) {
                        return site.group_count() > 1 && site.group_count() < site.ranks &&
                               (site.wire == Wire::float32 || site.hosts == 1);
                      },
                  .make = make_nccl_hierarchical},
    AllReduceKind{.word = "nccl-mpi",
                  .help = "by NCCL inside the groups and MPI across them",
                  .memory = SumsIn::gpus,
                  .groups = Groups::of_equal_size,
                  .wires = Wires::halves,
                  .several_communicators = false,
                  .worth_measuring =
                      [](const AllReduceSite& site) {
                        return site.group_count() > 1 && site.wire != Wire::float32 && site.hosts > 1;
                      },
                  .make = make_nccl_over_mpi},
    // Nothing came near it where it is possible, and a choice by measurement would let bits differ from run
    // to run.
    AllReduceKind{.word = "shared-memory",
                  .help = "in memory that the ranks of one host share",
                  .memory = SumsIn::one_host,
                  .tree = KeepsTree::always,
                  .worth_measuring = [](const AllReduceSite& site) { return site.ranks > 1; },
                  .make = make_shared_memory},
    AllReduceKind{.word = "hierarchical",
                  .help = "inside the groups, then across them",
                  .groups = Groups::of_any_size,
                  .tree = KeepsTree::in_subtrees,
                  .wires = Wires::all,
                  .worth_measuring =
                      [](const AllReduceSite& site) {
                        return site.group_count() > 1 && site.group_count() < site.ranks;
                      },
                  .make = make_hierarchical},
    AllReduceKind{.word = "mpi",
                  .help = "MPI_Allreduce, or with a fixed order or a half wire in a tree over the ranks, "
                          "with a scaled one slice by slice",
                  .tree = KeepsTree::always,
                  .wires = Wires::all,
                  .worth_measuring = [](const AllReduceSite& /*site*/) { return true; },
                  .make = make_mpi},
};

/// A value of strategy.all_reduce: "auto", or 1 + the index of a kind.
enum class AllReduceWord : std::uint8_t { automatic };

/// "auto" and the words of all kinds.
inline constexpr auto all_reduce_words = [] {
  std::array<std::string_view, all_reduce_kinds.size() + 1> words{"auto"};
  for (std::size_t i = 0; i < all_reduce_kinds.size(); ++i) words[i + 1] = all_reduce_kinds[i].word;
  return words;
}();

/// The kind of that word, which must be one.
constexpr const AllReduceKind& all_reduce_kind(std::string_view word) {
  std::size_t i = 0;
  while (all_reduce_kinds.at(i).word != word) ++i;
  return all_reduce_kinds[i];
}

/// Null: "auto".
constexpr const AllReduceKind* kind_of(AllReduceWord word) {
  return word == AllReduceWord::automatic ? nullptr : &all_reduce_kinds[static_cast<std::size_t>(word) - 1];
}
constexpr AllReduceWord word_of(const AllReduceKind& kind) {
  return static_cast<AllReduceWord>(&kind - all_reduce_kinds.data() + 1);
}

/// Why the kind cannot sum there, naming strategy.all_reduce and a remedy; empty: it can.
std::string why_not(const AllReduceKind& kind, const AllReduceSite& site);

/// Whether the arrays must lie in memory that the ranks of a host share.
bool needs_window(const AllReduceKind& kind, const AllReduceSite& site);

/// The kinds that "auto" compares, at least one, the likeliest first.
std::vector<const AllReduceKind*> worth_measuring(const AllReduceSite& site);

/// The kinds that a benchmark compares: all that are possible, those in groups where there are several.
std::vector<const AllReduceKind*> possible_all_reduces(const AllReduceSite& site);

/// "hierarchical in 2 groups, float16"
std::string describe(const AllReduceKind& kind, const AllReduceSite& site);

}  // namespace flotilla::mpi
