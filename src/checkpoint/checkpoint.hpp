// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"
#include "src/data/sharding.hpp"

namespace flotilla {

/// A file that belongs to a checkpoint: the state of one worker alone, or a server's rows of tables.
struct CheckpointPart {
  std::string name;            ///< "worker-0003.h5" or "server-0003.h5", in the folder step-00000400.parts
  std::int64_t bytes = 0;      ///< Size of the file
  std::uint64_t checksum = 0;  ///< Checksum of state and list of tensors, the values' checksums included

  static void pass(auto& own, auto& fields) { fields(own.name, own.bytes, own.checksum); }
};

/// Everything in a checkpoint that is not a tensor.
struct CheckpointState {
  /// 1: without numbers, parts and training samples; 2: without server parts.
  static constexpr std::int64_t newest_schema = 3;

  std::int64_t schema = newest_schema;
  std::int64_t step = 0;     ///< Optimizer steps done
  Position position;         ///< Position of the next sample
  std::int64_t samples = 0;  ///< Samples consumed so far, over all workers
  std::int64_t seed = 0;
  std::int64_t optimizer_step = 0;  ///< For bias corrections; equals step unless steps were skipped
  std::string deck;                 ///< Resolved
  std::map<std::string, std::string> versions;  ///< "flotilla" → "0.1.0", "oneDNN" → "2.6.3" …
  /// Choices that the deck leaves open, by key: what "auto" resolved to, "strategy.all_reduce" →
  /// "shared-memory"; of data sets what they are (identity_of), "data.train" → "2000 samples, xxh3 …";
  /// the number of workers, "workers" → "4"; the scaling of inputs and targets, "model.inputs" → "uint8
  /// 1x28x28, (x - 127.5) / 127.5"; the names of classes, "data.class_names" → "[\"cat\",\"dog\"]"; and what
  /// run.resume_with let differ, "changed at step 200" → "schedule.learning_rate: …"
  std::map<std::string, std::string> choices;
  bool inference_only = false;                 ///< Made by `flotilla export`: no optimizer state
  std::map<std::string, double> numbers{};     ///< Numbers of StrategyState and LossScale
  std::vector<CheckpointPart> parts{};         ///< One per worker, in their order; empty: all hold the same
  std::int64_t training_samples = 0;           ///< Samples of data.train; 0: not known
  std::vector<CheckpointPart> server_parts{};  ///< One per server, in their order; empty: no sparse tables

  /// Whether a run resumes from it: neither an exported model nor weights of another program.
  bool resumes() const { return !deck.empty() && !inference_only; }
};

/// The type of a dataset's values.
enum class Element { float32, unsigned64 };

/// One dataset: path is "parameters/fc1.weight", "statistics/…", "optimizer/momentum/fc1.weight" or
/// "strategy/outer_momentum/fc1.weight"; those of tables of rows are in row_file.hpp. Values are plain,
/// row-major, in the tensor's logical shape.
struct CheckpointTensor {
  std::string path;
  Shape shape;
  std::int64_t offset = 0;  ///< Position of its first value in the snapshot's values
  Element element = Element::float32;
};

/// The contents of a file, in host memory.
struct Snapshot {
  CheckpointState state;
  std::vector<CheckpointTensor> tensors;
  std::vector<float> values;
  std::span<float> of(const CheckpointTensor& tensor);
  std::span<const float> of(const CheckpointTensor& tensor) const;
};

/// @throws UserError if `out` is one of `inputs`, which are still read, or a checkpoint that a run resumes
/// from
void check_replaced_file(const std::string& out, const std::vector<std::string>& inputs);

/// @throws UserError unless `out` does not exist or is a regular file that may be replaced, in a writable
/// folder, and is neither one of `inputs`, which are still read, nor a checkpoint that a run resumes from.
void check_output_file(const std::string& out, const std::vector<std::string>& inputs);

/// Writes one dataset /`name` into a new HDF5 file, atomically (`flotilla evaluate --vectors`). @throws
/// UserError.
void write_array(const std::string& path, const std::string& name, const Shape& shape,
                 std::span<const float> values);

/// Reads /parameters and /statistics of a checkpoint, an exported model or a file without state and checksums
/// (made by another program), whose state is then the default one. What has a checksum is verified.
/// @throws UserError naming the file, the tensor and the reason (truncated, flipped byte, from a newer
/// schema, a value that is NaN or infinite).
Snapshot read_weights(const std::string& path);

/// Compares the tensors of a file with those of a model, by path and shape. @throws UserError naming `path`
/// and the first tensor that is missing, has another shape, or is not in the model.
void check_tensors(std::span<const CheckpointTensor> tensors, std::span<const CheckpointTensor> expected,
                   const std::string& path);

std::string hdf5_version();  ///< "1.10.8", of the library that was loaded

/// Provides the values of tensors one tensor at a time, so that the reader needs no memory for all of them.
class ValueSource {
 public:
  virtual ~ValueSource() = default;
  virtual std::span<const CheckpointTensor> tensors() const = 0;  ///< Their paths and shapes.
  /// The plain values of a tensor, valid until the next call.
  virtual std::span<const float> values(std::size_t tensor) = 0;
  /// The stored bytes of a tensor of any Element, valid until the next call.
  virtual std::span<const std::byte> bytes(std::size_t tensor) { return std::as_bytes(values(tensor)); }
};

}  // namespace flotilla
