// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace flotilla::report {

/// Joins each two neighbours, so that half as many buckets are left. @param buckets an even number of them
template <class Bucket>
void join_neighbours(std::vector<Bucket>& buckets) {
  for (std::size_t i = 0; 2 * i < buckets.size(); ++i) {
    Bucket joined = buckets[2 * i];
    joined.add(buckets[2 * i + 1]);
    buckets[i] = joined;
  }
  buckets.resize(buckets.size() / 2);
}

/// A value of a series; NaN where it was not finite.
struct Point {
  double step = 0.0;
  double value = 0.0;
  bool operator==(const Point&) const = default;
};

/// A series of any length in bounded memory: up to `max_buckets` points as they are; of more, the lowest and
/// the highest of each bucket of neighbours, so that no peak is lost. Buckets are equally long, in points.
class Reduction {
 public:
  /// @param max_buckets even
  explicit Reduction(std::size_t max_buckets = 2048) : max_buckets_(max_buckets) {}
  /// Points must be added in the order of their steps.
  void add(Point point);
  /// The points in the order of their steps, including the first and the last: at most 2 · max_buckets + 2.
  std::vector<Point> points() const;
  /// The mean of each bucket, at its last step, if the points were reduced; otherwise empty.
  std::vector<Point> means() const;

 private:
  struct Bucket {
    Point low;
    Point high;
    double last_step = 0.0;
    double sum = 0.0;
    std::int64_t finite = 0;
    void add(const Bucket& later);
  };
  void halve();

  std::size_t max_buckets_;
  std::vector<Bucket> buckets_;
  std::int64_t width_ = 1;    ///< Points in a full bucket
  std::int64_t in_last_ = 0;  ///< Points in the last one
  Point first_;
  Point last_;
};

/// Means of N values over equally long buckets of neighbours, at most `max_buckets` (even) of them.
template <std::size_t N>
class MeanReduction {
 public:
  struct Means {
    double step = 0.0;  ///< The last of the bucket
    std::array<double, N> values{};
  };
  explicit MeanReduction(std::size_t max_buckets = 2048) : max_buckets_(max_buckets) {}
  /// Values must be added in the order of their steps.
  void add(double step, const std::array<double, N>& values) {
    if (buckets_.size() == max_buckets_ && buckets_.back().count == width_) halve();
    if (buckets_.empty() || buckets_.back().count == width_) buckets_.push_back({});
    buckets_.back().add({step, values, 1});
  }
  std::vector<Means> means() const {
    std::vector<Means> all;
    for (const Bucket& bucket : buckets_) {
      all.push_back({bucket.step, bucket.sums});
      for (double& value : all.back().values) value /= static_cast<double>(bucket.count);
    }
    return all;
  }

 private:
  struct Bucket {
    double step = 0.0;
    std::array<double, N> sums{};
    std::int64_t count = 0;
    void add(const Bucket& later) {
      step = later.step;
      count += later.count;
      for (std::size_t i = 0; i < N; ++i) sums[i] += later.sums[i];
    }
  };
  void halve() {
    join_neighbours(buckets_);
    width_ *= 2;
  }

  std::size_t max_buckets_;
  std::vector<Bucket> buckets_;
  std::int64_t width_ = 1;
};

/// Every point, or every second, fourth … of a long sequence, and the last one: in bounded memory.
template <class T>
class Thinning {
 public:
  explicit Thinning(std::size_t most = 4096) : most_(most) {}
  void add(const T& item) {
    last_ = item;
    if (count_++ % stride_ != 0) return;
    kept_.push_back(item);
    if (kept_.size() < most_) return;
    for (std::size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
    kept_.resize((kept_.size() + 1) / 2);
    stride_ *= 2;
  }
  std::vector<T> items() const {
    std::vector<T> all = kept_;
    if (count_ > 0 && (count_ - 1) % stride_ != 0) all.push_back(last_);
    return all;
  }

 private:
  std::size_t most_;
  std::vector<T> kept_;
  std::int64_t stride_ = 1;
  std::int64_t count_ = 0;
  T last_{};
};

}  // namespace flotilla::report
