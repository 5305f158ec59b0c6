// SPDX-License-Identifier: Apache-2.0
#include "src/report/reduction.hpp"

#include <cmath>

namespace flotilla::report {

void Reduction::Bucket::add(const Point& point) {
  if (std::isnan(point.value)) return;
  if (std::isnan(low.value) || point.value < low.value) low = point;
  if (std::isnan(high.value) || point.value > high.value) high = point;
}

void Reduction::add(Point point) {
  if (buckets_.empty()) first_ = point;
  last_ = point;
  if (!buckets_.empty() && in_last_ < width_) {
    buckets_.back().add(point);
    ++in_last_;
    return;
  }
  if (buckets_.size() == most_buckets_) {
    halve();
    add(point);
    return;
  }
  buckets_.push_back({point, point});
  in_last_ = 1;
}

/// Joins each two neighbours; all buckets are full.
void Reduction::halve() {
  for (std::size_t i = 0; 2 * i < buckets_.size(); ++i) {
    Bucket joined = buckets_[2 * i];
    joined.add(buckets_[2 * i + 1].low);
    joined.add(buckets_[2 * i + 1].high);
    buckets_[i] = joined;
  }
  buckets_.resize(buckets_.size() / 2);
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

}  // namespace flotilla::report
