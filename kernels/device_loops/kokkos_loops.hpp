// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "kernels/device_loops/activations.hpp"
#include "kernels/device_loops/batch_norm_backward.hpp"
#include "kernels/device_loops/batch_norm_forward.hpp"
#include "kernels/device_loops/casts.hpp"
#include "kernels/device_loops/device_flat.hpp"
#include "kernels/device_loops/dropout.hpp"
#include "kernels/device_loops/kokkos_scope.hpp"
#include "kernels/device_loops/layer_norm.hpp"
#include "kernels/device_loops/output_loss.hpp"
#include "kernels/device_loops/overflow_loops.hpp"
#include "kernels/device_loops/pool2d.hpp"
#include "kernels/device_loops/softmax_loss.hpp"
#include "kernels/device_loops/value_checks.hpp"
#include "kernels/image_checks.hpp"

namespace flotilla {

/// DeviceLoops on an execution space of Kokkos: the serial one in tests, a stream of CUDA. This class checks
/// and chooses types; the kernels lie in the files that it includes.
template <class Space, class Elements>
class KokkosLoops : public DeviceLoops {
 public:
  KokkosLoops(const Space& space, LoopMemory memory)
      : space_(space), scratch_(memory), flat_(space, std::move(memory)) {}

  std::string description() const override { return cat("Kokkos ", kokkos_version(), ", ", Space::name()); }
  FlatMath& flat() override { return flat_; }
  FlatUpdates& updates() override { return flat_; }

  void cast(GivenValues from, Values to, const CastSpec& spec) override {
    loops::check_size("the cast's result", to, from.size);
    loops::check_address("the cast's input", from);
    with_two(from, to,
             [&](const auto* source, auto* target) { loops::cast(space_, from.size, source, target, spec); });
  }
  void cast_rows(const RowsSpec& rows, GivenValues from, Values to, const CastSpec& spec) override {
    loops::check_size("the rows", from, rows.rows * rows.from);
    loops::check_size("the result's rows", to, rows.rows * rows.to);
    with_two(from, to,
             [&](const auto* source, auto* target) { loops::cast_rows(space_, rows, source, target, spec); });
  }
  void to_nhwc(const Shape& shape, std::int64_t channels, GivenValues from, Values to) override {
    loops::check_images(shape, channels);
    loops::check_size("the NCHW images", from, shape.size());
    loops::check_size("the NHWC images", to, shape.size() / shape[1] * channels);
    with_two(from, to, [&](const auto* source, auto* target) {
      loops::to_nhwc(space_, shape, channels, source, target);
    });
  }
  void from_nhwc(const Shape& shape, std::int64_t channels, GivenValues from, Values to) override {
    loops::check_images(shape, channels);
    loops::check_size("the NHWC images", from, shape.size() / shape[1] * channels);
    loops::check_size("the NCHW images", to, shape.size());
    with_two(from, to, [&](const auto* source, auto* target) {
      loops::from_nhwc(space_, shape, channels, source, target);
    });
  }
  void from_bytes(const Shape& shape, std::int64_t channels, DeviceSpan<const std::uint8_t> from,
                  const ByteScaling& scaling, Values to) override {
    loops::check_images(shape, channels);
    require(shape[1] <= 4 && from.size() == static_cast<std::size_t>(shape.size()), "images ", shape.text(),
            " of ", from.size(), " bytes: they have at most 4 channels and a byte for each value");
    loops::check_size("the images", to, shape.size() / shape[1] * channels);
    with_one(to, [&](auto* target) {
      loops::from_bytes(space_, shape, channels, from.address(), scaling, target);
    });
  }

  void bias_activation(Activation f, std::int64_t channels, DeviceSpan<const float> bias, Values x) override {
    const std::int64_t rows = loops::rows_of("the values", x, channels);
    loops::check_bias(bias, channels);
    with_one(
        x, [&](auto* values) { loops::bias_activation(space_, rows, channels, f, bias.address(), values); });
  }
  void bias_activation_backward(Activation f, std::int64_t channels, GivenValues y, Values dy,
                                DeviceSpan<float> db, bool accumulate) override {
    const std::int64_t rows = loops::rows_of("dy", dy, channels);
    loops::check_bias(db, channels);
    if (f != Activation::identity) loops::check_like("y", y, dy);
    if (f == Activation::identity && db.empty()) return;
    with_one(dy, [&](auto* gradient) {
      loops::bias_activation_backward(space_, rows, channels, f, at(y, gradient), gradient,
                                      partials(rows, channels, gradient),
                                      loops::StoreBiasGradient{db.address(), accumulate});
    });
  }
  void activate(Activation f, GivenValues x, Values y) override {
    loops::check_like("x", x, y);
    with_one(y, [&]<class T>(T* result) {
      loops::for_each_pack<loops::full_pack<T>>(space_, "activation", y.size,
                                                loops::Activate<T>{f, at(x, result), result});
    });
  }
  void activate_backward(Activation f, GivenValues x, GivenValues y, GivenValues dy, Values dx) override {
    loops::check_like("x", x, dx);
    loops::check_like("y", y, dx);
    loops::check_like("dy", dy, dx);
    with_one(dx, [&]<class T>(T* result) {
      loops::for_each_pack<loops::full_pack<T>>(
          space_, "activation backward", dx.size,
          loops::ActivateBackward<T>{f, at(x, result), at(y, result), at(dy, result), result});
    });
  }
  void add_relu(GivenValues a, GivenValues b, Values y) override {
    loops::check_like("a", a, y);
    loops::check_like("b", b, y);
    with_one(y, [&]<class T>(T* result) {
      loops::for_each_pack<loops::full_pack<T>>(space_, "add and relu", y.size,
                                                loops::AddRelu<T>{at(a, result), at(b, result), result});
    });
  }
  void add_relu_backward(GivenValues y, GivenValues dy, Values dx) override {
    loops::check_like("y", y, dx);
    loops::check_like("dy", dy, dx);
    with_one(dx, [&]<class T>(T* result) {
      loops::for_each_pack<loops::full_pack<T>>(
          space_, "add and relu backward", dx.size,
          loops::AddReluBackward<T>{at(y, result), at(dy, result), result});
    });
  }

  void norm_statistics(const BatchNormSpec& spec, GivenValues x, Statistics batch,
                       const RunningStatistics& running) override {
    loops::check_size("x", x, spec.input.size());
    check_channels("mean and variance", spec, batch);
    loops::JoinStatistics result;
    result.mean = batch.first.address();
    result.variance = batch.second.address();
    if (!running.values.first.empty()) {
      check_channels("the running statistics", spec, running.values);
      result.running_mean = running.values.first.address();
      result.running_variance = running.values.second.address();
      result.rates = running_rates(running.momentum, rows(spec));
    }
    with_one(x, [&](const auto* values) {
      loops::norm_statistics(space_, rows(spec), channels(spec), values,
                             partials(rows(spec), channels(spec), values), result);
    });
  }
  void normalise(const BatchNormSpec& spec, GivenValues x, GivenValues residual, ScaleShift w,
                 GivenStatistics s, Values y, std::uint8_t* positive) override {
    loops::check_size("y", y, spec.input.size());
    loops::check_mask(spec, positive);
    loops::check_like("x", x, y);
    loops::check_residual(spec, residual, y);
    with_one(y, [&](auto* result) {
      loops::normalise(space_, rows(spec), channels(spec), at(x, result), at(residual, result),
                       of(spec, w, s), spec.after != AfterNorm::nothing, {result, positive});
    });
  }
  void norm_backward_sums(const BatchNormSpec& spec, const NormGradients& in, ScaleShift w, GivenStatistics s,
                          Values dresidual, ScaleShiftGradients sums,
                          ScaleShiftGradients gradients) override {
    loops::check_size("x", in.x, spec.input.size());
    loops::check_like("dy", in.dy, in.x);
    if (in.more_dy.address != nullptr) loops::check_like("the second dy", in.more_dy, in.x);
    loops::check_residual(spec, dresidual, in.x);
    loops::check_mask(spec, in.positive);
    check_channels("the sums", spec, sums);
    if (!gradients.first.empty()) check_channels("the gradients", spec, gradients);
    const loops::NormChannels channel = of(spec, w, s);
    const loops::StoreNormSums result{channel, sums.first.address(), sums.second.address(),
                                      gradients.first.address(), gradients.second.address()};
    with_one(in.x, [&]<class T>(const T* x) {
      loops::norm_backward_sums(space_, rows(spec), channels(spec), in, channel, spec.after,
                                static_cast<T*>(dresidual.address), partials(rows(spec), channels(spec), x),
                                result);
    });
  }
  void norm_backward_data(const BatchNormSpec& spec, GivenValues x, ScaleShift w, GivenStatistics s,
                          GivenStatistics sums, double count, GivenValues dy, Values dx) override {
    loops::check_size("dx", dx, spec.input.size());
    loops::check_like("x", x, dx);
    loops::check_like("dy", dy, dx);
    check_channels("the sums", spec, sums);
    require(count >= 1.0, "batch norm's sums are over at least one value per channel, got ", count);
    with_one(dx, [&](auto* result) {
      loops::norm_backward_data(space_, rows(spec), channels(spec), at(x, result), at(dy, result),
                                of(spec, w, s), sums, count, spec.after == AfterNorm::relu, result);
    });
  }

  void layer_norm(const LayerNormSpec& spec, GivenValues x, ScaleShift w, DeviceSpan<float> moments,
                  Values y) override {
    loops::check_size("y", y, spec.rows * spec.columns);
    loops::check_like("x", x, y);
    with_one(y, [&](auto* result) {
      loops::layer_norm(space_, spec, at(x, result), w, moments.address(), result);
    });
  }
  void layer_norm_backward(const LayerNormSpec& spec, GivenValues x, ScaleShift w,
                           DeviceSpan<const float> moments, GivenValues dy, ScaleShiftGradients gradients,
                           Values dx) override {
    loops::check_size("dx", dx, spec.rows * spec.columns);
    loops::check_like("x", x, dx);
    loops::check_like("dy", dy, dx);
    with_one(dx, [&](auto* result) {
      loops::layer_norm_backward(space_, spec, at(x, result), w.first.address(), moments.address(),
                                 at(dy, result), partials(spec.rows, spec.columns, result),
                                 loops::StoreLayerNormGradients{gradients.first.address(),
                                                                gradients.second.address(), spec.accumulate},
                                 result);
    });
  }

  void pool(const Pool2dSpec& spec, GivenValues x, Values y, std::uint8_t* chosen) override {
    loops::check_pool(spec, chosen);
    loops::check_size("y", y, output_shape(spec).size());
    loops::check_size("x", x, spec.input.size());
    loops::check_precision("x", x, y);
    with_one(y, [&](auto* result) { loops::pool(space_, spec, at(x, result), result, chosen); });
  }
  void pool_backward(const Pool2dSpec& spec, const std::uint8_t* chosen, GivenValues dy, Values dx) override {
    loops::check_pool(spec, chosen);
    loops::check_size("dx", dx, spec.input.size());
    loops::check_size("dy", dy, output_shape(spec).size());
    loops::check_precision("dy", dy, dx);
    with_one(dx, [&](auto* result) { loops::pool_backward(space_, spec, chosen, at(dy, result), result); });
  }

  void dropout(const DropoutSpec& spec, DeviceScalar<std::uint64_t> step, GivenValues from,
               Values to) override {
    check_spec(spec);
    loops::check_size("dropout's output", to, spec.input.size());
    loops::check_like("dropout's input", from, to);
    with_one(to, [&](auto* result) { loops::dropout(space_, spec, late(step), at(from, result), result); });
  }

  void softmax_loss(const SoftmaxLossSpec& spec, GivenValues logits, const DeviceTargets& targets,
                    DeviceSpan<float> normalisers, DeviceSpan<float> sums) override {
    loops::check_loss(spec, logits, targets, normalisers.size());
    require(sums.size() == loss_sums, "the loss adds to ", loss_sums, " sums, got ", sums.size());
    float* const row_sums = scratch_.floats(static_cast<std::size_t>(loops::row_numbers * spec.batch));
    with_one(logits, [&](const auto* values) {
      loops::softmax_loss(space_, spec, values, late(targets), normalisers.address(), row_sums,
                          sums.address());
    });
  }
  void softmax_loss_backward(const SoftmaxLossSpec& spec, GivenValues logits, const DeviceTargets& targets,
                             DeviceSpan<const float> normalisers, DeviceScalar<float> scale,
                             Values dlogits) override {
    loops::check_loss(spec, logits, targets, normalisers.size());
    loops::check_like("the logits' gradient", dlogits, logits);
    with_one(dlogits, [&](auto* result) {
      loops::softmax_loss_backward(space_, spec, at(logits, result), late(targets), normalisers.address(),
                                   late(scale), result);
    });
  }

  void output_loss(const OutputLossSpec& spec, GivenValues outputs, const DeviceTargets& targets,
                   DeviceSpan<float> sums) override {
    loops::check_loss(spec, outputs, targets);
    require(sums.size() == loss_sums, "the loss adds to ", loss_sums, " sums, got ", sums.size());
    float* const rows = scratch_.floats(static_cast<std::size_t>(spec.batch));
    with_one(outputs, [&](const auto* values) {
      loops::output_loss(space_, spec, values, targets, rows, sums.address());
    });
  }
  void output_loss_backward(const OutputLossSpec& spec, GivenValues outputs, const DeviceTargets& targets,
                            DeviceScalar<float> scale, Values gradient) override {
    loops::check_loss(spec, outputs, targets);
    loops::check_like("the outputs' gradient", gradient, outputs);
    with_one(gradient, [&](auto* result) {
      loops::output_loss_backward(space_, spec, at(outputs, result), targets, late(scale), result);
    });
  }

  void flag_not_finite(GivenValues x, DeviceSpan<float> flag) override {
    require(flag.size() == 1, "the flag is one value, got ", flag.size());
    loops::check_address("the values", x);
    with_one(x, [&]<class T>(const T* values) {
      loops::for_each_pack<loops::full_pack<T>>(space_, "finite check", x.size,
                                                loops::FlagNotFinite<T>{values, flag.address()});
    });
  }
  void check_overflow(const OverflowGuardSpec& spec, DeviceScalar<float> learning_rate, double summed,
                      DeviceSpan<float> flag, ScalerState* state, DeviceSpan<float> report) override {
    require(flag.size() == 1 && report.size() == report_floats,
            "an overflow check has one flag and a report of ", report_floats, " values");
    loops::for_each(
        space_, "check_overflow", 1,
        loops::CheckOverflow{spec, late(learning_rate), summed, flag.address(), state, report.address()});
  }
  void restore(const ScalerState* state, DeviceSpan<const float> before, DeviceSpan<float> values) override {
    require(before.size() == values.size(), "restore ", values.size(), " values from ", before.size());
    loops::for_each(space_, "restore", static_cast<std::int64_t>(values.size()),
                    loops::RestoreValues{state, before.address(), values.address()});
  }

 private:
  /// A number that the queue keeps for work that is done later, if it does.
  template <class T>
  DeviceScalar<T> late(const DeviceScalar<T>& number) const {
    const T* const place = number.is_known() ? loops::Queue<Space>::place_of(space_, number.get()) : nullptr;
    return place == nullptr ? number : DeviceScalar<T>(place);
  }
  DeviceTargets late(DeviceTargets targets) const {
    targets.other_share = late(targets.other_share);
    return targets;
  }

  static std::int64_t channels(const BatchNormSpec& spec) { return spec.input[1]; }
  static std::int64_t rows(const BatchNormSpec& spec) { return spec.input.size() / spec.input[1]; }
  static loops::NormChannels of(const BatchNormSpec& spec, const ScaleShift& w, const GivenStatistics& s) {
    check_channels("scale and shift", spec, w);
    check_channels("mean and variance", spec, s);
    return {w.first.address(), w.second.address(), s.first.address(), s.second.address(), spec.epsilon};
  }

  /// Scratch for sums over rows of values of this type.
  template <class T>
  float* partials(std::int64_t rows, std::int64_t channels, const T*) {
    std::size_t floats = 0;
    loops::with_width<loops::full_pack<T>>(channels, [&]<int V>(loops::Width<V>) {
      floats = loops::partial_floats(loops::tiles_of(rows, channels / V, loops::sum_teams), channels);
    });
    return scratch_.floats(floats);
  }

  /// The address as one of the same element as `like`.
  template <class T>
  static const T* at(const GivenValues& values, const T*) {
    return static_cast<const T*>(values.address);
  }

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

  Space space_;
  loops::Scratch scratch_;
  loops::DeviceFlat<Space, Elements> flat_;
};

}  // namespace flotilla
