// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flotilla {

struct FindRateArguments {
  std::string deck;
  std::vector<std::string> overrides;
  double from = 1e-6;        ///< Learning rate of the first step
  double to = 10.0;          ///< Learning rate of the last step
  std::int64_t steps = 100;  ///< Maximum: the test ends when the loss explodes
  std::string output;        ///< CSV file of the curve; empty: none
};

/// A point of a range test.
struct RatePoint {
  double rate = 0.0;      ///< The optimizer's rate, with the batch's factor
  double loss = 0.0;      ///< Before the step, mean over all workers
  double smoothed = 0.0;  ///< Exponential moving average of the losses, without the bias of its beginning
};

/// The curve of a range test (Smith 2017).
class RateCurve {
 public:
  /// Takes the loss of a step. @returns whether the test goes on: false where the loss is not finite or its
  /// average is more than four times the lowest one
  bool add(double rate, double loss);
  const std::vector<RatePoint>& points() const { return points_; }

  struct Proposal {
    double rate = 0.0;      ///< The lower one of the next two
    double steepest = 0.0;  ///< Rate at which the average falls fastest over ln(rate)
    double lowest = 0.0;    ///< Rate at which the average is lowest
  };
  /// The steepest rate, but at most a tenth of the lowest one. Nothing where the loss did not fall.
  std::optional<Proposal> proposal() const;

 private:
  std::vector<RatePoint> points_;
  double average_ = 0.0;
  double weight_ = 0.0;  ///< Sum of the weights of the losses in average_
  double lowest_ = 0.0;
};

}  // namespace flotilla
