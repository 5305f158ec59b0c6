// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/reference_device.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/plan_checks.hpp"
#include "kernels/reference/loops.hpp"
#include "kernels/reference/reference_flat.hpp"
#include "kernels/reference/reference_images.hpp"
#include "kernels/reference/rounding.hpp"
#include "kernels/reference/tagged_memory.hpp"

namespace flotilla {

namespace {

using reference::host;

class ReferenceLinear : public Linear {
 public:
  ReferenceLinear(const LinearSpec& spec, reference::Rounding rounding)
      : spec_(spec), rounding_(rounding), x_(rounding), weight_(rounding) {
    check_spec(spec);
  }

  std::int64_t weight_size() const override { return spec_.out * spec_.in; }
  std::int64_t flops() const override { return 2 * spec_.batch * weight_size(); }

  void forward(const Tensor& x, Weights w, Tensor& y) override {
    check_forward(spec_, weight_size(), x, w, y);
    reference::linear_forward<float>(spec_, x_.of(host(x.span())), weight_.of(host(w.weight)), host(w.bias),
                                     host(y.span()));
    rounding_.round(host(y.span()));
  }

  void backward(const Tensor& x, const Tensor& y, Weights w, Tensor& dy, Gradients dw, Tensor* dx) override {
    check_backward(spec_, weight_size(), x, y, w, dy, dw, dx);
    const std::span<float> input = dx == nullptr ? std::span<float>{} : host(dx->span());
    reference::activation_backward<float>(spec_.activation, host(y.span()), host(dy.span()));
    rounding_.round(host(dy.span()));
    LinearSpec product = spec_;
    product.activation = Activation::identity;
    reference::linear_backward<float>(product, x_.of(host(x.span())), host(y.span()),
                                      weight_.of(host(w.weight)), host(dy.span()), host(dw.weight),
                                      host(dw.bias), input);
    rounding_.round(input);
  }

  void weight_from_plain(std::span<const float> plain, std::span<float> stored) const override {
    copy_plain_weight(weight_size(), plain, stored);
  }
  void weight_to_plain(std::span<const float> stored, std::span<float> plain) const override {
    copy_plain_weight(weight_size(), stored, plain);
  }

 private:
  LinearSpec spec_;
  reference::Rounding rounding_;
  reference::HalfCopy x_;
  reference::HalfCopy weight_;
};

class ReferenceSoftmaxLoss : public SoftmaxLoss {
 public:
  ReferenceSoftmaxLoss(const SoftmaxLossSpec& spec, reference::Rounding rounding)
      : spec_(spec), rounding_(rounding) {
    check_spec(spec);
  }

  void forward(const Tensor& logits, const Targets& targets, DeviceSpan<float> sums) override {
    check_loss(spec_, logits, targets);
    require(sums.size() == loss_sums, "the loss adds to ", loss_sums, " sums, got ", sums.size());
    reference::softmax_loss_forward<float>(spec_, host(logits.span()), targets, host(sums));
  }

  void backward(const Tensor& logits, const Targets& targets, DeviceScalar<float> scale,
                Tensor& dlogits) override {
    check_loss(spec_, logits, targets);
    require(dlogits.shape() == logits.shape(), "the logits' gradient must have their shape");
    reference::softmax_loss_backward<float>(spec_, host(logits.span()), targets, double{scale.get()},
                                            host(dlogits.span()));
    rounding_.round(host(dlogits.span()));
  }

 private:
  SoftmaxLossSpec spec_;
  reference::Rounding rounding_;
};

class ReferenceDevice : public Device {
 public:
  explicit ReferenceDevice(Precision precision) : precision_(precision) {}
  std::string_view name() const override { return "reference"; }
  std::string description() const override {
    const char* const text = "plain loops in double, 1 thread";
    return is_half(precision_) ? cat(text, ", values rounded to ", flotilla::name(precision_)) : text;
  }
  bool shares_host_memory() const override { return false; }
  int threads() const override { return 1; }
  Precision precision() const override { return precision_; }

  Storage allocate(std::size_t count) override { return memory_.allocate(count); }
  Tensor tensor(const Shape& shape) override {
    return {shape, allocate(static_cast<std::size_t>(shape.size()))};
  }
  std::int64_t allocated_bytes() const override { return memory_.allocated_bytes(); }
  void upload(std::span<const float> from, DeviceSpan<float> to) override {
    require(from.size() == to.size(), "upload of ", from.size(), " into ", to.size(), " values");
    std::ranges::copy(from, host(to).begin());
  }
  void download(DeviceSpan<const float> from, std::span<float> to) override {
    require(from.size() == to.size(), "download of ", from.size(), " into ", to.size(), " values");
    std::ranges::copy(host(from), to.begin());
  }
  void stage(std::span<float> batch, Tensor& to) override {
    if (to.span().empty()) to = tensor(to.shape());
    require(batch.size() == to.span().size(), "a batch of ", batch.size(), " values for ", to.shape().text());
    std::ranges::copy(batch, host(to.span()).begin());
  }
  bool stages_bytes() const override { return true; }
  void stage_bytes(const ByteImages& images, Tensor& to) override {
    check_bytes(images, to);
    if (to.span().empty()) to = tensor(to.shape());
    reference::scale_bytes(images, host(to.span()));
  }

  std::unique_ptr<Linear> linear(const LinearSpec& spec) override {
    return std::make_unique<ReferenceLinear>(spec, rounding_);
  }
  std::unique_ptr<SoftmaxLoss> softmax_loss(const SoftmaxLossSpec& spec) override {
    return std::make_unique<ReferenceSoftmaxLoss>(spec, rounding_);
  }
  ImageOperations& images() override { return images_; }
  FlatMath& flat() override { return flat_; }
  void synchronize() override {}

 private:
  Precision precision_;
  reference::Rounding rounding_{precision_};
  reference::TaggedMemory memory_;
  ReferenceFlat flat_;
  ReferenceImages images_{memory_, rounding_};
};

}  // namespace

std::unique_ptr<Device> make_reference_device(Precision precision) {
  return std::make_unique<ReferenceDevice>(precision);
}

}  // namespace flotilla
