// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/error.hpp"
#include "kernels/host_batch.hpp"
#include "kernels/tensor.hpp"
#include "src/config/config.hpp"
#include "src/data/bag_source.hpp"
#include "src/data/identity.hpp"

namespace flotilla {

class MistakeList;

/// A single sample cannot be read: its file is missing or damaged.
struct BadSample : UserError {
  using UserError::UserError;
};

/// Samples by number. Memory does not depend on their count, the names of files apart. Reading is const and
/// safe from several threads at once.
class Dataset : public Identifiable, public BagSource {
 public:
  virtual const Shape& sample_shape() const = 0;
  virtual std::string description() const = 0;  ///< "10000 images 28x28 of train-images.gz": a start-up line
  /// Writes sample i, ready for the network, and returns its label in 0 … classes − 1. `to` holds
  /// sample_shape().size() floats. `variation` selects a random augmentation: f(seed, epoch, sample).
  /// @throws UserError naming file and position; a BadSample if only this sample is bad.
  virtual std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const = 0;

  /// The scaling of samples (C,H,W) that are bytes; empty: they are not.
  virtual std::optional<ByteScaling> scaling() const { return {}; }
  /// Writes the bytes of sample i before scaling, in the order (H,W,C), and returns its label. Only where
  /// scaling() is not empty. @throws UserError as read() does
  virtual std::int32_t read_bytes(std::int64_t i, std::uint64_t variation, std::span<std::uint8_t> to) const;

  /// Numbers to be predicted for a sample; 0: samples have labels. Where there are such numbers the labels
  /// that read() and read_bytes() return are 0.
  virtual std::int64_t target_width() const { return 0; }
  /// Writes the target_width() numbers of sample i. @throws UserError as read() does
  virtual void read_targets(std::int64_t i, std::span<float> to) const;

  /// Reads the targets of samples first … first + count − 1, at most 1 GiB of them from the first on, and
  /// adds a mistake for each sample whose target no model can predict, and for what cannot be read. Labels
  /// were checked when the data were opened.
  virtual void check_targets(std::int64_t /*first*/, std::int64_t /*count*/,
                             MistakeList& /*mistakes*/) const {}

  /// Says that samples first … first + count − 1 will be read soon, by this rank or by another one: they may
  /// be fetched in one large read. Returns at once. One rank of a job says it of each.
  virtual void will_read(std::int64_t /*first*/, std::int64_t /*count*/) const {}

  /// The path of sample i as the user wrote it; empty: samples have numbers only.
  virtual std::string name(std::int64_t /*i*/) const { return {}; }
};

/// How a data set will be used.
struct DatasetUse {
  bool training = true;            ///< With augmentation; an image may be listed twice
  std::int64_t targets = 0;        ///< Numbers that the model predicts for a sample; 0: a class
  bool binary = false;             ///< The targets are labels, each by itself: they lie in [0, 1]
  std::int64_t ranks_on_host = 1;  ///< Ranks of the host that cache files; 0: no file is read twice
  std::map<std::string, std::string> inflated{};  ///< File::handle() of inflated copies, by path or array
  bool decode =
      true;  ///< Images: else their bytes are read, and samples stay as they were, to measure reading
  std::map<std::string, std::string> shard_indexes{};  ///< webdataset: ShardOptions::indexes
};

/// Opens the data that the deck names; checks magic numbers, counts, sizes, labels and that files exist.
/// @throws UserError naming file, position and remedy; all mistakes of a list at once.
std::unique_ptr<Dataset> open_dataset(const DataConfig& data, const DataSourceConfig& source,
                                      std::int64_t classes, std::uint64_t seed, const DatasetUse& use = {});

}  // namespace flotilla
