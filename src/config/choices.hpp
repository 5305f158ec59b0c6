// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <ostream>
#include <span>
#include <string_view>

#include "kernels/device.hpp"
#include "kernels/error.hpp"

namespace flotilla {

// The keys of a deck whose values are words, as enums; their words stand in the table below.

enum class DeviceKind { cpu, cuda, reference };
/// device.precision: those of Precision; `automatic`: the best that all workers' processors compute natively.
enum class DevicePrecision { float32, float16, bfloat16, automatic };
enum class ConvolutionAlgorithm { winograd, direct };
enum class LossScaleKind { dynamic, fixed };
enum class BatchNormKind { local, synchronised };
enum class InitialWeights { xavier_uniform, xavier_normal, he_uniform, he_normal, uniform, normal };
enum class WeightNames { same, order };  ///< Tensors of a file of weights: by name, by order and shape
enum class EmbeddingTables { shared, per_slot };
enum class ModelLoss { softmax, mse, mae, huber, binary };
enum class DataKind { idx, image_list, image_folder, webdataset, hdf5, numpy, cifar, criteo, libsvm, random };
enum class LastBatch { wrap, drop };
enum class SampleOrder { shuffled, file, blocks };
enum class OnBadImage { error, replace };
enum class CachedFiles { none, files };
enum class Accumulation { average, sum };
enum class OptimizerKind { sgd, momentum, nesterov, lars, lamb, adam, adamw, adagrad };
enum class NoDecay { biases, batch_norm };  ///< Parameters without weight decay
enum class ScheduleKind { constant, piecewise, cosine, linear };
enum class StrategyKind { all_reduce, local_sgd, adaptive_local_sgd, parameter_server };
enum class PeriodWarmUp { none, exponential, linear };
enum class PeriodRule { guide, fleet2, paper };  ///< src/strategy/local_sgd/period.hpp
enum class BeforeBegin { average, all_reduce };  ///< Of parameters, of gradients: before local steps begin
enum class LocalMomentum { local, average, reset };  ///< The optimizer's state at an averaging
enum class LocalStatistics { average, local, re_estimate };
enum class OuterKind { none, sgd, momentum, nesterov };
enum class RolesKind { collective, symmetric, ratio, user_defined };  ///< mpi::RoleKind
/// Of a validation.
enum class BestMetric { none, loss, accuracy_top1, accuracy_top5, auc, log_loss, rmse, r2, accuracy, f1 };
enum class ServerMode { sync, half_async, async, geo };

/// The algorithm of an all-reduce; `automatic`: the fastest of those that the hosts allow.
enum class AllReduceKind { automatic, mpi, shared_memory, hierarchical, nccl, nccl_hierarchical, nccl_mpi };
constexpr bool uses_nccl(AllReduceKind kind) {
  return kind >= AllReduceKind::nccl;
}

/// The transform of the number x in column I1 … I13 of Criteo's data; a missing one becomes 0.
enum class DenseTransform {
  log,      ///< ln(1 + max(x, 0))
  min_max,  ///< (min(max(x, least), cap) − least) / (cap − least): Fleet's, criteo_least and criteo_cap
};

/// What a worker reads: its part of each global batch, or a shard of its own: of an equal number of files
/// (one more for the first workers where they do not divide), or of an equal size.
enum class ShardBy { samples, files, bytes };

/// The interpolation of pixels. Pixel centres are at half-integers in both.
enum class ResizeFilter {
  bilinear,   ///< The two nearest pixels per axis, whatever the scale, in float (OpenCV's INTER_LINEAR;
              ///< torch's interpolate without antialias).
  antialias,  ///< A triangle widened by the scale, each axis rounded to 8 bits (BILINEAR of PIL, and so of
              ///< torchvision).
};

/// The assignment of blocks of parameters to servers.
enum class Split {
  round_robin,  ///< One counter for the blocks of all tensors, in the arena's order.
  hash_name     ///< fnv1a(name of the block) modulo the number of servers.
};

/// The words of an enum, as decks, messages and resolved decks have them, in the order of the enumerators.
template <class E>
struct Words {
  std::array<std::string_view, 10> words;  ///< Empty ones behind the last
};

/// The words of an enum that lists them itself, as Activation does.
template <class E, std::size_t count>
constexpr Words<E> words_from(const std::array<std::string_view, count>& given) {
  Words<E> words{};
  std::ranges::copy(given, words.words.begin());
  return words;
}

template <class... E>
struct Table : Words<E>... {};
template <class... E>
Table(Words<E>...) -> Table<E...>;

inline constexpr Table all_words = {
    Words<Precision>{"float32", "float16", "bfloat16"},
    Words<DevicePrecision>{"float32", "float16", "bfloat16", "auto"},
    Words<DeviceKind>{"cpu", "cuda", "reference"},
    Words<ConvolutionAlgorithm>{"winograd", "direct"},
    Words<Tf32>{"none", "convolutions", "all"},
    Words<LossScaleKind>{"dynamic", "static"},
    words_from<Activation>(activation_words),
    Words<BatchNormKind>{"local", "synchronised"},
    Words<InitialWeights>{"xavier-uniform", "xavier-normal", "he-uniform", "he-normal", "uniform", "normal"},
    Words<WeightNames>{"same", "order"},
    Words<EmbeddingTables>{"shared", "per-slot"},
    Words<ModelLoss>{"softmax", "mse", "mae", "huber", "binary"},
    Words<DataKind>{"idx", "image-list", "image-folder", "webdataset", "hdf5", "numpy", "cifar", "criteo",
                    "libsvm", "random"},
    Words<LastBatch>{"wrap", "drop"},
    Words<SampleOrder>{"shuffled", "file", "blocks"},
    Words<OnBadImage>{"error", "replace"},
    Words<CachedFiles>{"none", "files"},
    Words<Accumulation>{"average", "sum"},
    Words<OptimizerKind>{"sgd", "momentum", "nesterov", "lars", "lamb", "adam", "adamw", "adagrad"},
    Words<Decay>{"coupled", "decoupled"},
    Words<NoDecay>{"biases", "batch_norm"},
    Words<ScheduleKind>{"constant", "piecewise", "cosine", "linear"},
    Words<StrategyKind>{"all-reduce", "local-sgd", "adaptive-local-sgd", "parameter-server"},
    Words<PeriodWarmUp>{"none", "exponential", "linear"},
    Words<PeriodRule>{"guide", "fleet2", "paper"},
    Words<BeforeBegin>{"average", "all-reduce"},
    Words<LocalMomentum>{"local", "average", "reset"},
    Words<LocalStatistics>{"average", "local", "re-estimate"},
    Words<OuterKind>{"none", "sgd", "momentum", "nesterov"},
    Words<RolesKind>{"collective", "symmetric", "ratio", "user-defined"},
    Words<BestMetric>{"none", "loss", "accuracy_top1", "accuracy_top5", "auc", "log_loss", "rmse", "r2",
                      "accuracy", "f1"},
    Words<ServerMode>{"sync", "half-async", "async", "geo"},
    Words<AllReduceKind>{"auto", "mpi", "shared-memory", "hierarchical", "nccl", "nccl-hierarchical",
                         "nccl-mpi"},
    Words<DenseTransform>{"log", "min-max"},
    Words<ShardBy>{"samples", "files", "bytes"},
    Words<ResizeFilter>{"bilinear", "antialias"},
    Words<Split>{"round-robin", "hash-name"},
};

/// An enum in the table.
template <class E>
concept Choice = std::derived_from<decltype(all_words), Words<E>>;

template <Choice E>
constexpr std::span<const std::string_view> words_of() {
  const auto& words = static_cast<const Words<E>&>(all_words).words;
  return std::span(words).first(static_cast<std::size_t>(std::ranges::find(words, "") - words.begin()));
}

template <Choice E>
std::string_view word(E value) {
  return words_of<E>()[static_cast<std::size_t>(value)];
}

template <Choice E>
std::ostream& operator<<(std::ostream& out, E value) {
  return out << word(value);
}

/// The value that a word stands for. @throws InternalError if there is none
template <Choice E>
E choice(std::string_view word) {
  const auto words = words_of<E>();
  const auto found = std::ranges::find(words, word);
  require(found != words.end(), "no option is called \"", word, "\"");
  return static_cast<E>(found - words.begin());
}

}  // namespace flotilla
