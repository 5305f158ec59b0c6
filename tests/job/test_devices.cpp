// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "src/job/devices.hpp"

namespace flotilla {
namespace {

const std::vector<mpi::Place> places = {{.rank = 0, .host = "old", .host_index = 0},
                                        {.rank = 1, .host = "new1", .host_index = 1},
                                        {.rank = 2, .host = "new2", .host_index = 2}};

TEST(ChoosePrecision, TakesTheDecksWhateverTheProcessorsHave) {
  for (const auto precision : {Precision::float32, Precision::float16, Precision::bfloat16})
    EXPECT_EQ(choose_precision(static_cast<DevicePrecision>(precision), {0, 1, 0}, places), precision);
}

TEST(ChoosePrecision, OfAutoTakesWhatAllProcessorsComputeFaster) {
  EXPECT_EQ(choose_precision(DevicePrecision::automatic, {0, 0, 0}, places), Precision::float32);
  EXPECT_EQ(choose_precision(DevicePrecision::automatic, {1, 1, 1}, places), Precision::bfloat16);
}

TEST(ChoosePrecision, NamesTheHostsThatDiffer) {
  try {
    choose_precision(DevicePrecision::automatic, {0, 1, 1}, places);
    FAIL() << "the processors differ";
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "device.precision = \"auto\": the processors of new1, new2 are faster in bfloat16, those of old are "
        "not; ask for hosts of one kind, or set device.precision = \"float32\"");
  }
}

}  // namespace
}  // namespace flotilla
