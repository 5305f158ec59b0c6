// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/reduce/power_sgd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernels/cpu/linear.hpp"
#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/median.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

namespace {

constexpr double dependent = 1e-7;  ///< Share of a vector that the rounding of float leaves of it

/// Whether the device stores a matrix as its transpose, which has the same products with their factors
/// exchanged.
bool is_stored_transposed(const TensorSet& tensors, std::size_t slice) {
  const Slice& tensor = tensors.layout()[slice];
  if (tensor.shape.rank() != 2 || tensor.size != tensor.shape.size()) return false;
  constexpr std::size_t distinct = 65521;  // a prime: neighbours in rows and columns differ
  std::vector<float> stored(static_cast<std::size_t>(tensor.size));
  std::vector<float> plain(stored.size());
  for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<float>(i % distinct);
  tensors.to_plain(slice, stored, plain);
  const auto rows = static_cast<std::size_t>(tensor.shape[0]);
  const auto columns = static_cast<std::size_t>(tensor.shape[1]);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      if (plain[row * columns + column] != stored[column * rows + row]) return false;
  return true;
}

template <class T>
double dot(std::span<const double> a, std::span<T> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * double{b[i]};
  return sum;
}

double mebibytes(std::size_t floats) {
  return static_cast<double>(floats * sizeof(float)) / (1024.0 * 1024.0);
}

}  // namespace

CompressionCut cut_for_compression(const TensorSet& tensors, std::int64_t rank, double min_rate) {
  CompressionCut cut{.rank = rank};
  const std::vector<Slice>& slices = tensors.layout().slices();
  for (std::size_t slice = 0; slice < slices.size(); ++slice) {
    const Shape& shape = slices[slice].shape;
    ThinProduct product{
        .slice = slice, .number = cut.products.size(), .left = cut.left_size, .right = cut.right_size};
    product.rows = shape.rank() > 1 ? shape[0] : 1;
    product.columns = shape.size() / std::max<std::int64_t>(1, product.rows);
    product.rank = std::min({rank, product.rows, product.columns});
    const auto sent = static_cast<double>(product.rank * (product.rows + product.columns));
    if (shape.rank() < 2 || sent * min_rate >= static_cast<double>(shape.size())) {
      cut.whole.push_back(slice);
      cut.whole_size += static_cast<std::size_t>(slices[slice].size);
      continue;
    }
    if (!tensors.is_plain(slice)) {
      product.converted = !is_stored_transposed(tensors, slice);
      if (!product.converted) std::swap(product.rows, product.columns);
    }
    cut.left_size += product.left_size();
    cut.right_size += product.right_size();
    cut.products.push_back(product);
  }
  return cut;
}

void orthonormalise(std::span<float> vectors, std::size_t count, std::span<double> room) {
  const std::size_t size = vectors.size() / count;
  const std::span<double> vector = room.first(size);
  for (std::size_t k = 0; k < count; ++k) {
    const std::span<float> result = vectors.subspan(k * size, size);
    std::ranges::copy(result, vector.begin());
    const double before = std::sqrt(dot(vector, vector));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t earlier = 0; earlier < k; ++earlier) {
        const std::span<const float> other = vectors.subspan(earlier * size, size);
        const double part = dot(vector, other);
        for (std::size_t i = 0; i < size; ++i) vector[i] -= part * double{other[i]};
      }
    }
    const double left = std::sqrt(dot(vector, vector));
    const double factor = left <= dependent * before ? 0.0 : 1.0 / left;
    for (std::size_t i = 0; i < size; ++i) result[i] = static_cast<float>(factor * vector[i]);
  }
}

PowerSgd::PowerSgd(Parts parts, const AllReducePlan& plan, const mpi::Communicator& host)
    : parts_(std::move(parts)),
      leading_(parts_.gradients.size() - static_cast<std::size_t>(parts_.tensors.layout().size())),
      sent_(parts_.device, parts_.cut.count(leading_), plan, host) {
  Device& device = parts_.device;
  require(device.info().shares_host_memory, "compression on a device with memory of its own");
  reduction_ = make_reduction(plan, parts_.workers, host, device, sent_,
                              std::array{whole_and_left(), all_right()});  // with what `exact` sums later
  std::size_t converted = 0;
  std::size_t longest = 0;
  for (const ThinProduct& product : parts_.cut.products) {
    factor_tensors_.add({.name = parts_.tensors.layout()[product.slice].name,
                         .shape = {product.rank, product.columns},
                         .initializer = {.kind = Initializer::Kind::normal, .scale = 1.0}});
    if (product.converted) converted = std::max(converted, product.size());
    longest = std::max(longest, static_cast<std::size_t>(product.rows));
  }
  const auto factors = static_cast<std::size_t>(factor_tensors_.layout().size());
  factors_ = device.memory().allocate(factors);
  first_factors_ = device.memory().allocate(factors);
  constexpr std::uint64_t not_the_weights = 0x506F776572534744;  // the first of which are other draws
  factor_tensors_.initialise(device.memory(), parts_.seed ^ not_the_weights, first_factors_.span());
  if (parts_.errors.size() == 0) {
    errors_ = device.memory().allocate(static_cast<std::size_t>(parts_.tensors.layout().size()));
    parts_.errors = errors_.span();
  }
  plain_ = device.memory().allocate(converted);
  device.flat().copy(first_factors_.span(), factors_.span());
  room_.resize(longest);
}

/// Without the values that `reduction_.exact` sums.
DeviceSpan<float> PowerSgd::whole_and_left() const {
  const std::size_t begin = reduction_.exact ? leading_ : 0;
  return sent_.values().subspan(begin, sent_.values().size() - parts_.cut.right_size - begin);
}

DeviceSpan<float> PowerSgd::left(const ThinProduct& product) const {
  return sent_.values().subspan(leading_ + parts_.cut.whole_size + product.left, product.left_size());
}

DeviceSpan<float> PowerSgd::right(const ThinProduct& product) const {
  return all_right().subspan(product.right, product.right_size());
}

DeviceSpan<float> PowerSgd::gradient(std::size_t slice) const {
  return part_of(parts_.gradients.subspan(leading_, parts_.gradients.size() - leading_),
                 parts_.tensors.layout()[slice]);
}

/// Gradient and error of this worker as a matrix. A converted one takes the place of the gradient, which is
/// part of it by then.
DeviceSpan<float> PowerSgd::matrix(const ThinProduct& product) {
  if (product.converted) return gradient(product.slice).subspan(0, product.size());
  return part_of(parts_.errors, parts_.tensors.layout()[product.slice]);
}

DeviceSpan<float> PowerSgd::kept(Storage& factors, const ThinProduct& product) const {
  return part_of(factors.span(), factor_tensors_.layout()[product.number]);
}

/// Pᵀ ← Qᵀ Mᵀ, of the gradient and the error before.
void PowerSgd::multiply_left(const ThinProduct& product) {
  const DeviceSpan<float> error = part_of(parts_.errors, parts_.tensors.layout()[product.slice]);
  parts_.device.flat().axpy(1.0F, gradient(product.slice), error);
  if (product.converted) parts_.tensors.to_plain(product.slice, host_span(error), host_span(matrix(product)));
  matrix_product(parts_.device.info().threads, product.rank, product.rows, product.columns,
                 {kept(factors_, product).address()}, {matrix(product).address(), true}, 0.0F,
                 left(product).address());
}

/// Qᵀ ← Pᵀ M
void PowerSgd::multiply_right(const ThinProduct& product) {
  orthonormalise(host_span(left(product)), static_cast<std::size_t>(product.rank), room_);
  matrix_product(parts_.device.info().threads, product.rank, product.columns, product.rows,
                 {left(product).address()}, {matrix(product).address()}, 0.0F, right(product).address());
}

/// Gradient ← P Qᵀ with the sum of all workers' Q, and error ← gradient and error before − the mean. Not by
/// the library's product, whose bits may depend on the number of threads, which workers need not share.
void PowerSgd::expand(const ThinProduct& product) {
  FlatMath& flat = parts_.device.flat();
  const Slice& slice = parts_.tensors.layout()[product.slice];
  const DeviceSpan<float> result = gradient(product.slice);
  const DeviceSpan<float> rows = product.converted ? plain_.span().subspan(0, product.size()) : result;
  const std::span<const float> left_values = host_span(left(product));
  const auto columns = static_cast<std::size_t>(product.columns);
  const auto factor = [&](DeviceSpan<float> factors, std::int64_t k) {
    return factors.subspan(static_cast<std::size_t>(k) * columns, columns);
  };
  flat.fill(rows, 0.0F);
  for (std::int64_t row = 0; row < product.rows; ++row)
    for (std::int64_t k = 0; k < product.rank; ++k)
      flat.axpy(left_values[static_cast<std::size_t>(k * product.rows + row)], factor(right(product), k),
                rows.subspan(static_cast<std::size_t>(row) * columns, columns));
  if (product.converted) parts_.tensors.from_plain(product.slice, host_span(rows), host_span(result));
  flat.axpy(-1.0F / static_cast<float>(parts_.workers.size()), result, part_of(parts_.errors, slice));
  // A factor of zeros would stay so: it begins anew. The others need not be divided by the workers.
  for (std::int64_t k = 0; k < product.rank; ++k) {
    const DeviceSpan<float> next = factor(right(product), k);
    const bool zero = std::ranges::all_of(host_span(next), [](float value) { return value == 0.0F; });
    flat.copy(zero ? factor(kept(first_factors_, product), k) : next, factor(kept(factors_, product), k));
  }
}

/// What leads the gradients and whole tensors, to where they are summed or back.
void PowerSgd::move_whole(bool back) {
  std::size_t at = 0;
  const auto move = [&](DeviceSpan<float> here) {
    const DeviceSpan<float> there = sent_.values().subspan(at, here.size());
    parts_.device.flat().copy(back ? there : here, back ? here : there);
    at += here.size();
  };
  move(parts_.gradients.subspan(0, leading_));
  for (const std::size_t slice : parts_.cut.whole) move(gradient(slice));
}

/// What a scaled wire leaves of whole tensors, to where it adds it or back.
void PowerSgd::move_wire_errors(bool back) {
  if (!reduction_.rounds()) return;
  FlatMath& flat = parts_.device.flat();
  if (!back) flat.fill(reduction_.errors.span(), 0.0F);
  std::size_t at = leading_;
  for (const std::size_t slice : parts_.cut.whole) {
    const DeviceSpan<float> kept = part_of(parts_.errors, parts_.tensors.layout()[slice]);
    const DeviceSpan<float> wire = reduction_.errors.span().subspan(at, kept.size());
    flat.copy(back ? wire : kept, back ? kept : wire);
    at += kept.size();
  }
}

void PowerSgd::sum(std::int64_t step) {
  const trace::Span span("all-reduce of factors");
  move_whole(false);
  move_wire_errors(false);
  for (const ThinProduct& product : parts_.cut.products) multiply_left(product);
  parts_.watchdog.beat("all-reduce of left factors", step);
  if (reduction_.exact) mpi::all_reduce_now(*reduction_.exact, sent_.values().subspan(0, leading_), step);
  mpi::all_reduce_now(reduction_.first(), whole_and_left(), step);
  move_whole(true);
  move_wire_errors(true);
  for (const ThinProduct& product : parts_.cut.products) multiply_right(product);
  parts_.watchdog.beat("all-reduce of right factors", step);
  mpi::all_reduce_now(reduction_.first(), all_right(), step);
  for (const ThinProduct& product : parts_.cut.products) expand(product);
}

std::size_t PowerSgd::sent_bytes() const {
  return (reduction_.exact ? reduction_.exact->sent_bytes(leading_) : 0) +
         reduction_.first().sent_bytes(whole_and_left().size()) +
         reduction_.first().sent_bytes(parts_.cut.right_size);
}

void PowerSgd::measure(mpi::Collectives& plain, std::span<const DeviceSpan<float>> buckets) {
  constexpr double budget_ms = 1000.0;
  const auto turn = [&] {
    parts_.watchdog.beat("measuring the compression of gradients", -1);
    parts_.workers.barrier();
    const std::int64_t begin_ns = trace::now_ns();
    for (const DeviceSpan<float> bucket : buckets) mpi::all_reduce_now(plain, bucket);
    const std::int64_t middle_ns = trace::now_ns();
    sum(-1);
    std::array<double, 2> times{static_cast<double>(middle_ns - begin_ns) / 1e6,
                                static_cast<double>(trace::now_ns() - middle_ns) / 1e6};
    parts_.workers.all_reduce(std::span<double>(times), mpi::Op::max);
    return times;
  };
  std::array<double, 2> now = turn();  // touches pages and opens connections for the first time
  const auto turns = static_cast<int>(std::clamp(budget_ms / (now[0] + now[1]), 1.0, 5.0));
  std::array<std::vector<double>, 2> times;
  for (int i = 0; i < turns; ++i) {
    now = turn();
    for (const std::size_t way : {0, 1}) times[way].push_back(now[way]);
  }
  plain_ms_ = median(times[0]);
  compressed_ms_ = median(times[1]);
  parts_.device.flat().copy(first_factors_.span(), factors_.span());
  clear_errors();
}

StateArray PowerSgd::factors() {
  return {cat("strategy/powersgd_rank_", parts_.cut.rank), StateArray::Layout::parameters, factors_.span(),
          &factor_tensors_};
}

StateArray PowerSgd::errors() {
  return {"strategy/compression_errors", StateArray::Layout::parameters, parts_.errors};
}

std::string PowerSgd::description() const {
  return fmt::format(
      "compression  PowerSGD of rank {} from step {} on: {:.2f} of {:.2f} MiB{}", parts_.cut.rank,
      parts_.start, mebibytes(sent_.values().size()), mebibytes(parts_.gradients.size()),
      plain_ms_ == 0.0 ? "" : fmt::format(" in {:.2f} ms, without {:.2f} ms", compressed_ms_, plain_ms_));
}

std::vector<std::string> PowerSgd::warnings() const {
  std::vector<std::string> warnings;
  if (!reduction_.left_out.empty()) warnings.push_back(reduction_.left_out);
  if (compressed_ms_ > plain_ms_)
    warnings.push_back(fmt::format(
        "strategy.compression = \"powersgd\" is slower here than gradients as they are: {:.2f} ms a step, "
        "without it {:.2f} ms, of which the backward pass hides a part; use \"none\"",
        compressed_ms_, plain_ms_));
  return warnings;
}

std::int64_t PowerSgd::held_bytes() const {
  return static_cast<std::int64_t>((sent_.values().size() + factors_.size() + first_factors_.size() +
                                    errors_.size() + plain_.size() + reduction_.errors.size()) *
                                   sizeof(float));
}

}  // namespace flotilla
