// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "src/config/config.hpp"
#include "src/strategy/strategy.hpp"

namespace flotilla {

/// Decides when local SGD averages: after a step, when `length` steps have passed since the previous
/// averaging. Deterministic in its inputs, which are equal on every worker (and measured, for one rule).
class Period {
 public:
  /// A step after which the workers averaged, in numbers that all workers share.
  struct Averaging {
    std::int64_t steps = 0;      ///< Done
    double epochs = 0.0;         ///< Progress after the step
    double learning_rate = 0.0;  ///< Learning rate of the step
    double loss = 0.0;           ///< Mean over all workers' samples of the step
    double loss_since = 0.0;     ///< Mean loss over all steps since the averaging before
    double samples_since = 0.0;  ///< Samples since the averaging before, over all workers
    double averaging_s = 0.0;    ///< Time of the averaging before, mean over all workers; 0: not known
    double step_s = 0.0;         ///< Time of a step since then, without averaging, mean over all workers
  };

  /// When local steps begin.
  struct Begin {
    std::int64_t step = 0;  ///< Steps done
    double epoch = 0.0;     ///< Epochs done
    bool by_epoch =
        false;  ///< strategy.begin_epoch sets `epoch`, and the batch size `step`; false: the reverse
    double steps_per_epoch = 1.0;
    double warmup_epochs = 0.0;  ///< Warm-up of the learning rate: adaptive rules begin after it
  };
  /// The step of Begin::epoch where all batches are of one size.
  static std::int64_t step_at(const Begin& begin);
  /// @param length the first period
  Period(const Begin& begin, std::int64_t length) : begin_(begin), length_(length) {}
  Period(const Period&) = delete;
  Period& operator=(const Period&) = delete;
  virtual ~Period() = default;

  /// Whether step 0, 1, … comes before local steps begin: all workers take it together.
  bool before_begin(std::int64_t step) const { return step < begin_.step; }
  /// Whether to average after `steps` steps.
  bool due(std::int64_t steps) const { return steps <= begin_.step || steps - last_ >= length_; }
  std::int64_t length() const { return length_; }  ///< Steps from one averaging to the next
  /// Takes the results of an averaging. @returns the change of the period and its reason: "period 8 → 5: …";
  /// empty: none.
  std::string averaged(const Averaging& averaging);
  /// Continues from a checkpoint: with its numbers if the deck sets the same periods, otherwise as the deck
  /// says. If the workers begin with one model, a new period starts, as after an averaging.
  void resume(const Resumption& resumed);
  std::map<std::string, double> numbers() const;  ///< For checkpoints

 protected:
  bool begun(std::int64_t steps) const { return steps >= begin_.step; }
  double begin_epoch() const { return begin_.epoch; }
  /// The next length; the current one before local steps have begun.
  virtual std::int64_t decide(const Averaging& averaging) = 0;
  virtual std::string reason(const Averaging& averaging) const = 0;  ///< Reason of the last decision
  /// The rule's own numbers, to and from a checkpoint.
  virtual void collect(std::map<std::string, double>&) const {}
  virtual void restore(const std::function<double(const char* name)>&) {}

 private:
  Begin begin_;
  std::int64_t length_;
  std::int64_t last_ = 0;  ///< Steps done at the last averaging
};

/// The period of a deck.
///
/// "local-sgd": k = strategy.period, divided by strategy.fragments; with warm_up = "exponential" 1, 2, 4, …
/// and with "linear" 2, 4, 6, …, one value per epoch from the beginning of local steps on, up to k
/// (docs/fleet.md, "Local SGD"; Fleet's linear list begins with a 0).
///
/// "adaptive-local-sgd": F is a loss over all workers, η the learning rate; k₀ = strategy.initial_period.
/// While η is 0 the period stays; where F or F₀ leaves nothing to shrink (F ≤ F_inf) it is 1.
///
///     "guide"   ⌊k₀ √(η₀ (F − F_inf) / (η max(F₀ − F_inf, 10⁻⁶)))⌋, at least 1, once an epoch, F its mean; a
///               jump of more than 20 keeps the old period. F_inf = strategy.lowest_loss
///     "fleet2"  ⌈√(η₀ F / (η F₀) k₀)⌉ within 1 and 16, at every averaging, F the step's loss;
///               k₀ stands inside the root
///     "paper"   ⌈√(η₀ F / (η F₀)) k₀⌉, at least 1, once an epoch, F its mean; where that would not be
///               less than the old period, half of that, rounded up (Wang & Joshi 2019, AdaComm)
///     "exposed" ⌈A (1 − s) / (s C)⌉, s = strategy.exposed_share, A the time of an averaging, C that of a
///     step
///               without it, both means over the workers and smoothed over the averagings: the shortest
///               period at which averagings take at most s of the time. At most twice the old period;
///               changes of a tenth or less are left out
///
/// F₀ and η₀ are those of the first averaging after the beginning at which η is not 0.
///
/// All but "exposed" begin after a warm-up of the learning rate too, until then the period stays constant:
/// they let it follow √(η₀ / η) for an η that falls from η₀, the initial rate (Wang & Joshi 2019, AdaComm),
/// and from an η₀ inside a warm-up it would fall to 1 for ever.
/// @param warmup_epochs of the learning rate
std::unique_ptr<Period> make_period(const LocalSgdConfig& strategy, std::int64_t steps_per_epoch,
                                    double warmup_epochs = 0.0);

/// The keys of a deck that decide when models are averaged: "period = 8, warm_up = "none", begin_step = 0".
std::string period_keys(const LocalSgdConfig& strategy);

}  // namespace flotilla
