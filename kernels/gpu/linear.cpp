// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/linear.hpp"

#include <utility>

#include "kernels/gpu/loops/loop_tensors.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

const LinearSpec& checked(const LinearSpec& spec) {
  check_spec(spec);
  return spec;
}

// Plain tensors as cuBLAS sees them: y = W x with W (O,I) read as its transpose.
CudaMatrix input(const LinearSpec& s, Precision p) {
  return {.rows = s.in, .columns = s.batch, .precision = p};
}
CudaMatrix output(const LinearSpec& s, Precision p) {
  return {.rows = s.out, .columns = s.batch, .precision = p};
}
CudaMatrix weight(const LinearSpec& s, Precision p) {
  return {.rows = s.in, .columns = s.out, .precision = p};
}
CudaMatrix transposed(CudaMatrix matrix) {
  matrix.transposed = true;
  return matrix;
}

/// Whether the product itself applies the activation.
bool rides_along(const LinearSpec& s) {
  return s.bias && s.activation == Activation::relu;
}

}  // namespace

CudaLinear::CudaLinear(std::shared_ptr<CudaScope> scope, const LinearSpec& spec)
    : scope_(std::move(scope)),
      spec_(checked(spec)),
      forward_(scope_, {.a = transposed(weight(spec, scope_->precision())),
                        .b = input(spec, scope_->precision()),
                        .result = scope_->precision(),
                        .bias = spec.bias,
                        .relu = rides_along(spec)}),
      weight_gradient_(scope_, {.a = input(spec, scope_->precision()),
                                .b = transposed(output(spec, scope_->precision()))}),
      input_gradient_(scope_, {.a = weight(spec, scope_->precision()),
                               .b = output(spec, scope_->precision()),
                               .result = scope_->precision()}) {}

void CudaLinear::forward(const Tensor& x, Weights w, Tensor& y) {
  check_forward(spec_, weight_size(), x, w, y);
  const bool fused = forward_.applies_bias();
  forward_.run(operand_of(w.weight, w.half_weight, scope_->precision()), x.span().address(), 0.0F,
               y.span().address(), fused ? operand_of(w.bias, w.half_bias, scope_->precision()) : nullptr);
  const DeviceSpan<const float> bias = fused ? DeviceSpan<const float>() : w.bias;
  const bool activated = spec_.activation == Activation::identity || (fused && rides_along(spec_));
  if (!bias.empty() || !activated)
    scope_->passes().bias_activation(spec_.activation, spec_.out, bias, values_of(y, scope_->precision()));
}

void CudaLinear::backward(const Tensor& x, const Tensor& y, Weights w, Tensor& dy, Gradients dw, Tensor* dx) {
  check_backward(spec_, weight_size(), x, y, w, dy, dw, dx);
  if (spec_.bias || spec_.activation != Activation::identity) {
    scope_->passes().bias_activation_backward(spec_.activation, spec_.out, values_of(y, scope_->precision()),
                                              values_of(dy, scope_->precision()), dw.bias, spec_.accumulate);
  }
  weight_gradient_.run(x.span().address(), dy.span().address(), spec_.accumulate ? 1.0F : 0.0F,
                       dw.weight.address());
  if (dx == nullptr) return;
  input_gradient_.run(operand_of(w.weight, w.half_weight, scope_->precision()), dy.span().address(), 0.0F,
                      dx->span().address());
}

void CudaLinear::weight_from_plain(std::span<const float> plain, std::span<float> stored) const {
  copy_plain_weight(weight_size(), plain, stored);
}

void CudaLinear::weight_to_plain(std::span<const float> stored, std::span<float> plain) const {
  copy_plain_weight(weight_size(), stored, plain);
}

}  // namespace flotilla
