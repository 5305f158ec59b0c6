// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>

#include "kernels/host_batch.hpp"
#include "kernels/layers/layer_norm.hpp"
#include "kernels/layers/linear.hpp"
#include "kernels/layers/output_loss.hpp"
#include "kernels/layers/softmax_loss.hpp"

/// Checks of arguments for all devices in host memory. All throw InternalError naming the wrong value.
namespace flotilla {

void check_spec(const LinearSpec& spec);       ///< Positive sizes.
void check_spec(const SoftmaxLossSpec& spec);  ///< Positive sizes, smoothing in [0, 1).
void check_spec(const OutputLossSpec& spec);   ///< Positive sizes and δ.
void check_spec(const LayerNormSpec& spec);    ///< Positive sizes and epsilon.
/// Plain tensors of rows · columns values, and a value of each half of the pair for each column.
void check_layer_norm(const LayerNormSpec& spec, std::initializer_list<const Tensor*> tensors,
                      const ScaleShift& pair);
void check_forward(const LinearSpec& spec, std::int64_t weight_size, const Tensor& x, const Weights& w,
                   const Tensor& y);
void check_backward(const LinearSpec& spec, std::int64_t weight_size, const Tensor& x, const Tensor& y,
                    const Weights& w, const Tensor& dy, const Gradients& dw, const Tensor* dx);
void check_halves(const Weights& w);  ///< A half for each value of the weight.
void check_weight_copy(std::int64_t plain_size, std::int64_t stored_size, std::size_t plain,
                       std::size_t stored);
/// weight_from_plain and weight_to_plain of the devices that store weights plain.
void copy_plain_weight(std::int64_t size, std::span<const float> from, std::span<float> to);
/// The valid rows are within the batch, each has a label in 0 … classes − 1, and with mixup a second one.
void check_targets(const SoftmaxLossSpec& spec, const Targets& targets);
/// The targets as check_targets() does, and that the logits are (batch, classes).
void check_loss(const SoftmaxLossSpec& spec, const Tensor& logits, const Targets& targets);
/// The valid rows are within the batch, each has a number for each output, and nothing is mixed.
void check_targets(const OutputLossSpec& spec, const Targets& targets);
/// The targets as check_targets() does, and that the outputs are (batch, outputs).
void check_loss(const OutputLossSpec& spec, const Tensor& outputs, const Targets& targets);

/// A byte for each value of `to`, which has the images' shape or one row for each of them.
void check_bytes(const ByteImages& images, const Tensor& to);

}  // namespace flotilla
