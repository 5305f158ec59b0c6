// SPDX-License-Identifier: Apache-2.0
#include "mpi/start/binding.hpp"

#include <gtest/gtest.h>

namespace flotilla::mpi {
namespace {

struct Host {
  int ranks = 1;
  Place each{};
};

/// Ranks placed host by host: h0, h1 …
std::vector<Place> job(const std::vector<Host>& hosts) {
  std::vector<Place> places;
  for (std::size_t host = 0; host < hosts.size(); ++host)
    for (int local = 0; local < hosts[host].ranks; ++local) {
      Place& place = places.emplace_back(hosts[host].each);
      place.rank = static_cast<int>(places.size()) - 1;
      place.host = "h" + std::to_string(host);
      place.host_index = static_cast<int>(host);
      place.local_rank = local;
    }
  return places;
}

using Lines = std::vector<std::string>;

TEST(Binding, FindsNothingWrongWithUsualLaunches) {
  const BindingUse automatic;
  const BindingUse one_thread{.threads = 1};
  // mpirun -n 2 on 2 cores; local.sh there with 2 ranks, and with 1 of 2 threads.
  EXPECT_EQ(binding_warnings(job({{2, {.cores = 1, .host_cores = 2}}}), automatic), Lines{});
  EXPECT_EQ(binding_warnings(job({{2, {.cores = 2, .cores_shared_by = 2, .host_cores = 2}}}), one_thread),
            Lines{});
  EXPECT_EQ(binding_warnings(job({{1, {.cores = 2, .host_cores = 2}}}), {.threads = 2}), Lines{});
  // srun --ntasks-per-node=2 --cpus-per-task=4 on a node of 64, of which the job has 8.
  const Host of_slurm{2, {.cores = 4, .host_cores = 8}};
  EXPECT_EQ(binding_warnings(job({of_slurm, of_slurm, of_slurm}), automatic), Lines{});
  // One rank on a machine of 2 cores, and one of several that leaves some for others on purpose.
  EXPECT_EQ(binding_warnings(job({{1, {.cores = 2, .host_cores = 2}}}), automatic), Lines{});
  EXPECT_EQ(binding_warnings(job({{2, {.cores = 1, .host_cores = 64}}}), one_thread), Lines{});
  // mpirun -n 1 there: one core is left.
  EXPECT_EQ(binding_warnings(job({{1, {.cores = 1, .host_cores = 2}}}), automatic), Lines{});
  // A container with time for all of its threads.
  EXPECT_EQ(
      binding_warnings(
          job({{2, {.cores = 8, .cores_shared_by = 2, .host_cores = 8, .quota = 4.0, .quota_shared_by = 2}}}),
          automatic),
      Lines{});
}

TEST(Binding, FindsRanksOnOneCore) {
  const Lines found = binding_warnings(job({{2, {.cores = 1, .cores_shared_by = 2, .host_cores = 8}}}), {});

  EXPECT_EQ(
      found,
      (Lines{
          "2 ranks on h0 are bound to the same 1 core of 8, which slows each of them down: give every rank "
          "its own (mpirun --map-by slot:PE=1 --bind-to core, srun --cpus-per-task=1)"}));
}

TEST(Binding, FindsMoreRanksThanCores) {
  const Host crowded{4, {.cores = 2, .cores_shared_by = 4, .host_cores = 2}};

  EXPECT_EQ(binding_warnings(job({crowded, crowded}), {}),
            (Lines{"4 ranks on h0 share 2 cores, which slows each of them down: start no more than 2 there "
                   "(mpirun --map-by "
                   "ppr:2:node, srun --ntasks-per-node=2) (the same on h1)"}));
}

TEST(Binding, TellsThatCrowdedRanksHaveToYield) {
  const Lines found =
      binding_warnings(job({{4, {.cores = 2, .cores_shared_by = 4, .host_cores = 2, .yields = false}}}), {});

  ASSERT_EQ(found.size(), 2U);
  EXPECT_NE(found[1].find("set OMPI_MCA_mpi_yield_when_idle=1"), std::string::npos) << found[1];
}

TEST(Binding, FindsThreadsThatDoNotFit) {
  EXPECT_EQ(
      binding_warnings(job({{1, {.cores = 4, .host_cores = 64}}}), {.threads = 8}),
      (Lines{"device.threads = 8, but rank 0 on h0 is bound to 4 cores: threads take turns on them; set "
             "device.threads = 0, which takes what fits, or give each rank more (mpirun --map-by slot:PE=8 "
             "--bind-to core, srun --cpus-per-task=8)"}));
  const Lines shared =
      binding_warnings(job({{2, {.cores = 2, .cores_shared_by = 2, .host_cores = 2}}}), {.threads = 2});
  ASSERT_EQ(shared.size(), 1U);
  EXPECT_EQ(shared[0].find("device.threads = 2, but 2 ranks on h0 share 2 cores: "), 0U) << shared[0];
}

TEST(Binding, FindsCoresThatTheLauncherLeavesIdle) {
  const Host bound{2, {.cores = 1, .host_cores = 64}};

  EXPECT_EQ(
      binding_warnings(job({bound, bound}), {}),
      (Lines{"2 ranks on h0 are bound to 2 of 64 cores, and the others are idle: give each rank more (mpirun "
             "--map-by slot:PE=32 --bind-to core, srun --cpus-per-task=32), or set device.threads to what is "
             "meant (the same on h1)"}));
}

TEST(Binding, FindsLessTimeThanThreads) {
  const Place halted{.cores = 8, .cores_shared_by = 2, .host_cores = 8, .quota = 1.5, .quota_shared_by = 2};

  const Lines found = binding_warnings(job({{2, halted}}), {.threads = 2});

  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(
      found[0].find("the control group on h0 allows 1.5 cores' time, but the ranks under it have 4 threads"),
      0U)
      << found[0];
  EXPECT_EQ(default_threads(halted), 1) << "less than one core's time each";
  EXPECT_EQ(default_threads({.cores = 8, .quota = 3.5}), 3);
}

TEST(Binding, FindsHostsWithFewerRanks) {
  const Place each{.cores = 1, .host_cores = 4};

  EXPECT_EQ(binding_warnings(job({{3, each}, {3, each}, {1, {.cores = 4, .host_cores = 4}}}), {.threads = 1}),
            (Lines{"h2 has 1 rank, h0, h1 have 3: every step waits for the slowest; start as many on each "
                   "host (mpirun "
                   "--map-by ppr:3:node, srun --ntasks-per-node=3)"}));
  EXPECT_EQ(binding_warnings(job({{3, each}, {1, {.cores = 4, .host_cores = 4}}}),
                             {.threads = 1, .steps_together = false}),
            Lines{});
}

TEST(Binding, FindsHostsWithFewerCores) {
  const std::vector<Place> places =
      job({{2, {.cores = 8, .host_cores = 16}}, {2, {.cores = 4, .host_cores = 8}}});

  EXPECT_EQ(binding_warnings(places, {}),
            (Lines{"h1 has 4 cores for a rank, h0 has 8: every step waits for the slowest; take hosts that "
                   "are alike, or "
                   "give each rank 8 (srun --cpus-per-task=8; mpirun: fewer ranks on the small hosts)"}));
  EXPECT_EQ(binding_warnings(places, {.threads = 4}), Lines{});
}

}  // namespace
}  // namespace flotilla::mpi
