// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/row_update.hpp"
#include "src/config/choices.hpp"

namespace flotilla {

enum class OptimizerKind { sgd, momentum, nesterov, lars, lamb, adam, adamw, adagrad };
template <>
inline constexpr auto words_of<OptimizerKind> = deck_words("sgd", "momentum", "nesterov", "lars", "lamb",
                                                           "adam", "adamw", "adagrad");

template <>
inline constexpr auto words_of<Decay> = deck_words("coupled", "decoupled");

enum class NoDecay { biases, batch_norm };  ///< Parameters without weight decay
template <>
inline constexpr auto words_of<NoDecay> = deck_words("biases", "batch_norm");

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::sgd;
  double momentum = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  Decay decay = Decay::coupled;
  std::vector<NoDecay> no_decay;
  double lars_coefficient = 0.001;
  std::vector<std::string> frozen;  ///< Patterns of parameters that are not trained
  std::vector<std::string> rates;   ///< "PATTERN FACTOR" of learning rates
};

/// The description of a deck's optimizer. Its formula is in kernels/flat/optimizer_formulas.hpp.
struct OptimizerDescriptor {
  OptimizerKind kind;
  std::vector<std::string_view> keys;  ///< Keys of [optimizer] that not all optimizers have: "momentum"
  UpdateRule (*rule)(const OptimizerConfig&);  ///< The rule of LAMB has no array for the direction.
  bool descends =
      false;  ///< Plain gradient descent: an update is proportional to the learning rate and the gradients.
  bool needs_norms = false;      ///< Updates depend on norms of whole tensors.
  bool decouples_decay = false;  ///< Decay::decoupled, whatever optimizer.decay says
};

/// All optimizers, in the order of OptimizerKind.
std::span<const OptimizerDescriptor> optimizers();
const OptimizerDescriptor& descriptor_of(OptimizerKind kind);

/// The words of the optimizers that have the key of [optimizer], for keys' conditions.
std::vector<std::string> optimizers_with(std::string_view key);

Decay update_decay(const OptimizerConfig& config);

UpdateRule update_rule(const OptimizerConfig& config);
bool needs_norms(const OptimizerConfig& config);

/// The rule of a deck's optimizer for rows of tables. no_decay does not apply: rows are neither biases nor
/// batch norms.
/// @throws UserError for LARS and LAMB, which need norms of whole tensors
RowRule row_rule(const OptimizerConfig& config);

/// The names of the rule's state in checkpoints, as Optimizer::slots() has them.
std::vector<std::string> slot_names(const RowRule& rule);

/// An entry of optimizer.rates, "fc.* 10": the learning rate of the parameters that the pattern matches is
/// multiplied by the factor.
struct RateFactor {
  std::string pattern;
  double factor = 1.0;
};

/// Nothing if `text` is not a pattern, blanks and a positive number.
std::optional<RateFactor> rate_factor(const std::string& text);

}  // namespace flotilla
