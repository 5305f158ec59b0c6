// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/bfloat16_linear.hpp"

#include <utility>

#include "kernels/onednn/activation.hpp"
#include "kernels/onednn/casts.hpp"
#include "kernels/onednn/descriptors.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

Bfloat16* halves(Storage& storage) {
  return reinterpret_cast<Bfloat16*>(storage.span().address());
}

std::size_t floats_for(std::int64_t halves) {
  return static_cast<std::size_t>((halves + 1) / 2);
}

Operation product(const std::shared_ptr<PrimitiveScope>& scope,
                  const dnnl::matmul::primitive_desc& description) {
  return {scope,
          dnnl::matmul(description),
          description.scratchpad_desc(),
          {{DNNL_ARG_SRC, description.src_desc(), description.src_desc()},
           {DNNL_ARG_WEIGHTS, description.weights_desc(), description.weights_desc()},
           {DNNL_ARG_DST, description.dst_desc(), description.dst_desc(), Flow::out}}};
}

}  // namespace

CpuBfloat16Linear::CpuBfloat16Linear(std::shared_ptr<PrimitiveScope> scope, const LinearSpec& spec)
    : CpuLinear(scope->threads(), spec), scope_(std::move(scope)) {
  scope_->set_threads();
  made("the products of a linear layer", [&] { make_operations(); });
}

void CpuBfloat16Linear::make_operations() {
  const std::int64_t batch = spec().batch;
  const std::int64_t in = spec().in;
  const std::int64_t out = spec().out;
  const auto forward_with = [&](Tag weight) {
    return descriptors::product(scope_->engine(), {.source = {{batch, in}, Type::bf16, Tag::ab},
                                                   .weights = {{in, out}, Type::bf16, weight},
                                                   .destination = {{batch, out}, Type::f32, Tag::ab}});
  };
  auto forward = forward_with(Tag::any);
  packed_ = packed_weight(forward.weights_desc());
  if (!packed_) forward = forward_with(Tag::ab);
  forward_ = product(scope_, forward);
  weight_gradient_ =
      product(scope_, descriptors::product(scope_->engine(), {.source = {{in, batch}, Type::bf16, Tag::ba},
                                                              .weights = {{batch, out}, Type::bf16, Tag::ab},
                                                              .destination = {{in, out}, Type::f32, Tag::ab},
                                                              .add = spec().accumulate}));
  weight_ = scope_->memory().allocate((forward.weights_desc().get_size() + 3) / sizeof(float));
  sums_ = scope_->memory().allocate(static_cast<std::size_t>(batch * out));
}

void CpuBfloat16Linear::make_input_gradient() {
  const std::int64_t batch = spec().batch;
  scope_->set_threads();
  made("the products of a linear layer", [&] {
    input_gradient_ = product(
        scope_,
        descriptors::product(scope_->engine(), {.source = {{batch, spec().out}, Type::bf16, Tag::ab},
                                                .weights = {{spec().out, spec().in}, Type::bf16, Tag::ba},
                                                .destination = {{batch, spec().in}, Type::bf16, Tag::ab}}));
  });
  plain_weight_ = scope_->memory().allocate(floats_for(weight_size()));
}

void CpuBfloat16Linear::forward(const Tensor& x, Weights w, Tensor& y) {
  check_forward(spec(), weight_size(), x, w, y);
  if (packed_) {
    pack(scope_->threads(), *packed_, w.weight.address(), halves(weight_));
  } else {
    round_to_bfloat16(scope_->threads(), weight_size(), w.weight.address(), halves(weight_));
  }
  float* const sums = sums_.span().address();
  forward_.run({x.span().address(), weight_.span().address(), sums});
  add_bias_and_activate(scope_->threads(), spec().activation, spec().batch, spec().out,
                        spec().bias ? w.bias.address() : nullptr, sums, values_as<Bfloat16>(y).address());
}

void CpuBfloat16Linear::backward(const Tensor& x, const Tensor& y, Weights w, Tensor& dy, Gradients dw,
                                 Tensor* dx) {
  check_backward(spec(), weight_size(), x, y, w, dy, dw, dx);
  if (spec().bias || spec().activation != Activation::identity) {
    slope_and_bias_gradient(scope_->threads(), spec().activation, spec().batch, spec().out,
                            values_as<Bfloat16>(y).address(), values_as<Bfloat16>(dy).address(),
                            spec().bias ? dw.bias.address() : nullptr, spec().accumulate);
  }
  weight_gradient_.run({x.span().address(), dy.span().address(), dw.weight.address()});
  if (dx == nullptr) return;
  if (!input_gradient_.made()) make_input_gradient();
  round_to_bfloat16(scope_->threads(), weight_size(), w.weight.address(), halves(plain_weight_));
  input_gradient_.run({dy.span().address(), plain_weight_.span().address(), dx->span().address()});
}

}  // namespace flotilla
