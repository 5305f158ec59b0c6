// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/reference_device.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/plan_checks.hpp"
#include "kernels/reference/loops.hpp"
#include "kernels/reference/own_memory.hpp"
#include "kernels/reference/reference_flat.hpp"
#include "kernels/reference/reference_images.hpp"

namespace flotilla {

namespace {

using reference::host;

class ReferenceLinear : public Linear {
 public:
  explicit ReferenceLinear(const LinearSpec& spec) : spec_(spec) { check_spec(spec); }

  std::int64_t weight_size() const override { return spec_.out * spec_.in; }
  std::int64_t flops() const override { return 2 * spec_.batch * weight_size(); }

  void forward(const Tensor& x, Weights w, Tensor& y) override {
    check_forward(spec_, weight_size(), x, w, y);
    reference::linear_forward<float>(spec_, host(x.span()), host(w.weight), host(w.bias), host(y.span()));
  }

  void backward(const Tensor& x, const Tensor& y, Weights w, Tensor& dy, Gradients dw, Tensor* dx) override {
    check_backward(spec_, weight_size(), x, y, w, dy, dw, dx);
    reference::linear_backward<float>(spec_, host(x.span()), host(y.span()), host(w.weight), host(dy.span()),
                                      host(dw.weight), host(dw.bias),
                                      dx == nullptr ? std::span<float>{} : host(dx->span()));
  }

  void weight_from_plain(std::span<const float> plain, std::span<float> stored) const override {
    copy_plain_weight(weight_size(), plain, stored);
  }
  void weight_to_plain(std::span<const float> stored, std::span<float> plain) const override {
    copy_plain_weight(weight_size(), stored, plain);
  }

 private:
  LinearSpec spec_;
};

class ReferenceSoftmaxLoss : public SoftmaxLoss {
 public:
  explicit ReferenceSoftmaxLoss(const SoftmaxLossSpec& spec) : spec_(spec) { check_spec(spec); }

  void forward(const Tensor& logits, const Targets& targets, DeviceSpan<float> sums) override {
    check_loss(spec_, logits, targets);
    require(sums.size() == loss_sums, "the loss adds to ", loss_sums, " sums, got ", sums.size());
    reference::softmax_loss_forward<float>(spec_, host(logits.span()), targets, host(sums));
  }

  void backward(const Tensor& logits, const Targets& targets, float scale, Tensor& dlogits) override {
    check_loss(spec_, logits, targets);
    require(dlogits.shape() == logits.shape(), "the logits' gradient must have their shape");
    reference::softmax_loss_backward<float>(spec_, host(logits.span()), targets, double{scale},
                                            host(dlogits.span()));
  }

 private:
  SoftmaxLossSpec spec_;
};

class ReferenceDevice : public Device {
 public:
  std::string_view name() const override { return "reference"; }
  std::string description() const override { return "plain loops in double, 1 thread"; }
  bool shares_host_memory() const override { return false; }
  int threads() const override { return 1; }

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
    upload(batch, to.span());
  }

  std::unique_ptr<Linear> linear(const LinearSpec& spec) override {
    return std::make_unique<ReferenceLinear>(spec);
  }
  std::unique_ptr<SoftmaxLoss> softmax_loss(const SoftmaxLossSpec& spec) override {
    return std::make_unique<ReferenceSoftmaxLoss>(spec);
  }
  ImageOperations& images() override { return images_; }
  FlatMath& flat() override { return flat_; }
  void synchronize() override {}

 private:
  reference::OwnMemory memory_;
  ReferenceFlat flat_;
  ReferenceImages images_{memory_};
};

}  // namespace

std::unique_ptr<Device> make_reference_device() {
  return std::make_unique<ReferenceDevice>();
}

}  // namespace flotilla
