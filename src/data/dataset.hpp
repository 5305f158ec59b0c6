// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/host_batch.hpp"
#include "kernels/tensor.hpp"
#include "src/config/config.hpp"
#include "src/data/bag_buffer.hpp"
#include "src/files/checksum.hpp"

namespace flotilla {

class MistakeList;
struct ClickLogs;
struct FoundFiles;
struct ImageList;

/// A single sample cannot be read: its file is missing or damaged.
struct BadSample : UserError {
  using UserError::UserError;
};

/// Facts about all samples, known once a data set is opened.
struct DatasetFacts {
  std::int64_t size = 0;  ///< Samples
  Shape shape{};  ///< Shape of a sample; where there are bags, of its dense features: may be of size 0
  std::string description{};               ///< "10000 images 28x28 of train-images.gz": a start-up line
  std::string number_type = "float32";     ///< Type of the numbers as they are stored, as NumPy calls it
  std::optional<ByteScaling> scaling{};    ///< Scaling of samples (C,H,W) that are bytes; empty: they are not
  std::int64_t target_width = 0;           ///< Numbers to be predicted for a sample; 0: samples have labels
  std::int64_t slots = 0;                  ///< Bags of ids of a sample, which a bag_reader() reads; 0: none
  bool weighted = false;                   ///< Each id has a value
  std::vector<std::string> warnings{};     ///< About the samples, for the user
  std::vector<std::string> class_words{};  ///< Texts of the labels 0, 1 …; empty: labels are numbers
  std::int64_t classes = 0;  ///< Classes that the labels are of: one more than the largest; 0: not known
  /// The label of a sample without reading it; empty: read() returns it
  std::function<std::int32_t(std::int64_t i)> label_of{};
};

/// Samples by number. Memory does not depend on their count, the names of files apart. Reading is const and
/// safe from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  const DatasetFacts& facts() const { return facts_; }
  std::int64_t size() const { return facts_.size; }
  const Shape& sample_shape() const { return facts_.shape; }
  const std::string& description() const { return facts_.description; }
  const std::optional<ByteScaling>& scaling() const { return facts_.scaling; }
  std::int64_t target_width() const { return facts_.target_width; }
  std::int64_t slots() const { return facts_.slots; }
  bool weighted() const { return facts_.weighted; }

  /// Writes sample i, ready for the network, and returns its label in 0 … classes − 1; 0 where there are
  /// targets. `to` holds sample_shape().size() floats. `variation` selects a random augmentation: f(seed,
  /// epoch, sample). @throws UserError naming file and position; a BadSample if only this sample is bad.
  virtual std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const = 0;
  /// Writes the bytes of sample i before scaling, in the order (H,W,C), and returns what read() does. Only
  /// where scaling() is not empty. @throws UserError as read() does
  virtual std::int32_t read_bytes(std::int64_t i, std::uint64_t variation, std::span<std::uint8_t> to) const;
  /// The label that read() returns. @throws UserError as read() does
  std::int32_t label(std::int64_t i) const;
  /// Writes the target_width() numbers of sample i. @throws UserError as read() does
  virtual void read_targets(std::int64_t i, std::span<float> to) const;
  /// Writes the numbers of a sample of numbers as they are stored, channel by channel, and its targets; of
  /// uint8 as a share of 255. Only of arrays. @throws UserError as read() does
  virtual void read_stored(std::int64_t i, std::span<double> inputs, std::span<double> targets) const;
  /// A reader of samples with bags for each thread; the data set must outlive it.
  virtual std::unique_ptr<BagReader> bag_reader() const;

  /// Reads the targets of samples first … first + count − 1, at most 1 GiB of them from the first on, and
  /// adds a mistake for each sample whose target no model can predict, and for what cannot be read. Labels
  /// were checked when the data were opened.
  virtual void check_targets(std::int64_t /*first*/, std::int64_t /*count*/,
                             MistakeList& /*mistakes*/) const {}
  /// Says that samples first … first + count − 1 will be read soon, by this rank or by another one: they may
  /// be fetched in one large read. Returns at once. For each sample one rank of the job calls it.
  virtual void will_read(std::int64_t /*first*/, std::int64_t /*count*/) const {}
  /// The path of sample i as the user wrote it; empty: samples have numbers only.
  virtual std::string name(std::int64_t /*i*/) const { return {}; }
  /// Adds to `sum` what is known of all samples without reading them (labels, sizes of files), and the stored
  /// contents of the given ones. Adds nothing if the deck's keys say everything. @throws UserError as reading
  /// does
  virtual void identify(std::span<const std::int64_t> /*samples*/, Checksum& /*sum*/) const {}
  /// Cuts the data into a share for each worker, by files or bytes. @returns the first sample of each, and
  /// the end of the last.
  virtual std::vector<std::int64_t> deal(ShardBy how, std::int64_t workers) const;

 protected:
  /// To be called in the constructor.
  void set_facts(DatasetFacts facts) { facts_ = std::move(facts); }

 private:
  DatasetFacts facts_;
};

/// Passes every call on to another data set: the base of those that change a part of what it does.
class WrappedDataset : public Dataset {
 public:
  explicit WrappedDataset(std::unique_ptr<Dataset> inner) : inner_(std::move(inner)) {
    set_facts(inner_->facts());
  }
  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    return inner_->read(i, variation, to);
  }
  std::int32_t read_bytes(std::int64_t i, std::uint64_t variation,
                          std::span<std::uint8_t> to) const override {
    return inner_->read_bytes(i, variation, to);
  }
  void read_targets(std::int64_t i, std::span<float> to) const override { inner_->read_targets(i, to); }
  void read_stored(std::int64_t i, std::span<double> inputs, std::span<double> targets) const override {
    inner_->read_stored(i, inputs, targets);
  }
  std::unique_ptr<BagReader> bag_reader() const override { return inner_->bag_reader(); }
  void check_targets(std::int64_t first, std::int64_t count, MistakeList& mistakes) const override {
    inner_->check_targets(first, count, mistakes);
  }
  void will_read(std::int64_t first, std::int64_t count) const override { inner_->will_read(first, count); }
  std::string name(std::int64_t i) const override { return inner_->name(i); }
  void identify(std::span<const std::int64_t> samples, Checksum& sum) const override {
    inner_->identify(samples, sum);
  }
  std::vector<std::int64_t> deal(ShardBy how, std::int64_t workers) const override {
    return inner_->deal(how, workers);
  }

 protected:
  const Dataset& inner() const { return *inner_; }

 private:
  std::unique_ptr<Dataset> inner_;
};

/// Samples of which identity_of() reads the contents; all of a smaller data set.
inline constexpr std::int64_t identified_samples = 64;

/// The identity of the data: "2000 samples, xxh3 0123456789abcdef", a checksum of what they identify() with
/// identified_samples samples, spread evenly from the first to the last. Equal texts mean the same samples,
/// as far as those that were read tell. @throws UserError as reading does
std::string identity_of(const Dataset& data);

/// The intended use of a data set.
struct DatasetUse {
  bool training = true;            ///< For training: with augmentation; an image may be listed twice
  std::int64_t targets = 0;        ///< Numbers that the model predicts for a sample; 0: a class
  bool binary = false;             ///< The targets are labels, each by itself: they lie in [0, 1]
  std::int64_t ranks_on_host = 1;  ///< Ranks of the host that cache files; 0: no file is read twice
  std::map<std::string, std::string> inflated{};  ///< File::handle() of inflated copies, by path or array
  bool decode = true;  ///< Images; false: their bytes are read, samples stay as they were, to measure reading
  std::shared_ptr<const FoundFiles> files{};  ///< DataReader::find_files(); null: they are looked for
  std::map<std::string, std::string> shard_indexes{};  ///< webdataset: ShardOptions::indexes
  std::shared_ptr<const ClickLogs> clicks{};           ///< Click logs, read already; null: they are read
  std::shared_ptr<const ImageList> images{};  ///< List or folder of images, read already; null: it is read
};

/// Opens the data that the deck names, of data.validation.share the part for `use`; checks magic numbers,
/// counts, sizes, labels and that files exist.
/// @throws UserError naming file, position and remedy; all mistakes of a list at once.
/// @param classes of the model; 0: any, which the facts tell
std::unique_ptr<Dataset> open_dataset(const DataConfig& data, const DataSourceConfig& source,
                                      std::int64_t classes, std::uint64_t seed, const DatasetUse& use = {});

}  // namespace flotilla
