// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gpu/loops/batch_norm_backward.hpp"
#include "kernels/gpu/loops/batch_norm_forward.hpp"
#include "kernels/gpu/loops/plan_scope.hpp"
#include "kernels/image_checks.hpp"

namespace flotilla::loops {

/// Images are NHWC.
template <class Space, class T>
class BatchNormPlan : public BatchNorm {
 public:
  BatchNormPlan(const PlanScope<Space>& scope, const BatchNormSpec& spec) : scope_(scope), spec_(spec) {
    check_spec(spec);
    const std::int64_t packs = spec.input.size() / (channels() % full_pack<T> == 0 ? full_pack<T> : 1);
    if (spec.after == AfterNorm::add_relu)
      positive_ = scope.memory.allocate(static_cast<std::size_t>((packs + 3) / 4));
    if (spec.accumulate) sums_ = scope.memory.allocate(2 * static_cast<std::size_t>(channels()));
  }

  void forward(const Tensor& x, const Tensor* residual, ScaleShift w, Statistics batch,
               const RunningStatistics& running, Tensor& y) override {
    find_statistics(x, batch, running);
    normalise(x, residual, w, batch, y);
  }
  bool normalises_residual() const override { return spec_.after == AfterNorm::add_relu; }
  void forward_both(const NormInput& norm, const NormInput& of_residual, Tensor& y) override {
    if (!normalises_residual()) return BatchNorm::forward_both(norm, of_residual, y);
    check_normalise(spec_, norm.x, &of_residual.x, norm.w, norm.batch, y);
    check_channels("the residual's scale and shift", spec_, of_residual.w);
    check_channels("the residual's mean and variance", spec_, of_residual.batch);
    find_statistics(of_residual.x, of_residual.batch, of_residual.running);
    find_statistics(norm.x, norm.batch, norm.running);
    map_normalise<true>(norm.x, &of_residual.x, norm_channels(norm.w, norm.batch),
                        norm_channels(of_residual.w, of_residual.batch), y);
  }
  void statistics(const Tensor& x, Statistics batch) override { find_statistics(x, batch, {}); }

  void normalise(const Tensor& x, const Tensor* residual, ScaleShift w, GivenStatistics s,
                 Tensor& y) override {
    check_normalise(spec_, x, residual, w, s, y);
    map_normalise<false>(x, residual, norm_channels(w, s), {}, y);
  }

  void backward_sums(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                     const Tensor* more_dy, Tensor* dresidual, ScaleShiftGradients sums) override {
    check_backward_sums(spec_, x, y, w, s, dy, more_dy, dresidual, sums);
    add_gradients({x, y, dy, more_dy, dresidual}, norm_channels(w, s), sums, {});
  }

  void backward_data(const Tensor& x, ScaleShift w, GivenStatistics s, GivenStatistics sums, double count,
                     const Tensor& dy, Tensor& dx) override {
    check_backward_data(spec_, x, w, s, sums, count, dy, dx);
    with_width<full_pack<T>>(channels(), [&]<int V>(Width<V>) {
      map_tiles(
          scope_.space, "norm backward", rows(), channels() / V,
          NormBackwardData<T, V>{image("x", x), image("dy", dy), norm_channels(w, s), sums.first.address(),
                                 sums.second.address(), static_cast<float>(1.0 / count),
                                 spec_.after == AfterNorm::relu, image("dx", dx)},
          RowOrder::backwards);
    });
  }

  void backward(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                const Tensor* more_dy, ScaleShiftGradients gradients, Tensor& dx,
                Tensor* dresidual) override {
    const auto size = static_cast<std::size_t>(channels());
    ScaleShiftGradients sums = gradients;
    if (spec_.accumulate) sums = {sums_.span().subspan(0, size), sums_.span().subspan(size, size)};
    check_backward_sums(spec_, x, y, w, s, dy, more_dy, dresidual, gradients);
    add_gradients({x, y, dy, more_dy, dresidual}, norm_channels(w, s), sums,
                  spec_.accumulate ? gradients : ScaleShiftGradients{});
    backward_data(x, w, s, sums, static_cast<double>(rows()), dresidual == nullptr ? dy : *dresidual, dx);
  }

 private:
  struct Images {
    const Tensor& x;
    const Tensor& y;
    const Tensor& dy;
    const Tensor* more_dy;
    Tensor* dresidual;
  };

  template <bool both>
  void map_normalise(const Tensor& x, const Tensor* residual, const NormChannels& of,
                     const NormChannels& of_residual, Tensor& y) {
    with_width<full_pack<T>>(channels(), [&]<int V>(Width<V>) {
      map_tiles(scope_.space, "normalise", rows(), channels() / V,
                Normalise<T, V, both>{image("x", x),
                                      image("the residual", residual),
                                      of,
                                      of_residual,
                                      spec_.after != AfterNorm::nothing,
                                      {image("y", y), positive()}},
                RowOrder::backwards);
    });
  }

  /// The running statistics are updated by the kernel that joins the sums, without a launch of their own.
  void find_statistics(const Tensor& x, Statistics batch, const RunningStatistics& running) {
    check_channels("mean and variance", spec_, batch);
    JoinStatistics result;
    result.mean = batch.first.address();
    result.variance = batch.second.address();
    if (!running.values.first.empty()) {
      check_channels("the running statistics", spec_, running.values);
      result.running_mean = running.values.first.address();
      result.running_variance = running.values.second.address();
      result.rates = running_rates(running.momentum, rows());
    }
    const T* const values = image("x", x);
    with_width<full_pack<T>>(channels(), [&]<int V>(Width<V>) {
      const Tiles tiles = tiles_of(rows(), channels() / V, sum_teams);
      float* const partials = scope_.scratch.floats(partial_floats(tiles, channels()));
      result.origin = partials;
      result.row_blocks = tiles.row_blocks;
      result.full_count = static_cast<double>(tiles.block_rows);
      result.last_count = static_cast<double>(rows() - (tiles.row_blocks - 1) * tiles.block_rows);
      result.share = 1.0 / static_cast<double>(rows());
      sum_columns<V>(scope_.space, "norm statistics", tiles, PivotSums<T, V>{values}, partials, result);
    });
  }

  /// Writes sums, and adds them to `gradients` too unless those are empty.
  void add_gradients(const Images& in, const NormChannels& channel, ScaleShiftGradients sums,
                     ScaleShiftGradients gradients) {
    check_nhwc("y", in.y, spec_.input);
    const StoreNormSums result{channel, sums.first.address(), sums.second.address(),
                               gradients.first.address(), gradients.second.address()};
    T* const dresidual = in.dresidual == nullptr ? nullptr : image("dresidual", *in.dresidual);
    with_width<full_pack<T>>(channels(), [&]<int V>(Width<V>) {
      const Tiles tiles = tiles_of(rows(), channels() / V, sum_teams);
      float* const partials = scope_.scratch.floats(partial_floats(tiles, channels()));
      with_after(spec_.after, [&]<AfterNorm A>(Then<A>) {
        const NormGradientSums<T, V, A> term{
            image("x", in.x), positive(), image("dy", in.dy), image("the second dy", in.more_dy),
            channel,          dresidual};
        sum_columns<V>(scope_.space, "norm gradients", tiles, term, partials, result);
      });
    });
  }

  std::int64_t channels() const { return spec_.input[1]; }
  std::int64_t rows() const { return spec_.input.size() / spec_.input[1]; }
  NormChannels norm_channels(const ScaleShift& w, const GivenStatistics& s) const {
    return {w.first.address(), w.second.address(), s.first.address(), s.second.address(), spec_.epsilon};
  }
  std::uint8_t* positive() { return reinterpret_cast<std::uint8_t*>(positive_.span().address()); }
  const T* image(const char* name, const Tensor& tensor) const {
    check_nhwc(name, tensor, spec_.input);
    return elements<T>(tensor);
  }
  T* image(const char* name, Tensor& tensor) const {
    check_nhwc(name, tensor, spec_.input);
    return elements<T>(tensor);
  }
  const T* image(const char* name, const Tensor* tensor) const {
    return tensor == nullptr ? nullptr : image(name, *tensor);
  }

  PlanScope<Space> scope_;
  BatchNormSpec spec_;
  Storage positive_;  // with add_relu: which values of the last y are above zero, a byte for each pack
  Storage sums_;      // with accumulate: what this call adds
};

}  // namespace flotilla::loops
