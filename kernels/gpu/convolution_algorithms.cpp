// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/convolution_algorithms.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/gpu/loops/loop_tensors.hpp"
#include "kernels/half_rounding.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/random.hpp"

namespace flotilla {

namespace {

cudnnDataType_t type_of(Precision precision) {
  switch (precision) {
    case Precision::float32: return CUDNN_DATA_FLOAT;
    case Precision::float16: return CUDNN_DATA_HALF;
    case Precision::bfloat16: return CUDNN_DATA_BFLOAT16;
  }
  throw InternalError("a precision that cuDNN does not know");
}

int narrow(std::int64_t extent) {
  const auto value = static_cast<int>(extent);
  require(value == extent, "cuDNN takes extents below 2^31, got ", extent);
  return value;
}

TensorDescriptor image(const Shape& shape, Precision precision) {
  check_32_bit_size("cuDNN", shape);
  auto made = created<TensorDescriptor>("cudnnCreateTensorDescriptor", cudnnCreateTensorDescriptor);
  check(cudnnSetTensor4dDescriptor(made.get(), CUDNN_TENSOR_NHWC, type_of(precision), narrow(shape[0]),
                                   narrow(shape[1]), narrow(shape[2]), narrow(shape[3])),
        "cudnnSetTensor4dDescriptor");
  return made;
}

FilterDescriptor filter(const Conv2dSpec& s, Precision precision) {
  auto made = created<FilterDescriptor>("cudnnCreateFilterDescriptor", cudnnCreateFilterDescriptor);
  check(cudnnSetFilter4dDescriptor(made.get(), type_of(precision), CUDNN_TENSOR_NHWC, narrow(s.out_channels),
                                   narrow(s.input[1] / s.groups), narrow(s.kernel), narrow(s.kernel)),
        "cudnnSetFilter4dDescriptor");
  return made;
}

/// cuDNN calls the convolution of neural networks a cross-correlation: the filter is not flipped.
ConvolutionDescriptor convolution(const Conv2dSpec& s) {
  auto made =
      created<ConvolutionDescriptor>("cudnnCreateConvolutionDescriptor", cudnnCreateConvolutionDescriptor);
  check(cudnnSetConvolution2dDescriptor(made.get(), narrow(s.padding), narrow(s.padding), narrow(s.stride),
                                        narrow(s.stride), 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "cudnnSetConvolution2dDescriptor");
  check(cudnnSetConvolutionGroupCount(made.get(), narrow(s.groups)), "cudnnSetConvolutionGroupCount");
  return made;
}

void set_math(cudnnConvolutionDescriptor_t convolution, cudnnMathType_t math) {
  check(cudnnSetConvolutionMathType(convolution, math), "cudnnSetConvolutionMathType");
}

/// Whether the arithmetic is float32 without TF32: it must stay so even if another one is measured to be
/// faster.
bool exact(const CudaScope& scope) {
  return !is_half(scope.precision()) && scope.tf32() == Tf32::none;
}

/// The first of the candidates, which come fastest first, that may be used. `workspace_of(algorithm, &bytes)`
/// asks cuDNN, which also says whether the algorithm can do with the arithmetic.
template <class Algorithm, class Candidate, class WorkspaceOf>
ChosenAlgorithm<Algorithm> first_usable(const CudaScope& scope, const Conv2dSpec& spec, const char* pass,
                                        std::span<const Candidate> candidates,
                                        cudnnConvolutionDescriptor_t convolution,
                                        const WorkspaceOf& workspace_of) {
  for (const Candidate& candidate : candidates) {
    if (candidate.status != CUDNN_STATUS_SUCCESS) continue;
    if (scope.reproducible() && candidate.determinism != CUDNN_DETERMINISTIC) continue;
    ChosenAlgorithm<Algorithm> chosen{candidate.algo, exact(scope) ? CUDNN_FMA_MATH : candidate.mathType, 0};
    set_math(convolution, chosen.math);
    if (workspace_of(chosen.algorithm, &chosen.workspace) != CUDNN_STATUS_SUCCESS) continue;
    if (chosen.workspace <= scope.workspace_limit()) return chosen;
  }
  throw LibraryError(
      "cuDNN's choice of an algorithm",
      cat("none for the ", pass, " pass of a convolution of ", spec.input.text(), " to ", spec.out_channels,
          " channels, kernel ", spec.kernel, ", within ", scope.workspace_limit() >> 20U,
          " MiB (device.workspace_mb)", scope.reproducible() ? " that always gives the same bits" : ""));
}

/// Random numbers in [−1, 1): with zeros a GPU draws less power, and is faster by more for some algorithms
/// than for others.
void fill_with_random_values(CudaScope& scope, Storage& storage) {
  constexpr std::size_t words = 1U << 14U;  // uploaded, then copied repeatedly to fill the rest
  std::vector<float> random(is_half(scope.precision()) ? 2 * words : words);
  Random(0, random_data).fill(random);
  for (float& value : random) value = 2.0F * value - 1.0F;
  if (is_half(scope.precision())) {
    for (std::size_t word = 0; word < words; ++word) {
      std::array<std::uint16_t, 2> pair{};
      for (std::size_t i = 0; i < pair.size(); ++i)
        pair[i] = scope.precision() == Precision::float16 ? half::float16_of(random[2 * word + i])
                                                          : half::bfloat16_of(random[2 * word + i]);
      random[word] = std::bit_cast<float>(pair);
    }
  }
  const DeviceSpan<float> all = storage.span();
  std::size_t done = std::min(words, all.size());
  scope.uploads().copy(std::span<const float>(random).first(done), all.subspan(0, done));
  while (done < all.size()) {
    const std::size_t more = std::min(done, all.size() - done);
    scope.loops().flat().copy(all.subspan(0, more), all.subspan(done, more));
    done += more;
  }
}

/// Memory to measure in; none where nothing is measured.
struct Operands {
  Operands() = default;
  Operands(CudaScope& scope, const Conv2dSpec& s)
      : x(scope.memory().allocate(floats_of(s.input.size(), scope.precision()))),
        y(scope.memory().allocate(floats_of(output_shape(s).size(), scope.precision()))),
        weight(scope.memory().allocate(
            floats_of(s.out_channels * s.input[1] / s.groups * s.kernel * s.kernel, scope.precision()))),
        workspace(scope.memory().scratch(scope.workspace_limit() / sizeof(float))) {
    for (Storage* const operand : {&x, &y, &weight}) fill_with_random_values(scope, *operand);
    scope.submit();
  }

  void* address_of(Storage& storage) const { return storage.span().address(); }
  std::size_t workspace_bytes() const { return workspace.size() * sizeof(float); }

  Storage x;
  Storage y;
  Storage weight;
  Storage workspace;
};

constexpr std::size_t max_candidates = 16;  // There are 8 kinds at most, some in two arithmetics.

template <class Candidate>
struct Candidates {
  std::span<const Candidate> found() const { return std::span(list).first(static_cast<std::size_t>(count)); }

  std::array<Candidate, max_candidates> list{};
  int count = 0;
};

/// Measures, and measures again: the first time the libraries load their kernels and the GPU is not yet at
/// its usual clock.
template <class Measure>
void measure_warm(const Measure& measure, const char* call) {
  for (int round = 0; round < 2; ++round) check(measure(), call);
}

ChosenAlgorithm<cudnnConvolutionFwdAlgo_t> choose_forward(CudaScope& scope, const Conv2dSpec& spec,
                                                          const ConvolutionDescriptors& d, Operands& o) {
  Candidates<cudnnConvolutionFwdAlgoPerf_t> candidates;
  if (scope.reproducible()) {
    check(cudnnGetConvolutionForwardAlgorithm_v7(scope.cudnn(), d.x.get(), d.weight.get(), d.forward.get(),
                                                 d.y.get(), max_candidates, &candidates.count,
                                                 candidates.list.data()),
          "cudnnGetConvolutionForwardAlgorithm_v7");
  } else {
    measure_warm(
        [&] {
          return cudnnFindConvolutionForwardAlgorithmEx(
              scope.cudnn(), d.x.get(), o.address_of(o.x), d.weight.get(), o.address_of(o.weight),
              d.forward.get(), d.y.get(), o.address_of(o.y), max_candidates, &candidates.count,
              candidates.list.data(), o.address_of(o.workspace), o.workspace_bytes());
        },
        "cudnnFindConvolutionForwardAlgorithmEx");
  }
  return first_usable<cudnnConvolutionFwdAlgo_t>(
      scope, spec, "forward", candidates.found(), d.forward.get(), [&](auto algorithm, std::size_t* bytes) {
        return cudnnGetConvolutionForwardWorkspaceSize(scope.cudnn(), d.x.get(), d.weight.get(),
                                                       d.forward.get(), d.y.get(), algorithm, bytes);
      });
}

ChosenAlgorithm<cudnnConvolutionBwdDataAlgo_t> choose_backward_data(CudaScope& scope, const Conv2dSpec& spec,
                                                                    const ConvolutionDescriptors& d,
                                                                    Operands& o) {
  Candidates<cudnnConvolutionBwdDataAlgoPerf_t> candidates;
  if (scope.reproducible()) {
    check(cudnnGetConvolutionBackwardDataAlgorithm_v7(scope.cudnn(), d.weight.get(), d.y.get(),
                                                      d.backward_data.get(), d.x.get(), max_candidates,
                                                      &candidates.count, candidates.list.data()),
          "cudnnGetConvolutionBackwardDataAlgorithm_v7");
  } else {
    measure_warm(
        [&] {
          return cudnnFindConvolutionBackwardDataAlgorithmEx(
              scope.cudnn(), d.weight.get(), o.address_of(o.weight), d.y.get(), o.address_of(o.y),
              d.backward_data.get(), d.x.get(), o.address_of(o.x), max_candidates, &candidates.count,
              candidates.list.data(), o.address_of(o.workspace), o.workspace_bytes());
        },
        "cudnnFindConvolutionBackwardDataAlgorithmEx");
  }
  return first_usable<cudnnConvolutionBwdDataAlgo_t>(
      scope, spec, "backward data", candidates.found(), d.backward_data.get(),
      [&](auto algorithm, std::size_t* bytes) {
        return cudnnGetConvolutionBackwardDataWorkspaceSize(
            scope.cudnn(), d.weight.get(), d.y.get(), d.backward_data.get(), d.x.get(), algorithm, bytes);
      });
}

ChosenAlgorithm<cudnnConvolutionBwdFilterAlgo_t> choose_backward_weights(CudaScope& scope,
                                                                         const Conv2dSpec& spec,
                                                                         const ConvolutionDescriptors& d,
                                                                         Operands& o) {
  Candidates<cudnnConvolutionBwdFilterAlgoPerf_t> candidates;
  if (scope.reproducible()) {
    check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
              scope.cudnn(), d.x.get(), d.y.get(), d.backward_weights.get(), d.weight.get(), max_candidates,
              &candidates.count, candidates.list.data()),
          "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
  } else {
    measure_warm(
        [&] {
          return cudnnFindConvolutionBackwardFilterAlgorithmEx(
              scope.cudnn(), d.x.get(), o.address_of(o.x), d.y.get(), o.address_of(o.y),
              d.backward_weights.get(), d.weight.get(), o.address_of(o.weight), max_candidates,
              &candidates.count, candidates.list.data(), o.address_of(o.workspace), o.workspace_bytes());
        },
        "cudnnFindConvolutionBackwardFilterAlgorithmEx");
  }
  return first_usable<cudnnConvolutionBwdFilterAlgo_t>(
      scope, spec, "backward weights", candidates.found(), d.backward_weights.get(),
      [&](auto algorithm, std::size_t* bytes) {
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(
            scope.cudnn(), d.x.get(), d.y.get(), d.backward_weights.get(), d.weight.get(), algorithm, bytes);
      });
}

std::vector<std::int64_t> key_of(const Conv2dSpec& s) {
  return {s.input[0], s.input[1], s.input[2], s.input[3], s.out_channels,
          s.kernel,   s.stride,   s.padding,  s.groups,   std::int64_t{s.input_gradient}};
}

}  // namespace

ConvolutionDescriptors::ConvolutionDescriptors(const Conv2dSpec& spec, Precision precision)
    : x(image(spec.input, precision)),
      y(image(output_shape(spec), precision)),
      weight(filter(spec, precision)),
      forward(convolution(spec)),
      backward_data(convolution(spec)),
      backward_weights(convolution(spec)) {}

AlgorithmChoice::AlgorithmChoice(std::shared_ptr<CudaScope> scope) : scope_(std::move(scope)) {}

const ConvolutionAlgorithms& AlgorithmChoice::of(const Conv2dSpec& spec) {
  const std::vector<std::int64_t> key = key_of(spec);
  const auto known = chosen_.find(key);
  if (known != chosen_.end()) return known->second;
  const ConvolutionDescriptors descriptors(spec, scope_->precision());
  // The math types allowed; a measurement reports which one each algorithm used.
  const cudnnMathType_t math = exact(*scope_)                 ? CUDNN_FMA_MATH
                               : is_half(scope_->precision()) ? CUDNN_TENSOR_OP_MATH
                                                              : CUDNN_DEFAULT_MATH;
  set_math(descriptors.forward.get(), math);
  set_math(descriptors.backward_data.get(), math);
  set_math(descriptors.backward_weights.get(), math);
  Operands operands = scope_->reproducible() ? Operands() : Operands(*scope_, spec);
  ConvolutionAlgorithms chosen;
  chosen.forward = choose_forward(*scope_, spec, descriptors, operands);
  if (spec.input_gradient) chosen.backward_data = choose_backward_data(*scope_, spec, descriptors, operands);
  chosen.backward_weights = choose_backward_weights(*scope_, spec, descriptors, operands);
  return chosen_.emplace(key, chosen).first->second;
}

}  // namespace flotilla
