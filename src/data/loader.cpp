// SPDX-License-Identifier: Apache-2.0
#include "src/data/loader.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/batch_ring.hpp"

namespace flotilla {

namespace {

struct Selection {
  std::int64_t valid = 0;       ///< Rows that count
  std::uint64_t variation = 0;  ///< Of the epoch
};

/// The variation of a sample. An odd factor: no two samples of an epoch get the same one.
std::uint64_t variation_of(const Selection& selection, std::int64_t sample) {
  return selection.variation + 0x9E3779B97F4A7C15U * static_cast<std::uint64_t>(sample);
}

/// Which samples make up the batches. Called by several threads at once.
class Plan {
 public:
  virtual ~Plan() = default;
  virtual std::int64_t batches() const = 0;
  virtual std::int64_t batch() const = 0;
  /// Fills `samples` (batch values) with the sample numbers of one batch.
  virtual Selection select(std::int64_t number, std::span<std::int64_t> samples) const = 0;
};

class TrainingPlan final : public Plan {
 public:
  TrainingPlan(const Sampler& sampler, std::int64_t worker, Position start)
      : sampler_(sampler), worker_(worker), start_(start) {}
  std::int64_t batches() const override { return std::numeric_limits<std::int64_t>::max(); }
  std::int64_t batch() const override { return sampler_.sharding().batch; }
  Selection select(std::int64_t number, std::span<std::int64_t> samples) const override {
    const std::int64_t micro_steps = sampler_.sharding().micro_steps;
    const Position position = sampler_.after(start_, number / micro_steps);
    sampler_.indices(position, worker_, number % micro_steps, samples);
    return {batch(), sampler_.variation(position.epoch)};
  }

 private:
  Sampler sampler_;
  std::int64_t worker_;
  Position start_;
};

class ValidationPlan final : public Plan {
 public:
  ValidationPlan(ValidationShard shard, std::int64_t batch) : shard_(shard), batch_(batch) {}
  std::int64_t batches() const override { return (shard_.end - shard_.begin + batch_ - 1) / batch_; }
  std::int64_t batch() const override { return batch_; }
  Selection select(std::int64_t number, std::span<std::int64_t> samples) const override {
    const std::int64_t first = shard_.begin + number * batch_;
    std::int64_t next = first;
    for (std::int64_t& sample : samples) sample = std::min(next++, shard_.end - 1);
    return {std::min(batch_, shard_.end - first), 0};
  }

 private:
  ValidationShard shard_;
  std::int64_t batch_;
};

class ThreadedLoader final : public Loader {
 public:
  ThreadedLoader(const Dataset& data, std::unique_ptr<const Plan> plan, const LoaderOptions& options)
      : data_(data),
        plan_(std::move(plan)),
        // One batch is in use while `prefetch` are ahead.
        ring_(options.threads == 0 ? 1 : options.prefetch + 1, plan_->batch(), data.sample_shape().size()),
        indices_(static_cast<std::size_t>(std::max<std::int64_t>(options.threads, 1)),
                 std::vector<std::int64_t>(static_cast<std::size_t>(plan_->batch()))) {
    try {
      for (std::int64_t i = 0; i < options.threads; ++i) {
        trace::Sink* sink = options.sink ? options.sink(static_cast<int>(i)) : nullptr;
        const std::span<std::int64_t> indices = indices_[static_cast<std::size_t>(i)];
        threads_.emplace_back([this, sink, indices] { run(sink, indices); });
      }
    } catch (const std::system_error& error) {
      stop();
      throw LibraryError("std::thread", cat(error.what(), "; data.threads = ", options.threads));
    } catch (...) {
      stop();
      throw;
    }
  }
  ThreadedLoader(const ThreadedLoader&) = delete;
  ThreadedLoader& operator=(const ThreadedLoader&) = delete;
  // Joins while an exception is being thrown too: the threads only read files, stop after at most one sample,
  // and must not outlive the data set.
  ~ThreadedLoader() override { stop(); }

  const Batch& next() override {
    if (held_ >= 0 && held_ < plan_->batches()) ring_.release();
    const std::int64_t number = held_ + 1;
    held_ = std::min(number, plan_->batches());
    if (number >= plan_->batches()) return end();
    if (threads_.empty()) read_here(number);
    BatchSlot& slot = ring_.wait_filled(number, wait_ns_);
    if (slot.failure) std::rethrow_exception(slot.failure);
    return slot.batch;
  }
  std::int64_t wait_ns() const override { return wait_ns_; }
  std::int64_t buffer_bytes() const override { return ring_.bytes(); }

 private:
  void run(trace::Sink* sink, std::span<std::int64_t> indices) {
    trace::record_this_thread(sink);
    for (;;) {
      const std::int64_t number = ring_.claim();
      if (number >= plan_->batches()) return;
      BatchSlot* slot = ring_.wait_free(number);
      if (slot == nullptr) return;
      fill(number, *slot, indices);
      ring_.publish(number);
    }
  }

  void read_here(std::int64_t number) {
    const std::int64_t begin = trace::now_ns();
    fill(number, ring_.slot(number), indices_[0]);
    ring_.publish(number);
    wait_ns_ += trace::now_ns() - begin;
  }

  void fill(std::int64_t number, BatchSlot& slot, std::span<std::int64_t> indices) noexcept {
    const trace::Span span("read batch");
    try {
      slot.failure = nullptr;
      const Selection selection = plan_->select(number, indices);
      slot.batch.valid = selection.valid;
      const auto size = static_cast<std::size_t>(data_.sample_shape().size());
      for (std::size_t row = 0; row < indices.size() && !ring_.stopped(); ++row) {
        const std::int64_t sample = indices[row];
        const auto to = slot.batch.images.subspan(row * size, size);
        const std::int32_t label = data_.read(sample, variation_of(selection, sample), to);
        slot.labels[row] = static_cast<std::int64_t>(row) < slot.batch.valid ? label : 0;
      }
    } catch (...) {
      slot.failure = std::current_exception();
    }
  }

  const Batch& end() {
    end_ = ring_.slot(0).batch;
    end_.valid = 0;
    return end_;
  }

  void stop() {
    ring_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  const Dataset& data_;
  std::unique_ptr<const Plan> plan_;
  BatchRing ring_;
  std::vector<std::vector<std::int64_t>> indices_;  ///< One of a batch per thread, or for next()
  std::int64_t held_ = -1;                          ///< The batch that the caller has; batches() at the end
  std::int64_t wait_ns_ = 0;
  Batch end_;
  std::vector<std::thread> threads_;
};

}  // namespace

LoaderOptions loader_options(const DataConfig& data) {
  return {.threads = data.threads, .prefetch = data.prefetch, .sink = {}};
}

std::unique_ptr<Loader> make_training_loader(const Dataset& data, const Sampler& sampler, std::int64_t worker,
                                             Position start, const LoaderOptions& options) {
  require(data.size() == sampler.sharding().samples, "the sampler is made for ", sampler.sharding().samples,
          " samples, the data have ", data.size());
  return std::make_unique<ThreadedLoader>(data, std::make_unique<TrainingPlan>(sampler, worker, start),
                                          options);
}

std::unique_ptr<Loader> make_validation_loader(const Dataset& data, ValidationShard shard, std::int64_t batch,
                                               const LoaderOptions& options) {
  require(0 <= shard.begin && shard.begin <= shard.end && shard.end <= data.size() && batch > 0, "no shard ",
          shard.begin, " to ", shard.end, " in ", data.size(), " samples");
  return std::make_unique<ThreadedLoader>(data, std::make_unique<ValidationPlan>(shard, batch), options);
}

}  // namespace flotilla
