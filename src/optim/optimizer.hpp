// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "models/arena.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// A flat array of an optimizer's state, laid out as the parameters.
struct OptimizerSlot {
  std::string name;  ///< In checkpoints: "momentum", "adam_m", "adam_v", "adagrad_sum"
  DeviceSpan<float> values;
};

/// Replaces norms of this process's parts of tensors, of two arrays, one per slice of the layout, by those of
/// the whole tensors.
using WholeNorms = std::function<void(std::span<double> first, std::span<double> second)>;

/// Turns gradients into an update of the parameters by a rule of kernels/flat/optimizer_formulas.hpp, value
/// by value; those derived from it set a rate for each tensor (make_optimizer).
class Optimizer {
 public:
  Optimizer(const OptimizerConfig& config, const ArenaLayout& layout, Device& device);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  /// One step over arenas of the layout's size. The gradient used is gradient_scale · gradients (1 / workers
  /// / micro-steps, times clip_factor). `gradients` are only read. Allocates nothing.
  /// @param halves receive the parameters too
  void step(DeviceSpan<float> parameters, DeviceSpan<const float> gradients, double learning_rate,
            double gradient_scale, const HalfCopy& halves = {});
  /// One step with numbers on the device (OverflowGuard::check), by which it may be skipped: then steps()
  /// counts one too many.
  void step(DeviceSpan<float> parameters, DeviceSpan<const float> gradients, const UpdateNumbers* numbers,
            const HalfCopy& halves = {});

  /// The values [begin, end) of the arenas in one step.
  struct Part {
    std::int64_t step = 1;  ///< The step that begin_step() returned
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  /// A step in parts, of which one may be done while another's gradient is still coming: begin_step() counts
  /// it, then step_part() updates each part of the same arenas, with the same bits as step().
  /// Not for optimizers that need norms.
  std::int64_t begin_step() { return ++steps_; }
  void step_part(DeviceSpan<float> parameters, DeviceSpan<const float> gradients, double learning_rate,
                 double gradient_scale, const Part& part);

  /// All state but steps(); zero at first.
  const std::vector<OptimizerSlot>& slots() const { return slots_; }
  std::int64_t steps() const { return steps_; }  ///< Number of steps taken; bias corrections depend on it.
  void set_steps(std::int64_t steps) { steps_ = steps; }
  /// For processes that own parts of tensors only (servers). `whole_norms` is called in every step of an
  /// optimizer that needs norms.
  void complete_norms_with(WholeNorms whole_norms) { whole_norms_ = std::move(whole_norms); }

 protected:
  /// `in` holds parameters, gradients, rate, scale and step; the rest is the optimizer's.
  virtual void update(UpdateInput in);
  /// Empty where this process has all of every tensor, so that its norms need no completing.
  /// @throws InternalError in step_part()
  const WholeNorms& whole_norms() const;

  FlatUpdates& updates;
  UpdateRule rule;
  std::vector<FlatRange> ranges;  ///< One per tensor where the rule needs norms
  UpdateState state;

 private:
  std::span<const FlatRange> due();

  Decay decay_;
  std::vector<Storage> storage_;
  std::vector<OptimizerSlot> slots_;
  std::int64_t steps_ = 0;
  std::optional<std::pair<std::int64_t, std::int64_t>> part_;  ///< Begin and end; none: all
  std::vector<FlatRange> part_ranges_;
  WholeNorms whole_norms_;
};

/// The optimizer of a deck, its slots allocated on `device`, which must outlive it.
///
/// "sgd", "momentum", "nesterov", "adam", "adamw" (decoupled decay, whatever optimizer.decay says) and
/// "adagrad" update all parameters in as few ranges as weight decay and its exclusions allow. LARS and LAMB
/// scale the rate of each tensor, with the gradient g as used (scaled), λ = weight_decay, 0 where excluded:
///
///     LARS  rate = lr · coefficient · ‖p‖ / (‖g‖ + λ ‖p‖ + ε) if λ, ‖p‖, ‖g‖ > 0, else lr
///     LAMB  rate = lr · ‖p‖ / ‖r‖ if ‖p‖, ‖r‖ > 0, else lr;  r = m̂ / (√v̂ + ε) + λ p
///
/// (You et al. 2017 and 2020; docs/fleet.md, "Synchronous training".) Both ignore optimizer.decay: λ is part
/// of the formulas.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const ArenaLayout& layout,
                                          Device& device);

/// The ranges that one update treats in the same way: the layout's slices with their weight decay (0 for the
/// kinds of parameters named in config.no_decay) and the factor of their rate (config.rates). Frozen ones are
/// left out; `per_tensor` they have decay and rate 0, which with gradients of zero changes nothing.
/// Neighbours that are treated in the same way are one range unless `per_tensor`; the padding between them is
/// zero and stays so under every rule.
std::vector<FlatRange> update_ranges(const OptimizerConfig& config, const ArenaLayout& layout,
                                     bool per_tensor);

/// The factor by which global-norm clipping multiplies the gradient, besides gradient_scale:
/// min(1, max_norm / (‖gradient_scale · gradients‖₂ + 10⁻⁶)), as torch's clip_grad_norm_. 1 if max_norm is 0.
double clip_factor(FlatMath& math, DeviceSpan<const float> gradients, double gradient_scale, double max_norm);
/// The factor of global-norm clipping where Σ gradients² is known, such as that over all servers.
double clip_factor(double sum_of_squares, double gradient_scale, double max_norm);

}  // namespace flotilla
