// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/bfloat16_linear.hpp"

#include <utility>

#include "kernels/bfloat16_values.hpp"
#include "kernels/cpu/activation.hpp"
#include "kernels/cpu/descriptors.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

/// destination = source · weights as an operation that takes their addresses, and the destination's.
Operation product(const std::shared_ptr<PrimitiveScope>& scope, const descriptors::Product& of) {
  const auto description = descriptors::product(scope->engine(), of);
  return {scope,
          dnnl::matmul(description),
          description.scratchpad_desc(),
          {{DNNL_ARG_SRC, of.source, of.source},
           {DNNL_ARG_WEIGHTS, of.weights, of.weights},
           {DNNL_ARG_DST, of.destination, of.destination, Flow::out}}};
}

}  // namespace

CpuBfloat16Linear::CpuBfloat16Linear(std::shared_ptr<PrimitiveScope> scope, const LinearSpec& spec)
    : scope_(std::move(scope)), spec_(spec) {
  check_spec(spec);
  scope_->set_threads();
  made("the products of a linear layer", [&] { make_operations(); });
  sums_ = scope_->memory().allocate(static_cast<std::size_t>(spec_.batch * spec_.out));
}

void CpuBfloat16Linear::make_operations() {
  const auto matrix = [](std::int64_t rows, std::int64_t columns, Type type, Tag tag = Tag::ab) {
    return dnnl::memory::desc({rows, columns}, type, tag);
  };
  const auto& [batch, in, out, bias, activation, accumulate] = spec_;
  forward_ = product(scope_, {.source = matrix(batch, in, Type::bf16),
                              .weights = matrix(in, out, Type::bf16, Tag::ba),
                              .destination = matrix(batch, out, Type::f32)});
  weight_gradient_ = product(scope_, {.source = matrix(out, batch, Type::bf16, Tag::ba),
                                      .weights = matrix(batch, in, Type::bf16),
                                      .destination = matrix(out, in, Type::f32),
                                      .add = accumulate});
  input_gradient_ = product(scope_, {.source = matrix(batch, out, Type::bf16),
                                     .weights = matrix(out, in, Type::bf16),
                                     .destination = matrix(batch, in, Type::bf16)});
}

void CpuBfloat16Linear::forward(const Tensor& x, Weights w, Tensor& y) {
  check_forward(spec_, weight_size(), x, w, y);
  check_halves(w);
  float* const sums = sums_.span().address();
  forward_.run({x.span().address(), w.half_weight.address(), sums});
  add_bias_and_activate(scope_->threads(), spec_.activation, spec_.batch, spec_.out,
                        spec_.bias ? w.bias.address() : nullptr, sums, values_as<Bfloat16>(y).address());
}

void CpuBfloat16Linear::backward(const Tensor& x, const Tensor& y, Weights w, Tensor& dy, Gradients dw,
                                 Tensor* dx) {
  check_backward(spec_, weight_size(), x, y, w, dy, dw, dx);
  check_halves(w);
  if (spec_.bias || spec_.activation != Activation::identity) {
    slope_and_bias_gradient(scope_->threads(), spec_.activation, spec_.batch, spec_.out,
                            values_as<Bfloat16>(y).address(), values_as<Bfloat16>(dy).address(),
                            spec_.bias ? dw.bias.address() : nullptr, spec_.accumulate);
  }
  weight_gradient_.run({dy.span().address(), x.span().address(), dw.weight.address()});
  if (dx != nullptr)
    input_gradient_.run({dy.span().address(), w.half_weight.address(), dx->span().address()});
}

void CpuBfloat16Linear::weight_from_plain(std::span<const float> plain, std::span<float> stored) const {
  copy_plain_weight(weight_size(), plain, stored);
}

void CpuBfloat16Linear::weight_to_plain(std::span<const float> stored, std::span<float> plain) const {
  copy_plain_weight(weight_size(), stored, plain);
}

}  // namespace flotilla
