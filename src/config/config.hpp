// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mpi/all_reduce/all_reduce_kind.hpp"
#include "src/config/choices.hpp"
#include "src/config/data_config.hpp"
#include "src/config/optimizers.hpp"
#include "src/config/values.hpp"

namespace flotilla {

// A key of the deck is a field here (or in data_config.hpp, optimizers.hpp), which gives its type and
// default, and an entry of the key table (keys_*.cpp), which says the rest.

/// An artificially slow worker, to measure what one costs: run.emulate_straggler.
struct EmulatedStragglerConfig {
  std::int64_t rank = -1;    ///< −1: none
  double slow_factor = 0.0;  ///< Factor by which its computation takes longer; 0: see pause_s
  double pause_s = 0.0;      ///< Pause in a step; 0: see slow_factor
  std::int64_t every = 1;    ///< Slow in one of `every` steps
  bool take_turns = false;   ///< Each pause hits the next worker, beginning with `rank`
};

/// run.rank_logs; `automatic`: all up to 64 workers, else own.
enum class RankLogs { automatic, all, own, none };
template <>
inline constexpr auto words_of<RankLogs> = deck_words("auto", "all", "own", "none");

/// Files in run.output that the deck chooses.
struct RunFilesConfig {
  RankLogs rank_logs = RankLogs::automatic;  ///< Lines in the logs of ranks other than 0
  bool trace = false;
  bool mlperf_log = false;  ///< Write mlperf.log (docs/mlperf.md)
};

struct RunConfig {
  std::int64_t seed = 1;
  std::string output;                    ///< Folder; default runs/<name of the deck>
  std::string resume = "auto";           ///< "auto", "never" or a checkpoint (file or folder)
  std::vector<std::string> resume_with;  ///< Keys and tables that may differ from the checkpoint's
  std::int64_t log_every = 100;          ///< steps
  RunFilesConfig files;
  double watchdog_s = 300.0;       ///< 0: off
  bool check_network = true;       ///< Measure the network at the start, with several hosts
  bool check_collectives = false;  ///< Compare each collective call before it is made
  double time_limit_s = 0.0;       ///< Since the start of the process; 0: none
  double stop_margin_s = 10.0;     ///< Minimum time before Slurm's limit
  bool reproducible = false;       ///< Results do not depend on the number of workers, to the bit
  std::int64_t virtual_shards = 8;
  std::int64_t agreement_every = 0;  ///< steps; 0: at reports and checkpoints only

  bool resumes_newest() const { return resume == "auto"; }
  bool never_resumes() const { return resume == "never"; }
  /// Whether resume_with names this key or table, one that it is in, or one that is in it.
  bool resumes_with(const std::string& path) const;
};

enum class DeviceKind { cpu, cuda, reference };
template <>
inline constexpr auto words_of<DeviceKind> = deck_words("cpu", "cuda", "reference");

/// device.precision: those of Precision; `automatic`: the best that all workers' processors compute natively.
enum class DevicePrecision { float32, float16, bfloat16, automatic };
template <>
inline constexpr auto words_of<DevicePrecision> = deck_words("float32", "float16", "bfloat16", "auto");

enum class ConvolutionAlgorithm { winograd, direct };
template <>
inline constexpr auto words_of<ConvolutionAlgorithm> = deck_words("winograd", "direct");

enum class LossScaleKind { dynamic, fixed };
template <>
inline constexpr auto words_of<LossScaleKind> = deck_words("dynamic", "static");

/// The factor of the loss before the backward pass (src/optim/loss_scale.hpp). The constants are
/// Fleet's (docs/fleet.md, "Loss scale of float16").
struct LossScaleConfig {
  LossScaleKind kind = LossScaleKind::dynamic;  ///< With float16 only
  double value = 128.0;                         ///< fixed
  double initial = 32768.0;                     ///< dynamic, as are the next four
  double growth = 2.0;
  std::int64_t growth_every = 1000;  ///< good steps in a row
  double backoff = 0.8;
  std::int64_t backoff_every = 2;  ///< steps that overflowed in a row
};

struct DeviceConfig {
  DeviceKind kind = DeviceKind::cpu;
  DevicePrecision precision = DevicePrecision::float32;
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::winograd;  ///< cpu
  std::int64_t threads = 0;          ///< 0: the cores this rank is bound to ÷ ranks on them
  std::int64_t workspace_mb = 1024;  ///< cuda: MiB that a convolution's algorithm may take
  Tf32 tf32 = Tf32::convolutions;    ///< cuda, float32
  bool share = false;                ///< cuda: several ranks may compute on one GPU
  bool graphs = false;               ///< cuda: work that repeats itself is launched as a whole
  LossScaleConfig loss_scale{};
};

enum class BatchNormKind { local, synchronised };
template <>
inline constexpr auto words_of<BatchNormKind> = deck_words("local", "synchronised");

enum class InitialWeights { xavier_uniform, xavier_normal, he_uniform, he_normal, uniform, normal };
template <>
inline constexpr auto words_of<InitialWeights> = deck_words("xavier-uniform", "xavier-normal", "he-uniform",
                                                            "he-normal", "uniform", "normal");

enum class WeightNames { same, order };  ///< Tensors of a file of weights: by name, by order and shape
template <>
inline constexpr auto words_of<WeightNames> = deck_words("same", "order");

enum class EmbeddingTables { shared, per_slot };
template <>
inline constexpr auto words_of<EmbeddingTables> = deck_words("shared", "per-slot");

enum class ModelLoss { softmax, mse, mae, huber, binary };
template <>
inline constexpr auto words_of<ModelLoss> = deck_words("softmax", "mse", "mae", "huber", "binary");

struct ModelConfig {
  std::string kind = "mlp";          ///< "mlp", "resnet", "layers", "ctr-dnn" or a user's own
  std::vector<std::int64_t> widths;  ///< mlp, ctr-dnn: hidden layers
  Activation activation = Activation::tanh;
  std::vector<std::string> layers;        ///< layers: one after another (layer_texts.hpp)
  std::vector<std::string> layer_places;  ///< Not a key: "deck.toml:12:3" of each layer; empty: not known
  std::int64_t depth = 50;                ///< resnet: 18, 34, 50, 101, 152
  std::vector<std::string> recompute;     ///< resnet: what is computed again in backward (ResnetSpec)
  BatchNormKind batch_norm = BatchNormKind::local;  ///< resnet
  std::int64_t batch_norm_group = 0;                ///< Workers whose batches are normalised together; 0: all
  double dropout = 0.0;
  ModelLoss loss = ModelLoss::softmax;
  std::int64_t classes = 0;  ///< softmax: labels are 0 … classes − 1
  std::int64_t outputs = 0;  ///< The other losses: numbers that are predicted for a sample
  double huber_delta = 1.0;  ///< huber: errors beyond it count linearly
  InitialWeights initializer = InitialWeights::xavier_uniform;  ///< mlp
  double initializer_scale = 0.0;                               ///< Bound or deviation of uniform and normal
  std::string initial_weights;                                  ///< Empty: none
  WeightNames weight_names = WeightNames::same;  ///< Rule by which tensors of a file are matched
  std::vector<std::string> fixed_statistics;     ///< Patterns of batch norms whose statistics are not updated
  // ctr-dnn
  std::int64_t embedding_width = 10;
  EmbeddingTables embeddings = EmbeddingTables::shared;
  double embedding_scale = 0.01;  ///< Bound of the uniform initial values
  /// The deck's keys of a user's own model, by "<kind>.<key>" (keys.hpp)
  std::map<std::string, config::Value> own;

  bool has_classes() const { return loss == ModelLoss::softmax; }
  /// Values that the network computes for a sample.
  std::int64_t output_width() const { return has_classes() ? classes : outputs; }
  bool has_embeddings() const { return kind == "ctr-dnn"; }
  bool has_batch_norm() const;  ///< For the kinds that decks know
  bool synchronises_batch_norm() const {
    return has_batch_norm() && batch_norm == BatchNormKind::synchronised;
  }
};

enum class Accumulation { average, sum };
template <>
inline constexpr auto words_of<Accumulation> = deck_words("average", "sum");

struct TrainConfig {
  std::int64_t epochs = 0;  ///< 0: no limit. Whichever of epochs and steps ends first
  std::int64_t steps = 0;   ///< 0: no limit
  double seconds = 0.0;  ///< Time limit of steps on worker 0, without validation and checkpoints; 0: no limit
  std::int64_t batch_size = 0;         ///< Per worker and micro-step; 0 if global_batch_size is given
  std::int64_t global_batch_size = 0;  ///< Over all workers and micro-steps; 0 if batch_size is given
  std::int64_t accumulate_steps = 1;
  Accumulation accumulate = Accumulation::average;  ///< Accumulation of the micro-steps' gradients
  double label_smoothing = 0.0;
  std::vector<double> class_weights{};  ///< Weights of the classes' losses; empty: all are 1
  double mixup = 0.0;                   ///< α of λ ~ Beta(α, α); 0: off
  double cutmix = 0.0;                  ///< α of CutMix's λ ~ Beta(α, α); 0: off
  double gradient_clip_norm = 0.0;      ///< 0: none
  double average_decay = 0.0;           ///< Decay of the exponential moving average of the weights; 0: none
  std::int64_t patience = 0;            ///< Validations without improvement that end training; 0: never
  double target = 0.0;                  ///< Value of checkpoint.best that ends training; 0: none

  bool mixes_pairs() const { return mixup > 0.0 || cutmix > 0.0; }
  const char* pairs_key() const { return mixup > 0.0 ? "train.mixup" : "train.cutmix"; }
};

enum class ScheduleKind { constant, piecewise, cosine, linear, plateau, one_cycle };
template <>
inline constexpr auto words_of<ScheduleKind> = deck_words("constant", "piecewise", "cosine", "linear",
                                                          "plateau", "one-cycle");

enum class ThresholdKind { relative, absolute };
template <>
inline constexpr auto words_of<ThresholdKind> = deck_words("relative", "absolute");

/// schedule.kind = "plateau" (src/optim/schedule.hpp); keys of `schedule`.
struct PlateauConfig {
  std::int64_t patience = 10;  ///< validations
  double threshold = 1e-4;     ///< Least improvement
  ThresholdKind threshold_kind = ThresholdKind::relative;
  std::int64_t cooldown = 0;  ///< validations
};

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::constant;
  double learning_rate = 0.0;
  double warmup_epochs = 0.0;
  double warmup_from = 0.0;          ///< Learning rate at the first step of the warm-up
  std::vector<double> milestones;    ///< piecewise: epochs
  double factor = 0.1;               ///< piecewise: at each milestone; plateau: at each reduction
  double final_learning_rate = 0.0;  ///< cosine, linear; plateau: the lowest
  PlateauConfig plateau{};
  double rise = 0.3;               ///< one_cycle: share of the steps
  double initial_divisor = 25.0;   ///< one_cycle: highest rate / first rate
  double final_divisor = 10000.0;  ///< one_cycle: first rate / last rate
  bool scale_with_batch = false;
  std::int64_t base_batch = 256;
};

enum class StrategyKind { all_reduce, local_sgd, adaptive_local_sgd, parameter_server };
template <>
inline constexpr auto words_of<StrategyKind> = deck_words("all-reduce", "local-sgd", "adaptive-local-sgd",
                                                          "parameter-server");

/// The algorithm of an all-reduce; `automatic`: the fastest of those that the hosts allow.
using mpi::AllReduceWord;
template <>
inline constexpr auto words_of<AllReduceWord> = mpi::all_reduce_words;

using mpi::Wire;
template <>
inline constexpr auto words_of<Wire> = mpi::wire_words;

enum class WireRounding { nearest, stochastic };
template <>
inline constexpr auto words_of<WireRounding> = deck_words("nearest", "stochastic");

/// Sums over workers: of gradients, and with local SGD of parameters. Not with parameter servers.
struct ReductionConfig {
  AllReduceWord all_reduce = AllReduceWord::automatic;
  std::int64_t ranks_per_group = 0;  ///< 0: a group per host
  Wire wire = Wire::float32;
  WireRounding wire_rounding = WireRounding::nearest;  ///< Of a wire with scales
  double bucket_mb = 32.0;                             ///< MiB, as in PaddlePaddle's Fleet
  double last_bucket_mb = 1.0;
  mpi::LinkModel link{};  ///< Keys of run.emulate_link
};

// Each strategy has kind(), which is strategy.kind, and state_kind(), which names the keys, besides the kind,
// on which its state in a checkpoint depends.

enum class Compression { none, powersgd };
template <>
inline constexpr auto words_of<Compression> = deck_words("none", "powersgd");

/// strategy.kind = "all-reduce".
struct AllReduceConfig {
  std::int64_t communicators = 1;
  bool overlap = true;  ///< All-reduce in parallel with backward
  Compression compression = Compression::none;
  std::int64_t compression_rank = 4;      ///< Enough for all models of Vogels et al. 2019
  std::int64_t compression_start = 1000;  ///< Step; PyTorch's hook has the same

  StrategyKind kind() const { return StrategyKind::all_reduce; }
  std::string state_kind() const { return ""; }
};

enum class OuterKind { none, sgd, momentum, nesterov };
template <>
inline constexpr auto words_of<OuterKind> = deck_words("none", "sgd", "momentum", "nesterov");

/// The outer optimizer, applied to the change by an averaging (src/strategy/local_sgd/outer_step.hpp).
struct OuterConfig {
  OuterKind kind = OuterKind::none;
  double learning_rate = 1.0;
  double momentum = 0.0;
};

enum class PeriodWarmUp { none, exponential, linear };
template <>
inline constexpr auto words_of<PeriodWarmUp> = deck_words("none", "exponential", "linear");

enum class PeriodRule { guide, fleet2, paper, exposed };  ///< src/strategy/local_sgd/period.hpp
template <>
inline constexpr auto words_of<PeriodRule> = deck_words("guide", "fleet2", "paper", "exposed");

/// What some of the rules aim at.
struct PeriodAims {
  double lowest_loss = 0.6;     ///< guide: F_inf
  double exposed_share = 0.05;  ///< exposed: share of the time that averagings take
};

/// The way in which workers stay equal before local steps begin: averages of parameters or sums of gradients.
enum class BeforeBegin { average, all_reduce };
template <>
inline constexpr auto words_of<BeforeBegin> = deck_words("average", "all-reduce");

enum class LocalMomentum { local, average, reset };  ///< The optimizer's state at an averaging
template <>
inline constexpr auto words_of<LocalMomentum> = deck_words("local", "average", "reset");

enum class LocalStatistics { average, local, re_estimate };
template <>
inline constexpr auto words_of<LocalStatistics> = deck_words("average", "local", "re-estimate");

/// Averages of local SGD that are made of parts of the model, in turn, or while training goes on.
struct StreamingConfig {
  std::int64_t fragments = 1;      ///< Parts
  std::int64_t overlap_steps = 0;  ///< Steps that an average is on its way
  double mix = 0.0;                ///< Share of a worker's own values that stays where one takes effect
  bool eager = false;              ///< An outer step takes the other workers' changes of the period before

  /// Whether sums over the workers travel while training goes on.
  bool travels() const { return overlap_steps > 0 || eager; }
  /// Whether averages are made in an array of their own, while the worker's values stay as they are.
  bool needs_room() const { return travels() || mix > 0.0; }
};

/// strategy.kind = "local-sgd" and "adaptive-local-sgd".
struct LocalSgdConfig {
  bool adaptive = false;                      ///< Not a key: set by the kind
  std::int64_t period = 1;                    ///< Not adaptive: steps from one averaging to the next
  PeriodWarmUp warm_up = PeriodWarmUp::none;  ///< Not adaptive
  PeriodRule rule = PeriodRule::guide;        ///< Adaptive
  std::int64_t initial_period = 1;            ///< Adaptive
  PeriodAims aims{};                          ///< Adaptive
  std::int64_t begin_step = 0;                ///< Before this step all workers take every step together
  double begin_epoch = 0.0;                   ///< begin_step in epochs
  BeforeBegin before_begin = BeforeBegin::average;
  LocalMomentum momentum = LocalMomentum::local;
  LocalStatistics statistics = LocalStatistics::average;
  std::int64_t estimate_batches = 16;  ///< re_estimate: training batches per worker
  bool group_all_reduce = false;       ///< Gradients of a group are averaged in every step
  OuterConfig outer{};
  StreamingConfig streaming{};  ///< Not adaptive

  StrategyKind kind() const { return adaptive ? StrategyKind::adaptive_local_sgd : StrategyKind::local_sgd; }
  std::string state_kind() const;
};

enum class ServerMode { sync, half_async, async, geo };
template <>
inline constexpr auto words_of<ServerMode> = deck_words("sync", "half-async", "async", "geo");

/// The assignment of blocks of parameters to servers.
enum class Split {
  round_robin,  ///< One counter for the blocks of all tensors, in the arena's order.
  hash_name     ///< fnv1a(name of the block) modulo the number of servers.
};
template <>
inline constexpr auto words_of<Split> = deck_words("round-robin", "hash-name");

/// strategy.kind = "parameter-server" (docs/parameter_server.md).
struct ServerConfig {
  ServerMode mode = ServerMode::sync;
  Split split = Split::round_robin;
  bool slice_parameters = true;
  std::int64_t min_block_size = 8192;  ///< values
  std::int64_t push_every = 1;         ///< half_async, geo: steps
  std::int64_t max_staleness =
      0;                      ///< Modes other than sync: pushes; 0: no bound. push_every sets the default
  std::int64_t pipeline = 0;  ///< async: 1 has a step's exchange last until the end of the next step
  Precision wire = Precision::float32;  ///< Type of pushes and rows
  bool shared_memory = true;            ///< Used between a worker and a server of one host
  std::int64_t part_kb = 56;            ///< KiB of float32 values in a message

  StrategyKind kind() const { return StrategyKind::parameter_server; }
  std::string state_kind() const { return mode == ServerMode::geo ? ", server.mode = \"geo\"" : ""; }
};

enum class RolesKind { collective, symmetric, ratio, user_defined };  ///< mpi::RoleKind
template <>
inline constexpr auto words_of<RolesKind> = deck_words("collective", "symmetric", "ratio", "user-defined");

/// The assignment of ranks to workers and servers (mpi/core/roles.hpp).
struct RolesConfig {
  std::optional<RolesKind> kind;  ///< None: by the strategy
  std::int64_t servers = 0;       ///< ratio
  std::string server_ranks;       ///< user_defined: "0, 4-7"
  std::string worker_ranks;       ///< user_defined; empty: all others
};

/// Figures of a validation.
enum class BestMetric {
  none,
  loss,
  accuracy_top1,
  accuracy_top5,
  auc,
  log_loss,
  rmse,
  r2,
  accuracy,
  f1,
  macro_f1,
  balanced_accuracy,
  roc_auc
};
template <>
inline constexpr auto words_of<BestMetric> = deck_words("none", "loss", "accuracy_top1", "accuracy_top5",
                                                        "auc", "log_loss", "rmse", "r2", "accuracy", "f1",
                                                        "macro_f1", "balanced_accuracy", "roc_auc");

enum class Resident { automatic, yes, no };
template <>
inline constexpr auto words_of<Resident> = deck_words("auto", "true", "false");

struct CheckpointConfig {
  std::int64_t every = 0;  ///< steps; 0: not by steps
  double every_s = 600.0;  ///< 0: not by time
  std::int64_t keep = 3;
  BestMetric best = BestMetric::none;       ///< Figure of validations whose best checkpoint is kept
  std::int64_t keep_best = 1;               ///< Checkpoints of the best validations that are kept
  bool per_rank = false;                    ///< Each rank's own model as well
  Resident resident = Resident::automatic;  ///< The newest state is kept in the memory of the hosts
};

struct ValidationConfig {
  std::int64_t every = 1;       ///< epochs; 0: after the last step only
  std::int64_t batch_size = 0;  ///< per worker; 0: as in training
};

/// A checked deck: every rule of the key table holds (config/keys_*.cpp; inputs/reference.toml documents each
/// key). Input paths are absolute. Names are the deck's: config.train.batch_size is `train.batch_size`.
struct Config {
  RunConfig run;
  EmulatedStragglerConfig emulate_straggler;  ///< Keys of run.emulate_straggler
  DeviceConfig device;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  ReductionConfig reduction;  ///< Keys of `strategy` that all-reduce and local SGD share
  std::variant<AllReduceConfig, LocalSgdConfig, ServerConfig> strategy;
  RolesConfig roles;
  CheckpointConfig checkpoint;
  ValidationConfig validation;
  std::string resolved_text;  ///< The resolved deck as TOML: goes into the run's folder and checkpoints

  StrategyKind strategy_kind() const;
  /// The keys on which the strategy's state in a checkpoint depends: "strategy.kind = "local-sgd"".
  std::string state_kind() const;
  const AllReduceConfig* all_reduce() const { return std::get_if<AllReduceConfig>(&strategy); }
  const LocalSgdConfig* local_sgd() const { return std::get_if<LocalSgdConfig>(&strategy); }
  const ServerConfig* server() const { return std::get_if<ServerConfig>(&strategy); }
};

/// Maximum number of threads that communicate in parallel with backward.
inline std::int64_t communicators(const Config& config) {
  return config.all_reduce() == nullptr ? 1 : config.all_reduce()->communicators;
}

/// The units of the outputs of a model that predicts numbers or labels of 0 and 1: a data set hands over
/// (t − data.target_mean) / data.target_std.
class OutputUnits {
 public:
  /// @param config whose model.loss is not softmax
  explicit OutputUnits(const Config& config);

  std::size_t width() const { return scale_.size(); }  ///< Outputs of a sample
  bool binary() const { return binary_; }
  /// A number in units of the data is output · scale + shift, of each output; is_scaled(): not all are 1 and
  /// 0.
  const std::vector<double>& scales() const { return scale_; }
  const std::vector<double>& shifts() const { return shift_; }
  bool is_scaled() const;
  /// The output in units of the data; with binary() the logit that it is.
  double value(float output, std::size_t number) const;

 private:
  bool binary_;
  std::vector<double> scale_, shift_;
};

}  // namespace flotilla
