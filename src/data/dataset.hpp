// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/host_batch.hpp"
#include "kernels/tensor.hpp"
#include "src/config/config.hpp"
#include "src/data/identity.hpp"

namespace flotilla {

class BagBuffer;

/// A single sample cannot be read: its file is missing or damaged.
struct BadSample : UserError {
  using UserError::UserError;
};

/// Reads click data sample by sample, on one thread, in any order; consecutive samples are cheap.
class BagReader {
 public:
  virtual ~BagReader() = default;
  /// Writes the dense features of sample i, adds its bags, one for each slot, and returns its label.
  /// @throws UserError naming file and line; some of the bags may then have been added.
  virtual std::int32_t read(std::int64_t i, std::span<float> dense, BagBuffer& bags) = 0;
};

/// Samples by number. Memory does not depend on their count, the names of files apart. Reading is const and
/// safe from several threads at once.
class Dataset : public Identifiable {
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

  /// The path of sample i as the user wrote it; empty: samples have numbers only.
  virtual std::string name(std::int64_t /*i*/) const { return {}; }

  /// Bags of ids that a sample has, one for each slot. 0: none; else the samples are read by a bag_reader(),
  /// and their shape, which may be of size 0, is that of their dense features.
  virtual std::int64_t slots() const { return 0; }
  virtual bool weighted() const { return false; }  ///< Each id has a value.
  /// Cuts the data into a share for each worker, by files or bytes. @returns the first sample of each, and
  /// the end of the last.
  virtual std::vector<std::int64_t> deal(ShardBy how, std::int64_t workers) const;
  /// One for each thread; the data set must outlive it.
  virtual std::unique_ptr<BagReader> bag_reader() const;
};

/// How a data set will be used.
struct DatasetUse {
  bool training = true;            ///< With augmentation; an image may be listed twice
  std::int64_t ranks_on_host = 1;  ///< Ranks of the host that cache files; 0: no file is read twice
  std::map<std::string, std::string> inflated{};  ///< File::handle() of inflated copies, by path
};

/// Opens the data that the deck names; checks magic numbers, counts, sizes, labels and that files exist.
/// @throws UserError naming file, position and remedy; all mistakes of a list at once.
std::unique_ptr<Dataset> open_dataset(const DataConfig& data, const DataSourceConfig& source,
                                      std::int64_t classes, std::uint64_t seed, const DatasetUse& use = {});

}  // namespace flotilla
