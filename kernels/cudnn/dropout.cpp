// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/loop_plans.hpp"

#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"

namespace flotilla {

namespace {

class LoopsDropout : public Dropout {
 public:
  LoopsDropout(const LoopsContext& context, const DropoutSpec& spec) : context_(context), spec_(spec) {
    check_spec(spec);
  }
  void forward(std::uint64_t step, const Tensor& x, Tensor& y) override { mask(step, x, y); }
  void backward(std::uint64_t step, const Tensor& dy, Tensor& dx) override { mask(step, dy, dx); }

 private:
  void mask(std::uint64_t step, const Tensor& from, Tensor& to) {
    check_shape("dropout's input", from, spec_.input);
    check_shape("dropout's output", to, spec_.input);
    require(from.layout() == nullptr && to.layout() == nullptr, "dropout takes plain tensors only");
    require(step < (std::uint64_t{1} << 40), "dropout's step must be below 2^40, got ", step);
    context_.loops.dropout(spec_, step, values_of(from, context_.precision),
                           values_of(to, context_.precision));
  }

  LoopsContext context_;
  DropoutSpec spec_;
};

}  // namespace

std::unique_ptr<Dropout> make_dropout(const LoopsContext& context, const DropoutSpec& spec) {
  return std::make_unique<LoopsDropout>(context, spec);
}

}  // namespace flotilla
