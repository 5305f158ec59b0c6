// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "kernels/error.hpp"
#include "src/job/devices.hpp"
#include "src/strategy/reduce/all_reduce_plan.hpp"

namespace flotilla {
namespace {

using Kinds = std::vector<std::string_view>;

Kinds words(const AllReducePlan& plan) {
  Kinds words;
  for (const mpi::AllReduceKind* const kind : plan.candidates) words.push_back(kind->word);
  return words;
}

/// Ranks in order, `per_host` on each host.
std::vector<mpi::Place> places_on(int hosts, int per_host) {
  std::vector<mpi::Place> places;
  for (int host = 0; host < hosts; ++host)
    for (int local = 0; local < per_host; ++local)
      places.push_back({.rank = host * per_host + local, .host_index = host, .local_rank = local});
  return places;
}

ReductionConfig strategy(const std::string& all_reduce, std::int64_t ranks_per_group = 0) {
  return {.all_reduce = choice<AllReduceWord>(all_reduce), .ranks_per_group = ranks_per_group};
}

TEST(AllReducePlan, MeasuresWhatTheHostsAllow) {
  for (const bool shares_memory : {true, false}) {  // a mirror can lie where the device's memory cannot
    const auto candidates = [&](int hosts, int per_host, std::int64_t ranks_per_group) {
      return words(plan_all_reduce(strategy("auto", ranks_per_group),
                                   {.places = places_on(hosts, per_host), .shares_memory = shares_memory}));
    };
    EXPECT_EQ(candidates(1, 1, 0), (Kinds{"mpi"}));
    EXPECT_EQ(candidates(1, 4, 0), (Kinds{"shared-memory"}));
    EXPECT_EQ(candidates(1, 4, 2), (Kinds{"shared-memory"}));
    EXPECT_EQ(candidates(2, 2, 0), (Kinds{"hierarchical", "mpi"}));
    EXPECT_EQ(candidates(2, 1, 0), (Kinds{"mpi"}));  // groups of one each: flat
    EXPECT_EQ(candidates(2, 2, 4), (Kinds{"mpi"}));  // one group of all: flat
  }
}

TEST(AllReducePlan, StagesWhatTheHostCannotReachUnlessOneWorkerHasItsSumAlready) {
  const auto staged = [](int workers, bool shares_memory) {
    return plan_all_reduce(strategy("auto"),
                           {.places = places_on(1, workers), .shares_memory = shares_memory})
        .staged;
  };
  EXPECT_FALSE(staged(2, true));
  EXPECT_TRUE(staged(2, false));
  EXPECT_FALSE(staged(1, false));
}

TEST(AllReducePlan, KeepsWhatTheCheckpointChoseWhereItCan) {
  const auto candidates = [](int hosts, const std::string& saved) {
    return words(plan_all_reduce(strategy("auto"), {.places = places_on(hosts, 2), .saved = saved}));
  };
  EXPECT_EQ(candidates(2, "mpi"), (Kinds{"mpi"}));
  EXPECT_EQ(candidates(2, "hierarchical"), (Kinds{"hierarchical"}));
  EXPECT_EQ(candidates(2, "shared-memory"), (Kinds{"hierarchical", "mpi"}));
  // The deck's word goes before an older choice.
  EXPECT_EQ(words(plan_all_reduce(strategy("mpi"), {.places = places_on(1, 2), .saved = "shared-memory"})),
            (Kinds{"mpi"}));
}

TEST(AllReducePlan, WantsTheGradientsInTheWindowWhereTheyMeetThere) {
  const auto plan = [](const std::string& word, int hosts, std::int64_t ranks_per_group) {
    return plan_all_reduce(strategy(word, ranks_per_group), {.places = places_on(hosts, 3)});
  };
  EXPECT_FALSE(plan("mpi", 1, 0).window);
  EXPECT_TRUE(plan("shared-memory", 1, 0).window);
  EXPECT_TRUE(plan("hierarchical", 2, 0).window);
  EXPECT_TRUE(plan("hierarchical", 2, 3).groups_in_memory);
  EXPECT_FALSE(plan("hierarchical", 2, 2).groups_in_memory);  // the second group is on both hosts
  EXPECT_FALSE(plan("hierarchical", 2, 2).window);
}

TEST(AllReducePlan, LeavesOutWhatCannotKeepTheTree) {
  const auto plan = [](const std::string& word, std::int64_t ranks_per_group) {
    return plan_all_reduce(strategy(word, ranks_per_group),
                           {.places = places_on(2, 3), .order = mpi::SumOrder::tree});
  };
  EXPECT_EQ(words(plan("auto", 2)), (Kinds{"hierarchical", "mpi"}));
  EXPECT_EQ(words(plan("auto", 0)), (Kinds{"mpi"}));  // groups of three
  EXPECT_THROW(plan("hierarchical", 0), UserError);
}

TEST(AllReducePlan, RefusesWhatCannotBe) {
  EXPECT_THROW(plan_all_reduce(strategy("shared-memory"), {.places = places_on(2, 2)}), UserError);
  EXPECT_THROW(plan_all_reduce(strategy("hierarchical", 5), {.places = places_on(1, 4)}), UserError);
  const auto two_communicators = [](std::size_t buckets) {
    return plan_all_reduce(
        {}, {.places = places_on(1, 2), .buckets = buckets, .no_nccl = "", .communicators = 2});
  };
  EXPECT_THROW(two_communicators(1), UserError);
  EXPECT_EQ(two_communicators(2).communicators, 2);
}

/// Workers with a GPU each.
AllReducePlan plan_on_gpus(const ReductionConfig& reduction, int hosts, int per_host,
                           mpi::SumOrder order = mpi::SumOrder::any, const std::string& saved = "",
                           std::int64_t communicators = 1) {
  return plan_all_reduce(reduction, {.places = places_on(hosts, per_host),
                                     .shares_memory = false,
                                     .buckets = 4,
                                     .saved = saved,
                                     .order = order,
                                     .no_nccl = "",
                                     .communicators = communicators});
}

TEST(AllReducePlan, PrefersNcclWhereEachWorkerHasAGpu) {
  const auto candidates = [](int hosts, int per_host, std::int64_t ranks_per_group) {
    return words(plan_on_gpus(strategy("auto", ranks_per_group), hosts, per_host));
  };
  EXPECT_EQ(candidates(1, 1, 0), (Kinds{"mpi"}));  // it has its sum already
  EXPECT_EQ(candidates(1, 4, 0), (Kinds{"nccl"}));
  EXPECT_EQ(candidates(2, 4, 0), (Kinds{"nccl", "nccl-hierarchical"}));
  EXPECT_EQ(candidates(2, 1, 0), (Kinds{"nccl"}));  // groups of one each: flat
  EXPECT_EQ(candidates(2, 2, 4), (Kinds{"nccl"}));  // one group of all: flat
  EXPECT_EQ(candidates(1, 3, 2), (Kinds{"nccl"}));  // groups of two sizes
  EXPECT_FALSE(plan_on_gpus(strategy("auto"), 2, 4).staged);
  EXPECT_FALSE(plan_on_gpus(strategy("auto"), 2, 4).window);
  EXPECT_EQ(words(plan_on_gpus(strategy("auto"), 2, 4, mpi::SumOrder::any, "nccl")), (Kinds{"nccl"}));
}

TEST(AllReducePlan, LeavesOrderAndHalfWiresToMpi) {
  ReductionConfig half = strategy("auto");
  half.wire = Wire::bfloat16;

  EXPECT_EQ(words(plan_on_gpus(strategy("auto"), 1, 2, mpi::SumOrder::tree)), (Kinds{"shared-memory"}));
  EXPECT_TRUE(plan_on_gpus(strategy("auto"), 1, 2, mpi::SumOrder::tree).staged);
  EXPECT_EQ(words(plan_on_gpus(half, 1, 4)), (Kinds{"nccl"}));  // nothing travels between hosts
  EXPECT_FALSE(plan_on_gpus(half, 1, 4).staged);
  EXPECT_EQ(words(plan_on_gpus(half, 2, 4)), (Kinds{"nccl-mpi"}));
  EXPECT_TRUE(plan_on_gpus(half, 2, 4).staged);  // what a half wire would round
  EXPECT_EQ(words(plan_on_gpus(half, 2, 4, mpi::SumOrder::any, "", 2)), (Kinds{"hierarchical", "mpi"}));
}

TEST(AllReducePlan, TellsWhyNcclCannotBe) {
  const auto refusal = [](const char* word, const std::string& no_nccl) {
    try {
      plan_all_reduce(strategy(word),
                      {.places = places_on(2, 2), .shares_memory = false, .no_nccl = no_nccl});
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal("nccl", "needs a GPU for each rank"),
            "strategy.all_reduce = \"nccl\" needs a GPU for each rank");
  EXPECT_EQ(refusal("auto", "needs a GPU for each rank"), "");
  EXPECT_EQ(refusal("nccl-mpi", ""), "");
}

TEST(AllReducePlan, WantsGroupsOfOneSizeInsideWhichNcclScatters) {
  EXPECT_THROW(plan_on_gpus(strategy("nccl-hierarchical", 3), 2, 2), UserError);
  EXPECT_THROW(plan_on_gpus(strategy("nccl-mpi", 3), 2, 2), UserError);
  EXPECT_EQ(words(plan_on_gpus(strategy("nccl-hierarchical", 2), 1, 4)), (Kinds{"nccl-hierarchical"}));
}

TEST(NoNccl, NeedsABuildAndAGpuForEachRank) {
  mpi::GpuBinding own;
  own.ranks = {{.gpu = {.pci_id = "a"}, .sharing = {0}}, {.gpu = {.pci_id = "b"}, .sharing = {1}}};
  mpi::GpuBinding shared;
  shared.ranks = {{.gpu = {.pci_id = "a"}, .sharing = {0, 1}}, {.gpu = {.pci_id = "a"}, .sharing = {0, 1}}};

  EXPECT_EQ(no_nccl(own, true), "");
  EXPECT_EQ(no_nccl({}, true), "needs device.kind = \"cuda\"");
  EXPECT_TRUE(no_nccl(own, false).starts_with("needs NCCL, and this build has no NCCL"));
  EXPECT_EQ(no_nccl(shared, true),
            "needs a GPU for each rank, but ranks 0 and 1 share one (a); start fewer, or use \"auto\"");
}

}  // namespace
}  // namespace flotilla
