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
