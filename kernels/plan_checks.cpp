// SPDX-License-Identifier: Apache-2.0
#include "kernels/plan_checks.hpp"

#include <algorithm>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

void check_matrix(const char* name, const Tensor& tensor, std::int64_t rows, std::int64_t columns) {
  // Two halves share a float.
  require(tensor.shape().size() == rows * columns &&
              2 * tensor.span().size() >= static_cast<std::size_t>(rows * columns),
          name, " must hold ", rows, "x", columns, " values, has ", tensor.shape().text());
}

void check_size(const char* name, std::size_t size, std::int64_t expected) {
  require(size == static_cast<std::size_t>(expected), name, " must hold ", expected, " values, has ", size);
}

void check_labels(const SoftmaxLossSpec& spec, std::int64_t valid, std::span<const std::int32_t> labels) {
  require(labels.size() >= static_cast<std::size_t>(valid), "labels for ", labels.size(), " of ", valid,
          " rows");
  for (std::size_t n = 0; n < static_cast<std::size_t>(valid); ++n) {
    require(labels[n] >= 0 && labels[n] < spec.classes, "label ", labels[n], " of row ", n, " is not in 0 … ",
            spec.classes - 1);
  }
}

}  // namespace

void check_spec(const LinearSpec& spec) {
  require(spec.batch > 0 && spec.in > 0 && spec.out > 0, "a linear layer needs positive sizes, got batch ",
          spec.batch, ", in ", spec.in, ", out ", spec.out);
  require(has_slope_of_value(spec.activation),
          "a linear layer takes along only an activation whose slope follows from its value");
}

void check_spec(const LayerNormSpec& spec) {
  require(spec.rows > 0 && spec.columns > 0 && spec.epsilon > 0.0F,
          "layer norm needs positive sizes and a positive epsilon, got ", spec.rows, ", ", spec.columns,
          " and ", spec.epsilon);
}

void check_layer_norm(const LayerNormSpec& spec, std::initializer_list<const Tensor*> tensors,
                      const ScaleShift& pair) {
  for (const Tensor* tensor : tensors) {
    check_matrix("a tensor of layer norm", *tensor, spec.rows, spec.columns);
    require(tensor->layout() == nullptr, "layer norm takes plain tensors only");
  }
  check_size("layer norm's scale", pair.first.size(), spec.columns);
  check_size("layer norm's shift", pair.second.size(), spec.columns);
}

void check_spec(const SoftmaxLossSpec& spec) {
  require(spec.batch > 0 && spec.classes > 0, "a loss needs positive sizes, got batch ", spec.batch,
          ", classes ", spec.classes);
  require(spec.label_smoothing >= 0.0F && spec.label_smoothing < 1.0F,
          "label smoothing must be in [0, 1), got ", spec.label_smoothing);
  if (spec.class_weights.empty()) return;
  check_size("the weights of classes", spec.class_weights.size(), spec.classes);
  require(spec.label_smoothing == 0.0F, "label smoothing and weights of classes exclude each other");
}

void check_forward(const LinearSpec& spec, std::int64_t weight_size, const Tensor& x, const Weights& w,
                   const Tensor& y) {
  check_matrix("x", x, spec.batch, spec.in);
  check_matrix("y", y, spec.batch, spec.out);
  check_size("the weight", w.weight.size(), weight_size);
  check_size("the bias", w.bias.size(), spec.bias ? spec.out : 0);
}

void check_backward(const LinearSpec& spec, std::int64_t weight_size, const Tensor& x, const Tensor& y,
                    const Weights& w, const Tensor& dy, const Gradients& dw, const Tensor* dx) {
  check_forward(spec, weight_size, x, w, y);
  check_matrix("dy", dy, spec.batch, spec.out);
  check_size("the weight's gradient", dw.weight.size(), weight_size);
  check_size("the bias' gradient", dw.bias.size(), spec.bias ? spec.out : 0);
  if (dx != nullptr) check_matrix("dx", *dx, spec.batch, spec.in);
}

void check_halves(const Weights& w) {
  check_size("the weight in half precision", w.half_weight.size(),
             static_cast<std::int64_t>(w.weight.size()));
}

void check_weight_copy(std::int64_t plain_size, std::int64_t stored_size, std::size_t plain,
                       std::size_t stored) {
  check_size("the plain weight", plain, plain_size);
  check_size("the stored weight", stored, stored_size);
}

void copy_plain_weight(std::int64_t size, std::span<const float> from, std::span<float> to) {
  check_weight_copy(size, size, from.size(), to.size());
  std::ranges::copy(from, to.begin());
}

void check_loss(const SoftmaxLossSpec& spec, const Tensor& logits, const Targets& targets) {
  check_matrix("the logits", logits, spec.batch, spec.classes);
  check_targets(spec, targets);
}

void check_targets(const SoftmaxLossSpec& spec, const Targets& targets) {
  require(targets.valid >= 0 && targets.valid <= spec.batch, "valid rows must be in 0 … ", spec.batch,
          ", got ", targets.valid);
  require(targets.other_share >= 0.0F && targets.other_share <= 1.0F,
          "the other labels' share must be in [0, 1], got ", targets.other_share);
  check_labels(spec, targets.valid, targets.labels);
  if (targets.other_share > 0.0F) check_labels(spec, targets.valid, targets.other_labels);
}

void check_spec(const OutputLossSpec& spec) {
  require(spec.batch > 0 && spec.outputs > 0, "a loss needs positive sizes, got batch ", spec.batch,
          ", outputs ", spec.outputs);
  require(spec.function.delta > 0.0F, "the delta of a loss must be positive, got ", spec.function.delta);
}

void check_loss(const OutputLossSpec& spec, const Tensor& outputs, const Targets& targets) {
  check_matrix("the outputs", outputs, spec.batch, spec.outputs);
  check_targets(spec, targets);
}

void check_targets(const OutputLossSpec& spec, const Targets& targets) {
  require(targets.valid >= 0 && targets.valid <= spec.batch, "valid rows must be in 0 … ", spec.batch,
          ", got ", targets.valid);
  require(targets.other_share == 0.0F, "targets that are numbers are not mixed");
  require(targets.values.size() >= static_cast<std::size_t>(targets.valid * spec.outputs), "targets of ",
          targets.values.size(), " numbers for ", targets.valid, " rows of ", spec.outputs);
}

void check_bytes(const ByteImages& images, const Tensor& to) {
  const Shape& shape = images.shape;
  require(shape.rank() == 4 && shape[1] <= 4, "images of bytes have up to 4 channels, not ", shape.text());
  check_size("a staged batch of bytes", images.pixels.size(), shape.size());
  require(to.shape() == shape || to.shape() == Shape({shape[0], shape.size() / shape[0]}), "images ",
          shape.text(), " cannot be staged as ", to.shape().text());
}

}  // namespace flotilla
