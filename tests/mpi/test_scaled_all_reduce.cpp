// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/host_memory.hpp"
#include "kernels/random.hpp"
#include "mpi/all_reduce/all_reduce_kind.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/core/slices.hpp"
#include "mpi/core/topology.hpp"
#include "tests/support/within.hpp"

// Sums over wires with scales: every rank gets the same bits, and nothing is lost for good.

namespace flotilla::mpi {
namespace {

const std::vector<std::size_t> sizes = {0, 1, 7, 255, 257, 1009, 10'007};

struct Way {
  std::string algorithm;
  Wire wire = Wire::int8;
  bool stochastic = true;
  bool in_memory = true;  ///< hierarchical
};

/// An array of this rank, summed over the ranks.
class ScaledSum {
 public:
  ScaledSum(const Way& way, std::size_t count)
      : world_(Communicator::world()),
        host_(world_.split_by_host()),
        storage_(host_, std::max<std::size_t>(1, count)) {
    const AllReduceKind& kind = all_reduce_kind(way.algorithm);
    AllReduceSite site = find_site(find_topology(world_), std::min(2, world_.size()));
    site.groups_in_memory = way.in_memory;
    site.wire = way.wire;
    EXPECT_EQ(why_not(kind, site), "");
    errors_.resize(count);
    data_ = storage_.mine().first(count);
    rounding_ = {.seed = 3, .stochastic = way.stochastic, .array = data_.data(), .errors = errors_};
    sums_ = kind.make({.site = site,
                       .world = world_,
                       .host = host_,
                       .wire = way.wire,
                       .rounding = &rounding_,
                       .window = &storage_});
  }

  std::span<float> data() { return data_; }
  std::vector<float>& errors() { return errors_; }
  Collectives& sums() { return *sums_; }
  const Communicator& world() const { return world_; }
  void fill(std::uint64_t step) {
    Random random(static_cast<std::uint64_t>(world_.rank()) + 1, random_data, step);
    for (float& value : data_) value = static_cast<float>(random.normal());
  }
  std::vector<double> total(std::span<const float> values) const {
    std::vector<double> sum(values.begin(), values.end());
    world_.all_reduce(std::span(sum));
    return sum;
  }
  std::vector<float> sum(std::int64_t step) {
    sums_->all_reduce(device_span(data_), step);
    return {data_.begin(), data_.end()};
  }

 private:
  Communicator world_;
  Communicator host_;
  SharedStorage storage_;
  std::vector<float> errors_;
  std::span<float> data_;
  WireRounding rounding_;
  std::unique_ptr<Collectives> sums_;
};

class ScaledAllReduce : public testing::TestWithParam<Way> {
 protected:
  /// Whether anything is sent over the wire. Groups are of two ranks.
  static bool rounds(int ranks) { return ranks > (GetParam().algorithm == "mpi" ? 1 : 2); }
};
INSTANTIATE_TEST_SUITE_P(Ways, ScaledAllReduce,
                         testing::Values(Way{"mpi", Wire::int8}, Way{"mpi", Wire::fp8}, Way{"mpi", Wire::fp4},
                                         Way{"mpi", Wire::int8, false}, Way{"hierarchical", Wire::int8},
                                         Way{"hierarchical", Wire::fp4, true, false}),
                         [](const auto& test) {
                           return test.param.algorithm + std::string(name(test.param.wire)) +
                                  (test.param.stochastic ? "ByDraws" : "ToTheNearest") +
                                  (test.param.in_memory ? "" : "OverMpi");
                         });

TEST_P(ScaledAllReduce, LosesNothingForGoodAndGivesAllTheSameBits) {
  for (const std::size_t count : sizes) {
    ScaledSum sum(GetParam(), count);
    for (std::int64_t step = 0; step < 5; ++step) {
      sum.fill(static_cast<std::uint64_t>(step));
      const std::vector<double> given = sum.total(sum.data());
      const std::vector<double> before = sum.total(sum.errors());

      const std::vector<float> result = sum.sum(step);

      std::vector<float> roots = result;
      sum.world().broadcast(std::span<float>(roots));
      ASSERT_EQ(result, roots) << count;
      const std::vector<double> after = sum.total(sum.errors());
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_TRUE(test::within(result[i] + after[i], given[i] + before[i], 4e-6 * sum.world().size()))
            << count << " " << i;
    }
  }
}

TEST_P(ScaledAllReduce, ComesNearTheSum) {
  ScaledSum sum(GetParam(), 1009);
  sum.fill(1);
  const std::vector<double> expected = sum.total(sum.data());

  const std::vector<float> result = sum.sum(1);

  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(result[i] - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  const double relative = std::sqrt(error / size);
  EXPECT_LT(relative, GetParam().wire == Wire::fp4 ? 0.5 : 0.06);
  EXPECT_EQ(relative > 1e-4, rounds(sum.world().size()));
}

TEST_P(ScaledAllReduce, DependsOnStepAndSeedOnlyByItsDraws) {
  ScaledSum one(GetParam(), 1009);
  ScaledSum other(GetParam(), 1009);
  one.fill(1);
  other.fill(1);
  const std::vector<float> result = one.sum(7);

  EXPECT_EQ(other.sum(7), result);
  EXPECT_EQ(other.errors(), one.errors());
  other.fill(1);
  std::ranges::fill(other.errors(), 0.0F);
  EXPECT_EQ(other.sum(8) != result, rounds(one.world().size()) && GetParam().stochastic);
}

TEST_P(ScaledAllReduce, TellsAllOfAValueThatIsNotFinite) {
  ScaledSum sum(GetParam(), 1009);
  sum.fill(1);
  if (sum.world().rank() == sum.world().size() - 1) sum.data()[500] = std::numeric_limits<float>::infinity();

  const std::vector<float> result = sum.sum(1);

  EXPECT_FALSE(std::isfinite(result[500]));
  EXPECT_TRUE(std::isfinite(result[0]));
  for (const float error : sum.errors()) ASSERT_TRUE(std::isfinite(error));
}

TEST(ScaledAllReduces, SendTheBytesOfTheirSlices) {
  for (const Wire wire : {Wire::int8, Wire::fp8, Wire::fp4}) {
    for (const std::size_t count : sizes) {
      ScaledSum sum({"mpi", wire}, count);
      const int ranks = sum.world().size();
      const std::size_t bits = wire == Wire::fp4 ? 4 : 8;
      std::size_t bytes = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const SliceBounds slice = slice_of(0, count, rank, ranks);
        const std::size_t values = slice.end - slice.begin;
        const std::size_t message = (values * bits + 7) / 8 + 4 * ((values + 255) / 256);
        bytes += rank == sum.world().rank() ? static_cast<std::size_t>(ranks - 1) * message : message;
      }
      EXPECT_EQ(sum.sums().sent_bytes(count), ranks == 1 ? 0 : bytes) << count;
    }
  }
}

TEST(ScaledAllReduces, LeaveOneRankAlone) {
  if (Communicator::world().size() > 1) GTEST_SKIP() << "nothing is rounded where nothing is sent";
  ScaledSum sum({"mpi", Wire::fp4}, 7);
  sum.fill(1);
  const std::vector<float> before(sum.data().begin(), sum.data().end());

  EXPECT_EQ(sum.sum(1), before);
}

TEST(ScaledAllReduces, AreRefusedWhereRanksReadEachOthersMemory) {
  AllReduceSite site = find_site(find_topology(Communicator::world()), 0);
  site.wire = Wire::fp4;
  EXPECT_EQ(
      why_not(all_reduce_kind("shared-memory"), site),
      "strategy.all_reduce = \"shared-memory\" cannot send values as strategy.wire = \"fp4\": use \"auto\", "
      "\"hierarchical\" or \"mpi\"");
  for (const AllReduceKind* const kind : worth_measuring(site)) EXPECT_TRUE(kind->carries(Wire::fp4));
}

}  // namespace
}  // namespace flotilla::mpi
