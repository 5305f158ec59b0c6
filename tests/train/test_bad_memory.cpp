// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace {

class DisagreeingJob : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DisagreeingJob, testing::Values(2, 3, 4));

TEST_P(DisagreeingJob, IsEndedByTheRankThatDiffers) {
  const std::string command =
      std::string(MPIEXEC) + " -n " + std::to_string(GetParam()) + " " DISAGREEING_JOB " 2>&1";
  std::string output;

  std::FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::array<char, 4096> buffer;
  for (std::size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    output.append(buffer.data(), got);
  const int status = pclose(pipe);

  EXPECT_EQ(WEXITSTATUS(status), 4) << output;
  const std::size_t line = output.find("flotilla: ");
  ASSERT_NE(line, std::string::npos) << output;
  EXPECT_EQ(output.find("flotilla: ", line + 1), std::string::npos) << output;
  EXPECT_NE(
      output.find("flotilla: rank " + std::to_string(GetParam() - 1) + " on test, step 2: holds another"),
      std::string::npos)
      << output;
  EXPECT_NE(output.find("after step 3: the first tensor that differs is "), std::string::npos) << output;
}

}  // namespace
