// SPDX-License-Identifier: Apache-2.0
#include "tests/support/within.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

namespace flotilla::test {
namespace {

/// The largest share of the bound at each place, appended to the file in one piece when the process ends:
/// other ranks and tests append to it too.
class Shares {
 public:
  ~Shares() {
    const char* file = std::getenv("FLOTILLA_BOUND_SHARES");
    if (file == nullptr || largest_.empty()) return;
    std::ostringstream lines;
    for (const auto& [place, share] : largest_) lines << place << ' ' << share << '\n';
    std::ofstream(file, std::ios::app) << lines.str() << std::flush;
  }

  void add(const std::source_location& at, double share) {
    const std::lock_guard lock(mutex_);
    double& largest = largest_[std::string(at.file_name()) + ':' + std::to_string(at.line())];
    largest = std::max(largest, share);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, double> largest_;
};

}  // namespace

testing::AssertionResult within(double actual, double expected, double bound, std::source_location at) {
  static Shares shares;
  double share = actual == expected ? 0.0 : std::abs(actual - expected) / bound;
  if (std::isnan(share) || bound < 0.0) share = std::numeric_limits<double>::infinity();
  shares.add(at, share);
  if (share <= 1.0) return testing::AssertionSuccess();
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);
  text << actual << " differs from " << expected << " by " << actual - expected << ", " << share
       << " times the bound " << bound;
  return testing::AssertionFailure() << text.str();
}

testing::AssertionResult within_float_roundings(double actual, double expected, int roundings,
                                                std::source_location at) {
  return within(actual, expected, roundings * float_rounding * std::abs(expected), at);
}

testing::AssertionResult within_double_roundings(double actual, double expected, int roundings,
                                                 std::source_location at) {
  return within(actual, expected, roundings * double_rounding * std::abs(expected), at);
}

testing::AssertionResult within(const std::vector<float>& actual, const std::vector<float>& expected,
                                double bound, std::source_location at) {
  if (actual.size() != expected.size())
    return testing::AssertionFailure() << actual.size() << " values instead of " << expected.size();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(actual[i]) && std::isnan(expected[i])) continue;
    if (auto result = within(actual[i], expected[i], bound, at); !result) return result << ", element " << i;
  }
  return testing::AssertionSuccess();
}

}  // namespace flotilla::test
