// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <ostream>
#include <string_view>

#include "kernels/error.hpp"
#include "kernels/flat_math.hpp"
#include "kernels/precision.hpp"

/// The keys of a deck whose values are words: an enum each, and beside it its words as decks, messages and
/// resolved decks have them.
namespace flotilla {

/// A value of an enum and its word.
template <class E>
struct Choice {
  E value;
  std::string_view word;
};

/// The words of an enum's first values, in the order of their declaration.
template <class E, class... Words>
consteval std::array<Choice<E>, sizeof...(Words)> choices_of(Words... words) {
  int next = 0;
  return {Choice<E>{static_cast<E>(next++), words}...};
}

/// The table of an enum, in the order of messages.
template <class E>
inline constexpr auto choices = choices_of<E>();

/// The word of a value. @throws InternalError if the table lacks it
template <class E>
std::string_view word(E value) {
  const auto found = std::ranges::find(choices<E>, value, &Choice<E>::value);
  require(found != choices<E>.end(), "there is no word for value ", static_cast<int>(value), " of an option");
  return found->word;
}

/// The value that a word stands for. @throws InternalError if the table lacks it
template <class E>
E choice(std::string_view word) {
  const auto found = std::ranges::find(choices<E>, word, &Choice<E>::word);
  require(found != choices<E>.end(), "no option is called \"", word, "\"");
  return found->value;
}

/// Prints the word.
template <class E>
requires(!choices<E>.empty()) std::ostream& operator<<(std::ostream& out, E value) {
  return out << word(value);
}

enum class StrategyKind { all_reduce, local_sgd, adaptive_local_sgd, parameter_server };
template <>
inline constexpr auto choices<StrategyKind> = choices_of<StrategyKind>("all-reduce", "local-sgd",
                                                                       "adaptive-local-sgd",
                                                                       "parameter-server");

/// The algorithm of an all-reduce; `automatic`: the fastest of those that the hosts allow.
enum class AllReduceKind { automatic, mpi, shared_memory, hierarchical, nccl, nccl_hierarchical, nccl_mpi };
template <>
inline constexpr auto choices<AllReduceKind> = choices_of<AllReduceKind>("auto", "mpi", "shared-memory",
                                                                         "hierarchical", "nccl",
                                                                         "nccl-hierarchical", "nccl-mpi");
constexpr bool uses_nccl(AllReduceKind kind) {
  return kind >= AllReduceKind::nccl;
}

enum class PeriodWarmUp { none, exponential, linear };
template <>
inline constexpr auto choices<PeriodWarmUp> = choices_of<PeriodWarmUp>("none", "exponential", "linear");

/// How an adaptive period follows loss and learning rate (src/strategy/local_sgd/period.hpp).
enum class PeriodRule { guide, fleet2, paper };
template <>
inline constexpr auto choices<PeriodRule> = choices_of<PeriodRule>("guide", "fleet2", "paper");

/// What all workers combine after each step before local steps begin: parameters or gradients.
enum class BeforeBegin { average, all_reduce };
template <>
inline constexpr auto choices<BeforeBegin> = choices_of<BeforeBegin>("average", "all-reduce");

/// What becomes of the optimizer's state at an averaging.
enum class LocalMomentum { local, average, reset };
template <>
inline constexpr auto choices<LocalMomentum> = choices_of<LocalMomentum>("local", "average", "reset");

/// Running statistics of batch norm with local SGD.
enum class LocalStatistics { average, local, re_estimate };
template <>
inline constexpr auto choices<LocalStatistics> = choices_of<LocalStatistics>("average", "local",
                                                                             "re-estimate");

enum class OuterKind { none, sgd, momentum, nesterov };
template <>
inline constexpr auto choices<OuterKind> = choices_of<OuterKind>("none", "sgd", "momentum", "nesterov");

/// How roles are assigned to ranks.
enum class RolesKind {
  collective,   ///< All ranks are workers.
  symmetric,    ///< Even ranks are servers, odd ranks workers: one server beside each worker.
  ratio,        ///< Some ranks are servers, spread over the hosts, the first of each; the others are workers.
  user_defined  ///< As listed.
};
template <>
inline constexpr auto choices<RolesKind> = choices_of<RolesKind>("collective", "symmetric", "ratio",
                                                                 "user-defined");

enum class ServerMode { sync, half_async, async, geo };
template <>
inline constexpr auto choices<ServerMode> = choices_of<ServerMode>("sync", "half-async", "async", "geo");

/// The assignment of blocks of parameters to servers.
enum class Split {
  round_robin,  ///< One counter for the blocks of all tensors, in the arena's order.
  hash_name     ///< fnv1a(name of the block) modulo the number of servers.
};
template <>
inline constexpr auto choices<Split> = choices_of<Split>("round-robin", "hash-name");

template <>
inline constexpr auto choices<Precision> = choices_of<Precision>("float32", "float16", "bfloat16");

enum class DeviceKind { cpu, cuda, reference };
template <>
inline constexpr auto choices<DeviceKind> = choices_of<DeviceKind>("cpu", "cuda", "reference");

enum class ConvolutionAlgorithm { winograd, direct };
template <>
inline constexpr auto choices<ConvolutionAlgorithm> = choices_of<ConvolutionAlgorithm>("winograd", "direct");

enum class LossScaleKind { dynamic, fixed };
template <>
inline constexpr auto choices<LossScaleKind> = choices_of<LossScaleKind>("dynamic", "static");

enum class BatchNormKind { local, synchronised };
template <>
inline constexpr auto choices<BatchNormKind> = choices_of<BatchNormKind>("local", "synchronised");

enum class InitialWeights { xavier_uniform, xavier_normal, he_uniform, he_normal, uniform, normal };
template <>
inline constexpr auto choices<InitialWeights> = choices_of<InitialWeights>("xavier-uniform", "xavier-normal",
                                                                           "he-uniform", "he-normal",
                                                                           "uniform", "normal");

enum class EmbeddingTables { shared, per_slot };
template <>
inline constexpr auto choices<EmbeddingTables> = choices_of<EmbeddingTables>("shared", "per-slot");

enum class DataKind { idx, image_list, image_folder, criteo, libsvm, random };
template <>
inline constexpr auto choices<DataKind> = choices_of<DataKind>("idx", "image-list", "image-folder", "criteo",
                                                               "libsvm", "random");

enum class LastBatch { wrap, drop };
template <>
inline constexpr auto choices<LastBatch> = choices_of<LastBatch>("wrap", "drop");

enum class SampleOrder { shuffled, file };
template <>
inline constexpr auto choices<SampleOrder> = choices_of<SampleOrder>("shuffled", "file");

/// The transform of the number x in column I1 … I13 of Criteo's data; a missing one becomes 0.
enum class DenseTransform {
  log,      ///< ln(1 + max(x, 0))
  min_max,  ///< (min(max(x, least), cap) − least) / (cap − least): Fleet's, criteo_least and criteo_cap
};
template <>
inline constexpr auto choices<DenseTransform> = choices_of<DenseTransform>("log", "min-max");

/// How samples are assigned to workers: a part of each global batch, or for the whole run an equal number of
/// files (one more for the first workers where they do not divide), or equal sizes of all files.
enum class ShardBy { samples, files, bytes };
template <>
inline constexpr auto choices<ShardBy> = choices_of<ShardBy>("samples", "files", "bytes");

/// The interpolation of pixels. Pixel centres are at half-integers in both.
enum class ResizeFilter {
  bilinear,   ///< The two nearest pixels per axis, whatever the scale, in float (OpenCV's INTER_LINEAR;
              ///< torch's interpolate without antialias).
  antialias,  ///< A triangle widened by the scale, each axis rounded to 8 bits (BILINEAR of PIL, and so of
              ///< torchvision).
};
template <>
inline constexpr auto choices<ResizeFilter> = choices_of<ResizeFilter>("bilinear", "antialias");

enum class OnBadImage { error, replace };
template <>
inline constexpr auto choices<OnBadImage> = choices_of<OnBadImage>("error", "replace");

enum class CachedFiles { none, files };
template <>
inline constexpr auto choices<CachedFiles> = choices_of<CachedFiles>("none", "files");

enum class Accumulation { average, sum };
template <>
inline constexpr auto choices<Accumulation> = choices_of<Accumulation>("average", "sum");

enum class OptimizerKind { sgd, momentum, nesterov, lars, lamb, adam, adamw, adagrad };
template <>
inline constexpr auto choices<OptimizerKind> = choices_of<OptimizerKind>("sgd", "momentum", "nesterov",
                                                                         "lars", "lamb", "adam", "adamw",
                                                                         "adagrad");

template <>
inline constexpr auto choices<Decay> = choices_of<Decay>("coupled", "decoupled");

/// Parameters that optimizer.no_decay excepts.
enum class NoDecay { biases, batch_norm };
template <>
inline constexpr auto choices<NoDecay> = choices_of<NoDecay>("biases", "batch_norm");

enum class ScheduleKind { constant, piecewise, cosine, linear };
template <>
inline constexpr auto choices<ScheduleKind> = choices_of<ScheduleKind>("constant", "piecewise", "cosine",
                                                                       "linear");

}  // namespace flotilla
