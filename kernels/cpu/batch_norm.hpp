// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "kernels/cpu/norm_passes.hpp"
#include "kernels/cpu/primitive_scope.hpp"
#include "kernels/layers/batch_norm.hpp"

namespace flotilla {

/// BatchNorm as own passes: forward and backward read their inputs twice, and nothing else is kept. The
/// second read hits the cache: both passes are done on a few blocks of channels at a time. T is what tensors
/// hold: float or Bfloat16.
template <class T>
class CpuBatchNorm : public BatchNorm {
 public:
  CpuBatchNorm(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts, const BatchNormSpec& spec);
  void forward(const Tensor& x, const Tensor* residual, ScaleShift w, Statistics batch,
               const RunningStatistics& running, Tensor& y) override;
  void statistics(const Tensor& x, Statistics batch) override;
  void normalise(const Tensor& x, const Tensor* residual, ScaleShift w, GivenStatistics s,
                 Tensor& y) override;
  void backward_sums(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                     const Tensor* more_dy, Tensor* dresidual, ScaleShiftGradients sums) override;
  void backward_data(const Tensor& x, ScaleShift w, GivenStatistics s, GivenStatistics sums, double count,
                     const Tensor& dy, Tensor& dx) override;
  void backward(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                const Tensor* more_dy, ScaleShiftGradients gradients, Tensor& dx, Tensor* dresidual) override;

 private:
  std::size_t channels() const { return static_cast<std::size_t>(layout_.channels); }
  BlockRange all() const { return {0, layout_.blocks}; }
  ImageSums image_sums() const;  // in the scratch memory
  void check(const char* name, const Tensor& tensor) const;
  void check_operands(const Tensor& x, const Tensor* residual, ScaleShift w, GivenStatistics s,
                      const Tensor& y) const;  // of forward and normalise
  void check_sums(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                  const Tensor* more_dy, const Tensor* dresidual, GivenStatistics sums) const;
  double slope(GivenStatistics s, std::size_t channel) const;  // 1 / √(variance + ε)
  template <class Body>
  void for_each_group(int tensors, const Body& body) const;

  // The operations on some blocks of channels, arguments checked.
  NormChannels prepare(BlockRange blocks, ScaleShift w, GivenStatistics s);
  void find_statistics(BlockRange blocks, const Tensor& x, Statistics batch);
  void find_output(BlockRange blocks, const Tensor& x, const Tensor* residual, ScaleShift w,
                   GivenStatistics s, Tensor& y);
  void find_sums(BlockRange blocks, const NormGradient<T>& in, ScaleShift w, GivenStatistics s,
                 Tensor* dresidual, ScaleShiftGradients sums);
  void find_gradient(BlockRange blocks, const Tensor& x, ScaleShift w, GivenStatistics s,
                     GivenStatistics sums, double count, const Tensor& dy, Tensor& dx);

  std::shared_ptr<PrimitiveScope> scope_;
  BatchNormSpec spec_;
  ImageLayout layout_;
  std::vector<float> factors_;     // (C)
  std::vector<float> constants_;   // (C)
  std::vector<float> slopes_;      // (C)
  std::vector<float> local_sums_;  // (2,C): scale, shift
};

}  // namespace flotilla
