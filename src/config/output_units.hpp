// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "src/config/config.hpp"

namespace flotilla {

/// What the outputs of a model that predicts numbers or labels of 0 and 1 mean: a data set hands over
/// (t − data.target_mean) / data.target_std.
class OutputUnits {
 public:
  /// @param config whose model.loss is not softmax
  explicit OutputUnits(const Config& config);

  std::size_t width() const { return scale_.size(); }  ///< Outputs of a sample
  bool binary() const { return binary_; }
  /// A number in units of the data is output · scale + shift, of each output; is_scaled(): not all are 1 and
  /// 0.
  const std::vector<double>& scales() const { return scale_; }
  const std::vector<double>& shifts() const { return shift_; }
  bool is_scaled() const;
  /// The output in units of the data; with binary() the logit that it is.
  double value(float output, std::size_t number) const;

 private:
  bool binary_;
  std::vector<double> scale_, shift_;
};

}  // namespace flotilla
