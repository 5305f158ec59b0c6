// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "kernels/gpu/loops/activations.hpp"
#include "kernels/gpu/loops/batch_norm.hpp"
#include "kernels/gpu/loops/casts.hpp"
#include "kernels/gpu/loops/device_flat.hpp"
#include "kernels/gpu/loops/dropout.hpp"
#include "kernels/gpu/loops/images.hpp"
#include "kernels/gpu/loops/kokkos_scope.hpp"
#include "kernels/gpu/loops/layer_norm.hpp"
#include "kernels/gpu/loops/output_loss.hpp"
#include "kernels/gpu/loops/overflow_guard.hpp"
#include "kernels/gpu/loops/pool2d.hpp"
#include "kernels/gpu/loops/softmax_loss.hpp"

/// The kernels of the files that are included here, on an execution space of Kokkos: the serial one in tests,
/// a stream of CUDA.
namespace flotilla {

/// Checks sizes, and finds the elements that a precision means.
template <class Space, class Elements>
class KokkosPasses : public ValuePasses {
 public:
  KokkosPasses(const Space& space, loops::Scratch& scratch) : space_(space), scratch_(scratch) {}

  void cast(GivenValues from, Values to, const CastSpec& spec) override {
    check_size("the cast's result", to, from.size);
    check_address("the cast's input", from);
    with_two(from, to,
             [&](const auto* source, auto* target) { loops::cast(space_, from.size, source, target, spec); });
  }
  void gather(DeviceSpan<const std::int32_t> places, GivenValues from, Values to,
              const CastSpec& spec) override {
    check_address("the values", from);
    check_size("the gathered values", to, static_cast<std::int64_t>(places.size()));
    with_two(from, to, [&]<class From, class To>(const From* source, To* target) {
      loops::for_each(space_, "gather", to.size,
                      loops::Gather<From, To>{places.address(), source, target, spec});
    });
  }
  void to_nhwc(const Shape& shape, const ImageForm& form, GivenValues from, Values to) override {
    check_images(shape, form);
    check_size("the NCHW images", from, shape.size());
    check_size("the NHWC images", to, form.size(shape));
    with_two(from, to,
             [&](const auto* source, auto* target) { loops::to_nhwc(space_, shape, form, source, target); });
  }
  void from_nhwc(const Shape& shape, std::int64_t channels, GivenValues from, Values to) override {
    check_images(shape, {channels});
    check_size("the NHWC images", from, shape.size() / shape[1] * channels);
    check_size("the NCHW images", to, shape.size());
    with_two(from, to, [&](const auto* source, auto* target) {
      loops::from_nhwc(space_, shape, channels, source, target);
    });
  }
  void from_bytes(const Shape& shape, const ImageForm& form, DeviceSpan<const std::uint8_t> from,
                  const ByteScaling& scaling, Values to) override {
    check_images(shape, form);
    require(shape[1] <= 4 && from.size() == static_cast<std::size_t>(shape.size()), "images ", shape.text(),
            " of ", from.size(), " bytes: they have at most 4 channels and a byte for each value");
    check_size("the images", to, form.size(shape));
    with_one(to,
             [&](auto* target) { loops::from_bytes(space_, shape, form, from.address(), scaling, target); });
  }

  void bias_activation(Activation f, std::int64_t channels, DeviceSpan<const float> bias, Values x) override {
    const std::int64_t rows = rows_of("the values", x, channels);
    check_bias(bias, channels);
    with_one(x, [&]<class T>(T* values) {
      loops::with_width<loops::full_pack<T>>(channels, [&]<int V>(loops::Width<V>) {
        loops::map_tiles(space_, "bias and activation", rows, channels / V,
                         loops::BiasActivation<T, V>{f, bias.address(), values});
      });
    });
  }
  void bias_activation_backward(Activation f, std::int64_t channels, GivenValues y, Values dy,
                                DeviceSpan<float> db, bool accumulate) override {
    const std::int64_t rows = rows_of("dy", dy, channels);
    check_bias(db, channels);
    if (f != Activation::identity) check_like("y", y, dy);
    if (f == Activation::identity && db.empty()) return;
    with_one(dy, [&]<class T>(T* gradient) {
      loops::with_width<loops::full_pack<T>>(channels, [&]<int V>(loops::Width<V>) {
        const loops::Tiles tiles = loops::tiles_of(rows, channels / V, loops::sum_teams);
        loops::sum_columns<V>(space_, "activation gradient", tiles,
                              loops::ActivationGradient<T, V>{f, static_cast<const T*>(y.address), gradient},
                              scratch_.floats(loops::partial_floats(tiles, channels)),
                              loops::StoreBiasGradient{db.address(), accumulate});
      });
    });
  }

 private:
  /// Calls body with the address as one of the elements that the precision means.
  template <class Body>
  static void with_one(const Values& values, const Body& body) {
    loops::with_element<Elements>(values.precision,
                                  [&]<class T>(T) { body(static_cast<T*>(values.address)); });
  }
  template <class Body>
  static void with_one(const GivenValues& values, const Body& body) {
    loops::with_element<Elements>(values.precision,
                                  [&]<class T>(T) { body(static_cast<const T*>(values.address)); });
  }
  template <class Body>
  static void with_two(const GivenValues& from, const Values& to, const Body& body) {
    with_one(from, [&](const auto* source) { with_one(to, [&](auto* target) { body(source, target); }); });
  }

  const Space& space_;
  loops::Scratch& scratch_;
};

/// Plans whose activations consist of T.
template <class Space, class T>
class KokkosLayers : public Layers {
 public:
  KokkosLayers(const loops::PlanScope<Space>& scope, ProductLayers& products)
      : scope_(scope), products_(products) {}
  std::unique_ptr<Linear> linear(const LinearSpec& spec) override { return products_.linear(spec); }
  std::unique_ptr<Conv2d> conv2d(const Conv2dSpec& spec) override { return products_.conv2d(spec); }
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormSpec& spec) override {
    return plan<loops::BatchNormPlan>(spec);
  }
  std::unique_ptr<LayerNorm> layer_norm(const LayerNormSpec& spec) override {
    return plan<loops::LayerNormPlan>(spec);
  }
  std::unique_ptr<Pool2d> pool2d(const Pool2dSpec& spec) override { return plan<loops::Pool2dPlan>(spec); }
  std::unique_ptr<Elementwise> elementwise(const ElementwiseSpec& spec) override {
    return plan<loops::ElementwisePlan>(spec);
  }
  std::unique_ptr<Dropout> dropout(const DropoutSpec& spec) override {
    return plan<loops::DropoutPlan>(spec);
  }
  std::unique_ptr<Loss> softmax_loss(const SoftmaxLossSpec& spec) override {
    return plan<loops::SoftmaxLossPlan>(spec);
  }
  std::unique_ptr<Loss> output_loss(const OutputLossSpec& spec) override {
    return plan<loops::OutputLossPlan>(spec);
  }

 private:
  template <template <class, class> class Plan, class Spec>
  std::unique_ptr<Plan<Space, T>> plan(const Spec& spec) {
    return std::make_unique<Plan<Space, T>>(scope_, spec);
  }

  loops::PlanScope<Space> scope_;
  ProductLayers& products_;
};

template <class Space, class Elements>
class KokkosLoops : public DeviceLoops {
 public:
  KokkosLoops(const Space& space, LoopMemory memory)
      : space_(space), scratch_(memory), flat_(space, std::move(memory)) {}

  std::string description() const override { return cat("Kokkos ", kokkos_version(), ", ", Space::name()); }
  FlatMath& flat() override { return flat_; }
  FlatUpdates& updates() override { return flat_; }
  ValuePasses& passes() override { return passes_; }

  std::unique_ptr<Layers> layers(const DeviceMemory& memory, Precision precision,
                                 ProductLayers& products) override {
    std::unique_ptr<Layers> made;
    loops::with_element<Elements>(precision, [&]<class T>(T) {
      made = std::make_unique<KokkosLayers<Space, T>>(scope(memory), products);
    });
    return made;
  }
  std::unique_ptr<ImageOperations> images(const DeviceMemory& memory, Precision precision,
                                          DeviceQueue& queue) override {
    std::unique_ptr<ImageOperations> made;
    loops::with_element<Elements>(precision, [&]<class T>(T) {
      made = std::make_unique<loops::LoopImages<Space, T>>(scope(memory), queue);
    });
    return made;
  }
  std::unique_ptr<OverflowGuard> overflow_guard(const DeviceMemory& memory,
                                                const OverflowGuardSpec& spec) override {
    return std::make_unique<loops::OverflowGuardPlan<Space>>(scope(memory), spec);
  }

 private:
  loops::PlanScope<Space> scope(const DeviceMemory& memory) { return {space_, scratch_, memory}; }

  Space space_;
  loops::Scratch scratch_;
  loops::DeviceFlat<Space, Elements> flat_;
  KokkosPasses<Space, Elements> passes_{space_, scratch_};
};

}  // namespace flotilla
