// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "kernels/error.hpp"
#include "mpi/start/binding.hpp"
#include "mpi/start/gpu_binding.hpp"
#include "tests/support/messages.hpp"

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

  EXPECT_EQ(found,
            (Lines{"2 ranks on h0 are bound to the same 1 core of 8, which slows each of them down: give "
                   "every rank its own (mpirun --map-by slot:PE=1 --bind-to core, srun --cpus-per-task=1)"}));
}

TEST(Binding, FindsMoreRanksThanCores) {
  const Host crowded{4, {.cores = 2, .cores_shared_by = 4, .host_cores = 2}};

  EXPECT_EQ(binding_warnings(job({crowded, crowded}), {}),
            (Lines{"4 ranks on h0 share 2 cores, which slows each of them down: start no more than 2 there "
                   "(mpirun --map-by ppr:2:node, srun --ntasks-per-node=2) (the same on h1)"}));
}

TEST(Binding, TellsThatCrowdedRanksHaveToYield) {
  const Lines found =
      binding_warnings(job({{4, {.cores = 2, .cores_shared_by = 4, .host_cores = 2, .yields = false}}}), {});

  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(test::mentions(found[1], {"set OMPI_MCA_mpi_yield_when_idle=1"}));
}

TEST(Binding, FindsThreadsThatDoNotFit) {
  EXPECT_EQ(binding_warnings(job({{1, {.cores = 4, .host_cores = 64}}}), {.threads = 8}),
            (Lines{"device.threads = 8, but rank 0 on h0 is bound to 4 cores: threads take turns on them; "
                   "set device.threads = 0, which takes what fits, or give each rank more (mpirun --map-by "
                   "slot:PE=8 --bind-to core, srun --cpus-per-task=8)"}));
  const Lines shared =
      binding_warnings(job({{2, {.cores = 2, .cores_shared_by = 2, .host_cores = 2}}}), {.threads = 2});
  ASSERT_EQ(shared.size(), 1U);
  EXPECT_EQ(shared[0].find("device.threads = 2, but 2 ranks on h0 share 2 cores: "), 0U) << shared[0];
}

TEST(Binding, FindsCoresThatTheLauncherLeavesIdle) {
  const Host bound{2, {.cores = 1, .host_cores = 64}};

  EXPECT_EQ(binding_warnings(job({bound, bound}), {}),
            (Lines{"2 ranks on h0 are bound to 2 of 64 cores, and the others are idle: give each rank more "
                   "(mpirun --map-by slot:PE=32 --bind-to core, srun --cpus-per-task=32), or set "
                   "device.threads to what is meant (the same on h1)"}));
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
                   "host (mpirun --map-by ppr:3:node, srun --ntasks-per-node=3)"}));
  EXPECT_EQ(binding_warnings(job({{3, each}, {1, {.cores = 4, .host_cores = 4}}}),
                             {.threads = 1, .steps_together = false}),
            Lines{});
}

TEST(Binding, FindsHostsWithFewerCores) {
  const std::vector<Place> places =
      job({{2, {.cores = 8, .host_cores = 16}}, {2, {.cores = 4, .host_cores = 8}}});

  EXPECT_EQ(
      binding_warnings(places, {}),
      (Lines{"h1 has 4 cores for a rank, h0 has 8: every step waits for the slowest; take hosts that are "
             "alike, or give each rank 8 (srun --cpus-per-task=8; mpirun: fewer ranks on the small hosts)"}));
  EXPECT_EQ(binding_warnings(places, {.threads = 4}), Lines{});
}

constexpr const char* name = "NVIDIA H100 80GB HBM3";

/// `ranks` on each of `hosts`, numbered host by host.
std::vector<Place> job(int hosts, int ranks) {
  std::vector<Place> places;
  for (int host = 0; host < hosts; ++host)
    for (int local = 0; local < ranks; ++local)
      places.push_back({.rank = host * ranks + local,
                        .host = "h" + std::to_string(host),
                        .host_index = host,
                        .local_rank = local});
  return places;
}

/// A rank that sees the GPUs of these ids; not known what is near.
GpuView sees(const std::vector<std::string>& ids) {
  GpuView view;
  for (const std::string& id : ids) view.gpus.push_back({.name = name, .pci_id = id});
  return view;
}

/// Four GPUs, two next to processors 0 to 3 and two next to 4 to 7, and a rank bound to `own`.
GpuView of_two_sockets(std::vector<int> own) {
  GpuView view = sees({"a", "b", "c", "d"});
  for (std::size_t gpu = 0; gpu < 4; ++gpu)
    view.gpus[gpu].near = gpu < 2 ? std::vector{0, 1, 2, 3} : std::vector{4, 5, 6, 7};
  view.own = std::move(own);
  return view;
}

std::vector<std::string> ids(const GpuBinding& binding) {
  std::vector<std::string> all;
  for (const GpuBinding::Bound& bound : binding.ranks) all.push_back(bound.gpu.pci_id);
  return all;
}

std::vector<int> ordinals(const GpuBinding& binding) {
  std::vector<int> all;
  for (const GpuBinding::Bound& bound : binding.ranks) all.push_back(bound.ordinal);
  return all;
}

std::string refusal(const std::vector<Place>& places, const std::vector<GpuView>& views) {
  return test::error_of([&] { bind_gpus(places, views, false); });
}

using Ids = std::vector<std::string>;

struct Case {
  const char* what;
  std::vector<Ids> seen;  ///< By the ranks of one host
  Ids ids;
  std::vector<int> ordinals;
};

TEST(GpuBinding, GivesEachRankAGpuWhateverTheLauncherShows) {
  const std::vector<Case> cases = {
      {"all see all", {{"a", "b"}, {"a", "b"}}, {"a", "b"}, {0, 1}},
      {"each its own", {{"a"}, {"b"}, {"c"}}, {"a", "b", "c"}, {0, 0, 0}},
      {"more GPUs than ranks", {{"a", "b", "c"}, {"a", "b", "c"}}, {"a", "b"}, {0, 1}},
      {"all, in another order", {{"b", "a"}, {"a", "b"}}, {"b", "a"}, {0, 0}},
      {"two by two", {{"a", "b"}, {"a", "b"}, {"c", "d"}, {"c", "d"}}, {"a", "b", "c", "d"}, {0, 1, 0, 1}},
      {"the first has to make room", {{"a", "b"}, {"a"}}, {"b", "a"}, {1, 0}},
      {"and so does the one that makes room", {{"a", "b"}, {"b", "c"}, {"a"}, {"b"}}, {}, {}},
      {"a chain", {{"a", "b"}, {"b", "c"}, {"a"}}, {"b", "c", "a"}, {1, 1, 0}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    std::vector<GpuView> views;
    for (const Ids& seen : one.seen) views.push_back(sees(seen));
    const std::vector<Place> places = job(1, static_cast<int>(views.size()));
    if (one.ids.empty()) {
      EXPECT_THROW(bind_gpus(places, views, false), UserError);
      continue;
    }

    const GpuBinding binding = bind_gpus(places, views, false);

    EXPECT_EQ(ids(binding), one.ids);
    EXPECT_EQ(ordinals(binding), one.ordinals);
    EXPECT_FALSE(binding.shared());
  }
}

TEST(GpuBinding, KeepsHostsApart) {
  // The same PCI ids on both.
  const GpuBinding binding = bind_gpus(job(2, 2), std::vector(4, sees({"a", "b"})), false);

  EXPECT_EQ(ordinals(binding), (std::vector{0, 1, 0, 1}));
  EXPECT_FALSE(binding.shared());
}

TEST(GpuBinding, FollowsTheOrderOnTheHostNotThatOfTheJob) {
  std::vector<Place> places = job(1, 2);
  std::swap(places[0].local_rank, places[1].local_rank);

  EXPECT_EQ(ordinals(bind_gpus(places, std::vector(2, sees({"a", "b"})), false)), (std::vector{1, 0}));
}

TEST(GpuBinding, PrefersWhatIsNextToTheRanksProcessors) {
  // Ranks are placed as Slurm distributes tasks cyclically over sockets.
  const std::vector<GpuView> views = {of_two_sockets({0, 1}), of_two_sockets({4, 5}), of_two_sockets({2, 3}),
                                      of_two_sockets({6, 7})};

  const GpuBinding binding = bind_gpus(job(1, 4), views, false);

  EXPECT_EQ(ids(binding), (Ids{"a", "c", "b", "d"}));
  EXPECT_EQ(gpu_warnings(job(1, 4), binding), std::vector<std::string>{});
}

TEST(GpuBinding, RefusesRanksThatWouldShareAndNamesThem) {
  EXPECT_EQ(refusal(job(2, 4), std::vector(8, sees({"a", "b"}))),
            "ranks 0 and 2 on h0 would share one GPU (a), which slows each of them down: the 4 ranks there "
            "see 2 GPUs together; start one rank for each (mpirun --map-by ppr:2:node, srun "
            "--ntasks-per-node=2), or allow it with device.share = true");
  EXPECT_EQ(refusal(job(1, 2), {sees({"a"}), sees({"a"})}),
            "ranks 0 and 1 on h0 would share one GPU (a), which slows each of them down: the 2 ranks there "
            "see 1 GPU together; start one rank for each (mpirun --map-by ppr:1:node, srun "
            "--ntasks-per-node=1), or allow it with device.share = true");
}

TEST(GpuBinding, TellsWhereTheLauncherHidesWhatIsThere) {
  EXPECT_EQ(refusal(job(1, 3), {sees({"a"}), sees({"a"}), sees({"b", "c"})}),
            "ranks 0 and 1 on h0 would share one GPU (a), which slows each of them down: the 3 ranks there "
            "see 3 GPUs, but not each one of its own; show every rank all GPUs of its host (srun "
            "--gpu-bind=none with --gpus-per-node=3), or allow it with device.share = true");
}

TEST(GpuBinding, RefusesARankThatSeesNone) {
  const std::string text = refusal(job(1, 2), {sees({"a"}), sees({})});

  EXPECT_TRUE(test::mentions(text, {"rank 1 on h0 sees no GPU"}));
}

TEST(GpuBinding, SharesEvenlyWhereTheDeckAllowsIt) {
  const GpuBinding binding = bind_gpus(job(1, 4), std::vector(4, sees({"a", "b"})), true);

  EXPECT_EQ(ordinals(binding), (std::vector{0, 1, 0, 1}));
  EXPECT_EQ(binding.ranks[2].sharing, (std::vector{0, 2}));
  EXPECT_TRUE(binding.shared());
}

TEST(GpuBinding, SharesNothingThatNeedNotBeShared) {
  const GpuBinding binding = bind_gpus(job(1, 2), {sees({"a", "b"}), sees({"a"})}, true);

  EXPECT_EQ(ids(binding), (Ids{"b", "a"}));
  EXPECT_FALSE(binding.shared());
}

TEST(GpuBinding, WarnsOfARankWhoseProcessorsAreElsewhere) {
  GpuView far = of_two_sockets({4, 5});
  far.gpus.resize(1);

  const std::vector<std::string> warnings = gpu_warnings(job(1, 1), bind_gpus(job(1, 1), {far}, false));

  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].starts_with("rank 0 on h0 is bound to cores 4-5, but its GPU (a) is next to 0-3, "))
      << warnings[0];
}

TEST(GpuBinding, WarnsOfManyInOneLine) {
  GpuView far = of_two_sockets({4});
  far.gpus.resize(2);

  const std::vector<std::string> warnings =
      gpu_warnings(job(2, 2), bind_gpus(job(2, 2), std::vector(4, far), false));

  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].ends_with(" (and 3 ranks more)")) << warnings[0];
}

TEST(GpuBinding, IsToldInALineAndInATable) {
  std::vector<GpuView> views = {of_two_sockets({0, 1}), of_two_sockets({4, 5})};
  const GpuBinding binding = bind_gpus(job(1, 2), views, false);

  EXPECT_EQ(describe_gpus(binding), "2 × NVIDIA H100 80GB HBM3, one for each rank");
  EXPECT_EQ(gpu_table(job(1, 2), binding),
            (std::vector<std::string>{"  rank  host  GPU  PCI id        cores",
                                      "     0  h0      0  a             0-1",
                                      "     1  h0      2  c             4-5"}));
}

TEST(GpuBinding, CountsSharedGpusOnce) {
  std::vector<GpuView> views(4, sees({"a", "b"}));

  EXPECT_EQ(describe_gpus(bind_gpus(job(1, 4), views, true)),
            "2 × NVIDIA H100 80GB HBM3, up to 2 ranks on one");
}

}  // namespace
}  // namespace flotilla::mpi
