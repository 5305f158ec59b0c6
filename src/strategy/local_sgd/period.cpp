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

/// Up to `last`: at once, or one value per epoch after the beginning.
class GivenPeriod final : public Period {
 public:
  GivenPeriod(const LocalSgdConfig& strategy, const Begin& begin, double begin_epoch)
      : Period(begin, at(strategy, 0)), strategy_(strategy), begin_epoch_(begin_epoch) {}

 private:
  static std::int64_t at(const LocalSgdConfig& strategy, std::int64_t epochs) {
    constexpr std::int64_t most_doublings = 62;
    if (strategy.warm_up == PeriodWarmUp::exponential)
      return std::min(strategy.period, std::int64_t{1} << std::min(epochs, most_doublings));
    if (strategy.warm_up == PeriodWarmUp::linear) return std::min(strategy.period, 2 * (epochs + 1));
    return strategy.period;
  }
  std::int64_t epochs_since_begin(const Averaging& averaging) const {
    return std::max<std::int64_t>(0, whole(averaging.epochs - begin_epoch_));
  }
  std::int64_t decide(const Averaging& averaging) override {
    return at(strategy_, epochs_since_begin(averaging));
  }
  std::string reason(const Averaging& averaging) const override {
    return cat("warm-up, ", epochs_since_begin(averaging), " epochs after its beginning");
  }

  LocalSgdConfig strategy_;
  double begin_epoch_;
};

/// The adaptive rules: what they have in common is when they look at what.
class AdaptivePeriod : public Period {
 public:
  AdaptivePeriod(const LocalSgdConfig& strategy, const Begin& begin, bool each_epoch)
      : Period(begin, strategy.initial_period),
        each_epoch_(each_epoch),
        warmup_epochs_(begin.warmup_epochs) {}

 protected:
  static constexpr double longest = 1e6;

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
  double loss_sum_ = 0.0;    ///< Of the epoch so far
  double samples_ = 0.0;
  double epoch_ = 0.0;
  double loss_ = 0.0;  ///< Loss of the last decision
};

class GuidePeriod final : public AdaptivePeriod {
 public:
  GuidePeriod(const LocalSgdConfig& strategy, const Begin& begin)
      : AdaptivePeriod(strategy, begin, true),
        initial_(static_cast<double>(strategy.initial_period)),
        lowest_loss_(strategy.lowest_loss) {}

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

}  // namespace

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
                                           {"period.last_averaging", static_cast<double>(last_)}};
  collect(numbers);
  return numbers;
}

void Period::set_numbers(const std::map<std::string, double>& numbers) {
  const auto number = [&](const char* name) {
    const auto found = numbers.find(name);
    if (found == numbers.end())
      throw UserError(cat("the checkpoint does not say ", name,
                          ": it was written with another strategy; resume from one of this deck"));
    return found->second;
  };
  length_ = static_cast<std::int64_t>(number("period.length"));
  last_ = static_cast<std::int64_t>(number("period.last_averaging"));
  restore(number);
}

void Period::begin_again(std::int64_t steps, double epochs) {
  last_ = steps;
  if (begin_.epoch == 0.0) return;
  const double left = std::max(0.0, begin_.epoch - epochs);
  begin_.step = left > 0.0 ? steps + static_cast<std::int64_t>(std::ceil(left * begin_.steps_per_epoch))
                           : std::min(begin_.step, steps);
}

std::unique_ptr<Period> make_period(const LocalSgdConfig& strategy, std::int64_t steps_per_epoch,
                                    double warmup_epochs) {
  const auto per_epoch = static_cast<double>(steps_per_epoch);
  Period::Begin begin{.step = strategy.begin_step,
                      .epoch = strategy.begin_epoch,
                      .steps_per_epoch = per_epoch,
                      .warmup_epochs = warmup_epochs};
  if (begin.epoch > 0.0) begin.step = static_cast<std::int64_t>(std::ceil(begin.epoch * per_epoch));
  if (!strategy.adaptive) {
    const double epoch = begin.epoch > 0.0 ? begin.epoch : static_cast<double>(begin.step) / per_epoch;
    return std::make_unique<GivenPeriod>(strategy, begin, std::floor(epoch));
  }
  switch (strategy.rule) {
    case PeriodRule::guide: return std::make_unique<GuidePeriod>(strategy, begin);
    case PeriodRule::fleet2: return std::make_unique<Fleet2Period>(strategy, begin);
    case PeriodRule::paper: break;
  }
  return std::make_unique<PaperPeriod>(strategy, begin);
}

}  // namespace flotilla
