// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/buckets.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/error.hpp"

namespace flotilla {

std::vector<Bucket> cut_buckets(const ArenaLayout& layout, std::int64_t leading, std::int64_t bucket_bytes,
                                std::int64_t last_bucket_bytes) {
  require(bucket_bytes > 0 && last_bucket_bytes > 0, "bucket sizes must be positive");
  std::vector<Bucket> buckets;
  Bucket open;
  std::int64_t limit = last_bucket_bytes;
  for (std::size_t i = 0; i < layout.slices().size(); ++i) {
    const bool last = i + 1 == layout.slices().size();
    open.end = leading + (last ? layout.size() : layout[i + 1].offset);
    ++open.gradients;
    if (last || (open.end - open.begin) * static_cast<std::int64_t>(sizeof(float)) >= limit) {
      buckets.push_back(open);
      open = {.begin = open.end, .end = open.end, .gradients = 0};
      limit = bucket_bytes;
    }
  }
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

std::int64_t bucket_bytes(double mebibytes) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(mebibytes * 1024 * 1024));
}

DeviceSpan<float> span_of(DeviceSpan<float> gradients, const Bucket& bucket) {
  return gradients.subspan(static_cast<std::size_t>(bucket.begin),
                           static_cast<std::size_t>(bucket.end - bucket.begin));
}

std::string describe(const std::vector<Bucket>& buckets) {
  int gradients = 0;
  std::string sizes;
  for (const Bucket& bucket : buckets) {
    gradients += bucket.gradients;
    const double mib = static_cast<double>(bucket.end - bucket.begin) * sizeof(float) / (1024.0 * 1024.0);
    sizes += fmt::format("{}{:.{}f}", sizes.empty() ? "" : ", ", mib, mib < 1.0 ? 2 : 1);
  }
  return cat(gradients, gradients == 1 ? " gradient in " : " gradients in ", buckets.size(),
             buckets.size() == 1 ? " bucket: " : " buckets: ", sizes, " MiB");
}

}  // namespace flotilla
