// SPDX-License-Identifier: Apache-2.0
#include "kernels/graphs/listed_loops.hpp"

#include "kernels/graphs/listed_flat.hpp"

namespace flotilla {

namespace {

class ListedLoops : public DeviceLoops {
 public:
  ListedLoops(DeviceLoops& loops, WorkList& list)
      : loops_(loops), list_(list), flat_(loops.flat(), loops.updates(), list) {}

  std::string description() const override { return loops_.description(); }
  FlatMath& flat() override { return flat_; }
  FlatUpdates& updates() override { return flat_; }

  void cast(GivenValues from, Values to, const CastSpec& spec) override {
    list_.add<&DeviceLoops::cast>(loops_, from, to, spec);
  }
  void cast_rows(const RowsSpec& rows, GivenValues from, Values to, const CastSpec& spec) override {
    list_.add<&DeviceLoops::cast_rows>(loops_, rows, from, to, spec);
  }
  void to_nhwc(const Shape& shape, std::int64_t channels, GivenValues from, Values to) override {
    list_.add<&DeviceLoops::to_nhwc>(loops_, shape, channels, from, to);
  }
  void from_nhwc(const Shape& shape, std::int64_t channels, GivenValues from, Values to) override {
    list_.add<&DeviceLoops::from_nhwc>(loops_, shape, channels, from, to);
  }
  void from_bytes(const Shape& shape, std::int64_t channels, DeviceSpan<const std::uint8_t> from,
                  const ByteScaling& scaling, Values to) override {
    list_.add<&DeviceLoops::from_bytes>(loops_, shape, channels, from, scaling, to);
  }

  void bias_activation(Activation f, std::int64_t channels, DeviceSpan<const float> bias, Values x) override {
    list_.add<&DeviceLoops::bias_activation>(loops_, f, channels, bias, x);
  }
  void bias_activation_backward(Activation f, std::int64_t channels, GivenValues y, Values dy,
                                DeviceSpan<float> db, bool accumulate) override {
    list_.add<&DeviceLoops::bias_activation_backward>(loops_, f, channels, y, dy, db, accumulate);
  }
  void activate(Activation f, GivenValues x, Values y) override {
    list_.add<&DeviceLoops::activate>(loops_, f, x, y);
  }
  void activate_backward(Activation f, GivenValues x, GivenValues y, GivenValues dy, Values dx) override {
    list_.add<&DeviceLoops::activate_backward>(loops_, f, x, y, dy, dx);
  }
  void add_relu(GivenValues a, GivenValues b, Values y) override {
    list_.add<&DeviceLoops::add_relu>(loops_, a, b, y);
  }
  void add_relu_backward(GivenValues y, GivenValues dy, Values dx) override {
    list_.add<&DeviceLoops::add_relu_backward>(loops_, y, dy, dx);
  }

  void norm_statistics(const BatchNormSpec& spec, GivenValues x, Statistics batch,
                       const RunningStatistics& running) override {
    list_.add<&DeviceLoops::norm_statistics>(loops_, spec, x, batch, running);
  }
  void normalise(const BatchNormSpec& spec, GivenValues x, GivenValues residual, ScaleShift w,
                 GivenStatistics s, Values y, std::uint8_t* positive) override {
    list_.add<&DeviceLoops::normalise>(loops_, spec, x, residual, w, s, y, positive);
  }
  void norm_backward_sums(const BatchNormSpec& spec, const NormGradients& in, ScaleShift w, GivenStatistics s,
                          Values dresidual, ScaleShiftGradients sums,
                          ScaleShiftGradients gradients) override {
    list_.add<&DeviceLoops::norm_backward_sums>(loops_, spec, in, w, s, dresidual, sums, gradients);
  }
  void norm_backward_data(const BatchNormSpec& spec, GivenValues x, ScaleShift w, GivenStatistics s,
                          GivenStatistics sums, double count, GivenValues dy, Values dx) override {
    list_.add<&DeviceLoops::norm_backward_data>(loops_, spec, x, w, s, sums, count, dy, dx);
  }

  void layer_norm(const LayerNormSpec& spec, GivenValues x, ScaleShift w, DeviceSpan<float> moments,
                  Values y) override {
    list_.add<&DeviceLoops::layer_norm>(loops_, spec, x, w, moments, y);
  }
  void layer_norm_backward(const LayerNormSpec& spec, GivenValues x, ScaleShift w,
                           DeviceSpan<const float> moments, GivenValues dy, ScaleShiftGradients gradients,
                           Values dx) override {
    list_.add<&DeviceLoops::layer_norm_backward>(loops_, spec, x, w, moments, dy, gradients, dx);
  }

  void pool(const Pool2dSpec& spec, GivenValues x, Values y, std::uint8_t* chosen) override {
    list_.add<&DeviceLoops::pool>(loops_, spec, x, y, chosen);
  }
  void pool_backward(const Pool2dSpec& spec, const std::uint8_t* chosen, GivenValues dy, Values dx) override {
    list_.add<&DeviceLoops::pool_backward>(loops_, spec, chosen, dy, dx);
  }

  void dropout(const DropoutSpec& spec, DeviceScalar<std::uint64_t> step, GivenValues from,
               Values to) override {
    list_.add<&DeviceLoops::dropout>(loops_, spec, late(step), from, to);
  }

  void softmax_loss(const SoftmaxLossSpec& spec, GivenValues logits, const DeviceTargets& targets,
                    DeviceSpan<float> normalisers, DeviceSpan<float> sums) override {
    list_.add<&DeviceLoops::softmax_loss>(loops_, spec, logits, late(targets), normalisers, sums);
  }
  void softmax_loss_backward(const SoftmaxLossSpec& spec, GivenValues logits, const DeviceTargets& targets,
                             DeviceSpan<const float> normalisers, DeviceScalar<float> scale,
                             Values dlogits) override {
    list_.add<&DeviceLoops::softmax_loss_backward>(loops_, spec, logits, late(targets), normalisers,
                                                   late(scale), dlogits);
  }

  void output_loss(const OutputLossSpec& spec, GivenValues outputs, const DeviceTargets& targets,
                   DeviceSpan<float> sums) override {
    list_.add<&DeviceLoops::output_loss>(loops_, spec, outputs, late(targets), sums);
  }
  void output_loss_backward(const OutputLossSpec& spec, GivenValues outputs, const DeviceTargets& targets,
                            DeviceScalar<float> scale, Values gradient) override {
    list_.add<&DeviceLoops::output_loss_backward>(loops_, spec, outputs, late(targets), late(scale),
                                                  gradient);
  }

  void flag_not_finite(GivenValues x, DeviceSpan<float> flag) override {
    list_.add<&DeviceLoops::flag_not_finite>(loops_, x, flag);
  }
  void check_overflow(const OverflowGuardSpec& spec, DeviceScalar<float> learning_rate, double summed,
                      DeviceSpan<float> flag, ScalerState* state, DeviceSpan<float> report) override {
    list_.add<&DeviceLoops::check_overflow>(loops_, spec, late(learning_rate), summed, flag, state, report);
  }
  void restore(const ScalerState* state, DeviceSpan<const float> before, DeviceSpan<float> values) override {
    list_.add<&DeviceLoops::restore>(loops_, state, before, values);
  }

 private:
  /// On the device when the work is done, where it does not lie there yet.
  template <class T>
  DeviceScalar<T> late(const DeviceScalar<T>& number) {
    return number.is_known() ? DeviceScalar<T>(list_.number(number.get())) : number;
  }
  DeviceTargets late(DeviceTargets targets) {
    targets.other_share = late(targets.other_share);
    return targets;
  }

  DeviceLoops& loops_;
  WorkList& list_;
  ListedFlat flat_;
};

}  // namespace

std::unique_ptr<DeviceLoops> make_listed_loops(DeviceLoops& loops, WorkList& list) {
  return std::make_unique<ListedLoops>(loops, list);
}

}  // namespace flotilla
