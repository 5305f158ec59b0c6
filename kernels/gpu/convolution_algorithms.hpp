// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "kernels/gpu/scope.hpp"

namespace flotilla {

/// cuDNN's descriptors of a convolution: NHWC images, (O,K,K,I/groups) weights, all of one precision.
struct ConvolutionDescriptors {
  ConvolutionDescriptors(const Conv2dSpec& spec, Precision precision);

  TensorDescriptor x;
  TensorDescriptor y;
  FilterDescriptor weight;
  // One for each pass: they hold the kind of arithmetic.
  ConvolutionDescriptor forward;
  ConvolutionDescriptor backward_data;
  ConvolutionDescriptor backward_weights;
};

template <class Algorithm>
struct ChosenAlgorithm {
  Algorithm algorithm{};
  cudnnMathType_t math{};
  std::size_t workspace = 0;  ///< bytes
};

struct ConvolutionAlgorithms {
  ChosenAlgorithm<cudnnConvolutionFwdAlgo_t> forward;
  ChosenAlgorithm<cudnnConvolutionBwdDataAlgo_t> backward_data;  ///< Only with an input gradient
  ChosenAlgorithm<cudnnConvolutionBwdFilterAlgo_t> backward_weights;
};

/// Chooses the algorithms for convolutions on a GPU, once for each shape. The fastest of a measurement of
/// those whose workspace is allowed; or, reproducible, the first in cuDNN's own ranking that always gives the
/// same bits, since two measurements may end differently.
class AlgorithmChoice {
 public:
  explicit AlgorithmChoice(std::shared_ptr<CudaScope> scope);
  /// @throws LibraryError if none is left.
  const ConvolutionAlgorithms& of(const Conv2dSpec& spec);

 private:
  std::shared_ptr<CudaScope> scope_;
  std::map<std::vector<std::int64_t>, ConvolutionAlgorithms> chosen_;
};

}  // namespace flotilla
