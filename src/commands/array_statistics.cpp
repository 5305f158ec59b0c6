// SPDX-License-Identifier: Apache-2.0
#include "src/commands/array_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/error.hpp"
#include "src/observe/console.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t values_at_once = std::int64_t{1} << 20;
constexpr std::int64_t max_listed_groups = 256;
constexpr std::int64_t max_grouped_values = std::int64_t{1} << 24;  // of a row
constexpr std::int64_t max_read_bytes = std::int64_t{1} << 28;
constexpr std::int64_t max_row_bytes = std::int64_t{1} << 30;

/// The grouping of an array's numbers: number k belongs to group k / inner mod groups.
struct Grouping {
  std::int64_t groups = 1;
  std::int64_t inner = 1;
};

Grouping grouping_of(const ArrayForm& form, bool channels_last) {
  const auto& extents = form.extents;
  Grouping grouping;
  if (extents.size() == 2) grouping = {.groups = extents[1], .inner = 1};
  if (extents.size() == 4) grouping = {.groups = extents[1], .inner = extents[2] * extents[3]};
  if (extents.size() == 4 && channels_last) grouping = {.groups = extents[3], .inner = 1};
  if (grouping.groups > max_listed_groups || form.row_values() > max_grouped_values) grouping = {};
  return grouping;
}

/// The moments of one group's numbers in a piece: runs of `inner` neighbours, `stride` numbers from one run
/// to the next.
Moments moments_of(std::span<const double> values, const Grouping& grouping, std::int64_t group,
                   ArrayStatistics& statistics) {
  const auto stride = static_cast<std::size_t>(grouping.groups * grouping.inner);
  const auto inner = static_cast<std::size_t>(grouping.inner);
  const auto for_each = [&](const auto& use) {
    for (std::size_t begin = static_cast<std::size_t>(group) * inner; begin < values.size(); begin += stride)
      for (std::size_t k = begin; k < begin + inner; ++k)
        if (std::isfinite(values[k])) use(values[k]);
  };
  Moments moments;
  double sum = 0.0;
  for_each([&](double value) {
    sum += value;
    ++moments.count;
    statistics.min = std::min(statistics.min, value);
    statistics.max = std::max(statistics.max, value);
  });
  if (moments.count == 0) return moments;
  moments.mean = sum / static_cast<double>(moments.count);
  for_each([&](double value) { moments.squares += (value - moments.mean) * (value - moments.mean); });
  return moments;
}

/// Rows of a read: whole chunks, since the cache may be too small to keep them between two reads. Where those
/// take more than max_read_bytes, chunks are decoded again for each read of some of their rows.
std::int64_t rows_of_read(const Array& array) {
  const ArrayForm& form = array.form();
  const std::int64_t most = std::max<std::int64_t>(1, max_read_bytes / form.row_bytes());
  const std::int64_t chunk = array.rows_at_once();
  if (chunk > most) return most;
  return std::max(chunk, values_at_once / form.row_values() / chunk * chunk);
}

}  // namespace

double Moments::deviation() const {
  return count == 0 ? 0.0 : std::sqrt(squares / static_cast<double>(count));
}

void Moments::add(const Moments& other) {
  if (other.count == 0) return;
  const auto here = static_cast<double>(count);
  const auto there = static_cast<double>(other.count);
  const double difference = other.mean - mean;
  mean += difference * there / (here + there);
  squares += other.squares + difference * difference * here * there / (here + there);
  count += other.count;
}

ArrayStatistics statistics_of(const Array& array, bool channels_last,
                              const std::function<void(std::int64_t)>& beat) {
  const ArrayForm& form = array.form();
  if (form.row_bytes() > max_row_bytes)
    throw UserError(cat(form.name, ": a row of its shape ", form.shape_text(), " takes ",
                        bytes_text(form.row_bytes()), ", and rows of up to ", bytes_text(max_row_bytes),
                        " are read; the first axis of an array of samples counts them"));
  const Grouping grouping = grouping_of(form, channels_last);
  ArrayStatistics statistics;
  std::vector<Moments> groups(static_cast<std::size_t>(grouping.groups));
  const std::int64_t each = rows_of_read(array);
  std::int64_t piece = values_at_once;  // of whole rows where they have groups
  if (grouping.groups > 1)
    piece = std::max<std::int64_t>(1, values_at_once / form.row_values()) * form.row_values();
  const auto number_bytes = static_cast<std::size_t>(form.type.bytes());
  std::vector<std::byte> bytes;
  std::vector<double> values;
  for (std::int64_t first = 0; first < form.rows(); first += each) {
    beat(first);
    const std::int64_t rows = std::min(each, form.rows() - first);
    bytes.resize(static_cast<std::size_t>(rows * form.row_bytes()));
    array.read(first, rows, bytes);
    to_native_order(form.type, bytes);
    for (std::span<const std::byte> rest = bytes; !rest.empty();
         rest = rest.subspan(values.size() * number_bytes)) {
      values.resize(std::min(static_cast<std::size_t>(piece), rest.size() / number_bytes));
      to_doubles(form.type, rest.first(values.size() * number_bytes), values);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const Moments moments = moments_of(values, grouping, static_cast<std::int64_t>(g), statistics);
        groups[g].add(moments);
        statistics.all.add(moments);
      }
    }
  }
  statistics.non_finite = form.rows() * form.row_values() - statistics.all.count;
  if (groups.size() > 1) statistics.groups = std::move(groups);
  return statistics;
}

}  // namespace flotilla
