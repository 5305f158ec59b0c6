// SPDX-License-Identifier: Apache-2.0
#include "src/report/reduction.hpp"

#include <cmath>

namespace flotilla::report {

void Reduction::Bucket::add(const Bucket& later) {
  last_step = later.last_step;
  if (later.finite == 0) return;
  if (std::isnan(low.value) || later.low.value < low.value) low = later.low;
  if (std::isnan(high.value) || later.high.value > high.value) high = later.high;
  sum += later.sum;
  finite += later.finite;
}

void Reduction::add(Point point) {
  if (buckets_.empty()) first_ = point;
  last_ = point;
  const bool is_finite = std::isfinite(point.value);
  const Bucket own{.low = point,
                   .high = point,
                   .last_step = point.step,
                   .sum = is_finite ? point.value : 0.0,
                   .finite = is_finite ? 1 : 0};
  if (!buckets_.empty() && in_last_ < width_) {
    buckets_.back().add(own);
    ++in_last_;
    return;
  }
  if (buckets_.size() == max_buckets_) {
    halve();
    add(point);
    return;
  }
  buckets_.push_back(own);
  in_last_ = 1;
}

/// Joins each two neighbours; all buckets are full.
void Reduction::halve() {
  join_neighbours(buckets_);
  width_ *= 2;
  in_last_ = width_;
}

std::vector<Point> Reduction::points() const {
  std::vector<Point> all;
  if (buckets_.empty()) return all;
  const auto put = [&all](const Point& point) {
    if (all.empty() || point.step > all.back().step) all.push_back(point);
  };
  put(first_);
  for (const Bucket& bucket : buckets_) {
    const bool falls = bucket.high.step < bucket.low.step;
    put(falls ? bucket.high : bucket.low);
    put(falls ? bucket.low : bucket.high);
  }
  put(last_);
  return all;
}

std::vector<Point> Reduction::means() const {
  std::vector<Point> all;
  if (width_ == 1) return all;
  for (const Bucket& bucket : buckets_) {
    const double mean = bucket.sum / static_cast<double>(bucket.finite);  // NaN where nothing is finite
    all.push_back({bucket.last_step, mean});
  }
  return all;
}

}  // namespace flotilla::report
