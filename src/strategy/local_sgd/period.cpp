// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/local_sgd/period.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// Whole epochs that are done.
std::int64_t whole(double epochs) {
  return static_cast<std::int64_t>(std::floor(epochs));
}

/// The longest period of the adaptive rules.
constexpr double longest = 1e6;

/// A period that is strategy.period at once, or grows to it by one value per epoch after the beginning.
class GivenPeriod final : public Period {
 public:
  GivenPeriod(const LocalSgdConfig& strategy, const Begin& begin)
      : Period(begin, at(strategy, 0)), strategy_(strategy) {}

 private:
  static std::int64_t at(const LocalSgdConfig& strategy, std::int64_t epochs) {
    constexpr std::int64_t max_doublings = 62;
    if (strategy.warm_up == PeriodWarmUp::exponential)
      return std::min(strategy.period, std::int64_t{1} << std::min(epochs, max_doublings));
    if (strategy.warm_up == PeriodWarmUp::linear) return std::min(strategy.period, 2 * (epochs + 1));
    return strategy.period / strategy.streaming.fragments;
  }
  std::int64_t epochs_since_begin(const Averaging& averaging) const {
    return std::max<std::int64_t>(0, whole(averaging.epochs - std::floor(begin_epoch())));
  }
  std::int64_t decide(const Averaging& averaging) override {
    return at(strategy_, epochs_since_begin(averaging));
  }
  std::string reason(const Averaging& averaging) const override {
    return cat("warm-up, ", epochs_since_begin(averaging), " epochs after its beginning");
  }

  LocalSgdConfig strategy_;
};

/// The base of the adaptive rules: decides when loss and learning rate are sampled.
class AdaptivePeriod : public Period {
 public:
  AdaptivePeriod(const LocalSgdConfig& strategy, const Begin& begin, bool each_epoch)
      : Period(begin, strategy.initial_period),
        each_epoch_(each_epoch),
        warmup_epochs_(begin.warmup_epochs) {}

 protected:
  /// η₀ F / (η F₀), of the losses above `floor`; 0 where F leaves nothing.
  double shrinkage(double loss, double learning_rate, double floor) const {
    constexpr double least = 1e-6;  // as in Fleet's script
    return first_rate_ * std::max(0.0, loss - floor) / (learning_rate * std::max(first_loss_ - floor, least));
  }
  static std::int64_t within(double length, double most) {
    return static_cast<std::int64_t>(std::clamp(length, 1.0, most));
  }
  /// The next length from a loss and a rate that is not 0.
  virtual std::int64_t next(double loss, double learning_rate) const = 0;

 private:
  std::int64_t decide(const Averaging& averaging) override {
    if (averaging.epochs <= warmup_epochs_) return length();
    loss_sum_ += averaging.loss_since * averaging.samples_since;
    samples_ += averaging.samples_since;
    const bool epoch_ended = whole(averaging.epochs) > static_cast<std::int64_t>(epoch_);
    std::int64_t decided = length();
    if (begun(averaging.steps)) decided = look(averaging, !each_epoch_ || epoch_ended);
    if (epoch_ended) {
      epoch_ = static_cast<double>(whole(averaging.epochs));
      loss_sum_ = 0.0;
      samples_ = 0.0;
    }
    return decided;
  }
  std::int64_t look(const Averaging& averaging, bool due) {
    const double loss = each_epoch_ ? loss_sum_ / std::max(1.0, samples_) : averaging.loss;
    if (!std::isfinite(loss) || averaging.learning_rate <= 0.0) return length();
    if (first_rate_ == 0.0) {
      first_loss_ = loss;
      first_rate_ = averaging.learning_rate;
      return length();
    }
    if (!due) return length();
    loss_ = loss;
    return next(loss, averaging.learning_rate);
  }
  std::string reason(const Averaging& averaging) const override {
    return fmt::format("loss {:.6g} (at first {:.6g}), learning rate {:.6g} (at first {:.6g})", loss_,
                       first_loss_, averaging.learning_rate, first_rate_);
  }
  void collect(std::map<std::string, double>& numbers) const override {
    numbers["period.first_loss"] = first_loss_;
    numbers["period.first_learning_rate"] = first_rate_;
    numbers["period.loss_sum"] = loss_sum_;
    numbers["period.samples"] = samples_;
    numbers["period.epoch"] = epoch_;
  }
  void restore(const std::function<double(const char* name)>& number) override {
    first_loss_ = number("period.first_loss");
    first_rate_ = number("period.first_learning_rate");
    loss_sum_ = number("period.loss_sum");
    samples_ = number("period.samples");
    epoch_ = number("period.epoch");
  }

  bool each_epoch_;
  double warmup_epochs_;
  double first_loss_ = 0.0;
  double first_rate_ = 0.0;  ///< 0: not yet known
  double loss_sum_ = 0.0;    ///< Sum of the losses of the epoch so far
  double samples_ = 0.0;
  double epoch_ = 0.0;
  double loss_ = 0.0;  ///< Loss of the last decision
};

class GuidePeriod final : public AdaptivePeriod {
 public:
  GuidePeriod(const LocalSgdConfig& strategy, const Begin& begin)
      : AdaptivePeriod(strategy, begin, true),
        initial_(static_cast<double>(strategy.initial_period)),
        lowest_loss_(strategy.aims.lowest_loss) {}

 private:
  std::int64_t next(double loss, double learning_rate) const override {
    constexpr std::int64_t largest_jump = 20;
    const double length = std::floor(initial_ * std::sqrt(shrinkage(loss, learning_rate, lowest_loss_)));
    const std::int64_t proposed = within(length, longest);
    return proposed > this->length() + largest_jump ? this->length() : proposed;
  }

  double initial_;
  double lowest_loss_;
};

class Fleet2Period final : public AdaptivePeriod {
 public:
  Fleet2Period(const LocalSgdConfig& strategy, const Begin& begin)
      : AdaptivePeriod(strategy, begin, false), initial_(static_cast<double>(strategy.initial_period)) {}

 private:
  std::int64_t next(double loss, double learning_rate) const override {
    constexpr double most = 16.0;
    return within(std::ceil(std::sqrt(shrinkage(loss, learning_rate, 0.0) * initial_)), most);
  }

  double initial_;
};

class PaperPeriod final : public AdaptivePeriod {
 public:
  PaperPeriod(const LocalSgdConfig& strategy, const Begin& begin)
      : AdaptivePeriod(strategy, begin, true), initial_(static_cast<double>(strategy.initial_period)) {}

 private:
  std::int64_t next(double loss, double learning_rate) const override {
    const std::int64_t proposed =
        within(std::ceil(initial_ * std::sqrt(shrinkage(loss, learning_rate, 0.0))), longest);
    return proposed < length() ? proposed : (length() + 1) / 2;
  }

  double initial_;
};

/// The shortest period at which averagings take at most a given share of the time.
class ExposedPeriod final : public Period {
 public:
  ExposedPeriod(const LocalSgdConfig& strategy, const Begin& begin)
      : Period(begin, strategy.initial_period), share_(strategy.aims.exposed_share) {}

 private:
  std::int64_t decide(const Averaging& averaging) override {
    if (!begun(averaging.steps) || averaging.averaging_s <= 0.0 || averaging.step_s <= 0.0) return length();
    const double weight = averaging_s_ == 0.0 ? 1.0 : 0.25;
    averaging_s_ += weight * (averaging.averaging_s - averaging_s_);
    step_s_ += weight * (averaging.step_s - step_s_);
    const auto now = static_cast<double>(length());
    const double needed = std::ceil(averaging_s_ * (1.0 - share_) / (share_ * step_s_));
    const double next = std::clamp(needed, 1.0, std::min(2.0 * now, longest));
    return std::abs(next - now) > 0.1 * now ? static_cast<std::int64_t>(next) : length();
  }
  std::string reason(const Averaging&) const override {
    return fmt::format("an averaging takes {:.3g} s, a step {:.3g} s", averaging_s_, step_s_);
  }
  void collect(std::map<std::string, double>& numbers) const override {
    numbers["period.averaging_s"] = averaging_s_;
    numbers["period.step_s"] = step_s_;
  }
  void restore(const std::function<double(const char* name)>& number) override {
    averaging_s_ = number("period.averaging_s");
    step_s_ = number("period.step_s");
  }

  double share_;
  double averaging_s_ = 0.0;  ///< 0: not yet known
  double step_s_ = 0.0;
};

}  // namespace

std::int64_t Period::step_at(const Begin& begin) {
  return static_cast<std::int64_t>(std::ceil(begin.epoch * begin.steps_per_epoch));
}

std::string Period::averaged(const Averaging& averaging) {
  last_ = averaging.steps;
  const std::int64_t before = length_;
  length_ = decide(averaging);
  if (length_ == before) return "";
  return cat("period       ", before, " → ", length_, " after step ", averaging.steps, ": ",
             reason(averaging));
}

std::map<std::string, double> Period::numbers() const {
  std::map<std::string, double> numbers = {{"period.length", static_cast<double>(length_)},
                                           {"period.last_averaging", static_cast<double>(last_)},
                                           {"period.begin_step", static_cast<double>(begin_.step)},
                                           {"period.begin_epoch", begin_.epoch}};
  collect(numbers);
  return numbers;
}

void Period::resume(const Resumption& resumed) {
  const auto saved = [&](const char* name, double otherwise) {
    const auto found = resumed.numbers.find(name);
    return found == resumed.numbers.end() ? otherwise : found->second;
  };
  const auto done = static_cast<double>(resumed.steps);
  const auto done_now = static_cast<double>(resumed.steps_before);
  const auto step = static_cast<double>(begin_.step);
  const double saved_begin = saved("period.begin_step", done + 1.0);
  if (resumed.same_periods && saved_begin <= done) {
    begin_.step = static_cast<std::int64_t>(saved_begin);
    begin_.epoch = saved("period.begin_epoch", begin_.epoch);
  } else if (begin_.by_epoch) {
    begin_.step = step_at(begin_) + resumed.steps - resumed.steps_before;
  } else if (resumed.steps > 0) {
    // Steps already done had batches of their mean size; steps to come have today's size.
    begin_.epoch = (step <= done ? step * done_now / done : step - done + done_now) / begin_.steps_per_epoch;
  }
  if (resumed.same_periods) {
    length_ = static_cast<std::int64_t>(saved("period.length", static_cast<double>(length_)));
    restore([&](const char* name) { return saved(name, 0.0); });
  } else {
    length_ = decide({.steps = resumed.steps, .epochs = resumed.epochs});
  }
  last_ = resumed.own_state ? static_cast<std::int64_t>(saved("period.last_averaging", done)) : resumed.steps;
}

std::unique_ptr<Period> make_period(const LocalSgdConfig& strategy, std::int64_t steps_per_epoch,
                                    double warmup_epochs) {
  const auto per_epoch = static_cast<double>(steps_per_epoch);
  Period::Begin begin{.step = strategy.begin_step,
                      .epoch = static_cast<double>(strategy.begin_step) / per_epoch,
                      .by_epoch = strategy.begin_epoch > 0.0,
                      .steps_per_epoch = per_epoch,
                      .warmup_epochs = warmup_epochs};
  if (begin.by_epoch) {
    begin.epoch = strategy.begin_epoch;
    begin.step = Period::step_at(begin);
  }
  if (!strategy.adaptive) return std::make_unique<GivenPeriod>(strategy, begin);
  switch (strategy.rule) {
    case PeriodRule::guide: return std::make_unique<GuidePeriod>(strategy, begin);
    case PeriodRule::fleet2: return std::make_unique<Fleet2Period>(strategy, begin);
    case PeriodRule::exposed: return std::make_unique<ExposedPeriod>(strategy, begin);
    case PeriodRule::paper: break;
  }
  return std::make_unique<PaperPeriod>(strategy, begin);
}

std::string period_keys(const LocalSgdConfig& strategy) {
  const std::string begin = strategy.begin_epoch > 0.0
                                ? fmt::format(", begin_epoch = {}", strategy.begin_epoch)
                                : cat(", begin_step = ", strategy.begin_step);
  if (!strategy.adaptive)
    return cat("period = ", strategy.period, ", warm_up = \"", strategy.warm_up, "\"", begin,
               strategy.streaming.fragments > 1 ? cat(", fragments = ", strategy.streaming.fragments) : "",
               strategy.streaming.overlap_steps > 0
                   ? cat(", overlap_steps = ", strategy.streaming.overlap_steps)
                   : "");
  std::string more;
  if (strategy.rule == PeriodRule::guide) more = fmt::format(", lowest_loss = {}", strategy.aims.lowest_loss);
  if (strategy.rule == PeriodRule::exposed)
    more = fmt::format(", exposed_share = {}", strategy.aims.exposed_share);
  return cat("rule = \"", strategy.rule, "\", initial_period = ", strategy.initial_period, more, begin);
}

}  // namespace flotilla
