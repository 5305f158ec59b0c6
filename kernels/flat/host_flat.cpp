// SPDX-License-Identifier: Apache-2.0
#include "kernels/flat/host_flat.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/error.hpp"
#include "kernels/flat/chunks.hpp"
#include "kernels/flat/functors.hpp"
#include "kernels/flat/host_sweep.hpp"
#include "kernels/processor/processor.hpp"
#include "kernels/threads.hpp"

namespace flotilla {

namespace {

template <class Functor>
void sweep_all(int threads, std::size_t count, const Functor& functor) {
  const FlatRange all[] = {{.offset = 0, .count = static_cast<std::int64_t>(count)}};
  in_parts(threads, flat::count_chunks(all), [&](std::int64_t first, std::int64_t last) {
    flat::walk_chunks(all, first, last, [&](std::int64_t begin, std::int64_t end, const FlatRange&) {
      flat::sweep(functor, begin, end);
    });
  });
}

/// Sweeps an update of parameters that are then rounded into halves, which have their places.
template <class Functor>
void sweep_with_halves(const Functor& update, std::int64_t begin, std::int64_t end, std::uint16_t* halves) {
  constexpr std::int64_t block = 1024;  // All that an update reads of it stays in the first cache.
  for (; begin < end; begin += block) {
    const std::int64_t stop = std::min(begin + block, end);
    flat::sweep(update, begin, stop);
    round_to_bfloat16(stop - begin, update.in.p + begin, halves + begin);
  }
}

}  // namespace

void HostFlat::fill(DeviceSpan<float> x, float value) {
  sweep_all(threads_, x.size(), flat::Fill{x.address(), value});
}

void HostFlat::copy(DeviceSpan<const float> from, DeviceSpan<float> to) {
  require(from.size() == to.size(), "copy from ", from.size(), " to ", to.size(), " values");
  sweep_all(threads_, to.size(), flat::Copy{from.address(), to.address()});
}

void HostFlat::scale(DeviceSpan<float> x, float factor) {
  sweep_all(threads_, x.size(), flat::Scale{x.address(), factor});
}

void HostFlat::axpy(float factor, DeviceSpan<const float> x, DeviceSpan<float> y) {
  require(x.size() == y.size(), "axpy from ", x.size(), " to ", y.size(), " values");
  sweep_all(threads_, y.size(), flat::Axpy{x.address(), y.address(), factor});
}

template <class Term>
double HostFlat::sum(const Term& term, std::int64_t begin, std::int64_t count) {
  const std::int64_t chunks = flat::chunks_of(count);
  if (partials_.size() < static_cast<std::size_t>(chunks)) partials_.resize(static_cast<std::size_t>(chunks));
  in_parts(threads_, chunks, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t chunk = first; chunk < last; ++chunk) {
      const std::int64_t from = begin + chunk * flat::chunk_values;
      const std::int64_t to = std::min(from + flat::chunk_values, begin + count);
      const Term own = term;
      double partial = 0.0;
#pragma omp simd reduction(+ : partial)
      for (std::int64_t i = from; i < to; ++i) partial += own(i);
      partials_[static_cast<std::size_t>(chunk)] = partial;
    }
  });
  double sum = 0.0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += partials_[static_cast<std::size_t>(chunk)];
  return sum;
}

double HostFlat::sum_of_squares(DeviceSpan<const float> x) {
  return sum(flat::Square{x.address()}, 0, static_cast<std::int64_t>(x.size()));
}

void HostFlat::norms(DeviceSpan<const float> x, std::span<const FlatRange> ranges, std::span<double> norms) {
  require(ranges.size() == norms.size(), "norms of ", ranges.size(), " ranges into ", norms.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    norms[i] = std::sqrt(sum(flat::Square{x.address()}, ranges[i].offset, ranges[i].count));
  }
}

bool HostFlat::all_finite(DeviceSpan<const float> x) {
  return sum(flat::NotFinite{x.address()}, 0, static_cast<std::int64_t>(x.size())) == 0.0;
}

void HostFlat::pack_sums(DeviceSpan<const float> first, DeviceSpan<const float> second,
                         DeviceSpan<const float> shifts, DeviceSpan<double> sums) {
  sweep_all(threads_, first.size(), flat::pack_sums(first, second, shifts, sums));
}

void HostFlat::unpack_sums(DeviceSpan<const double> sums, DeviceSpan<const float> shifts,
                           std::int64_t batches, DeviceSpan<float> first, DeviceSpan<float> second) {
  sweep_all(threads_, first.size(), flat::unpack_sums(sums, shifts, batches, first, second));
}

void HostFlat::update(const UpdateInput& in, const UpdateRule& rule, const UpdateState& state) {
  std::uint16_t* const halves = in.halves.values.address();
  require(halves == nullptr || in.halves.precision == Precision::bfloat16,
          "a CPU reads no halves but bfloat16");
  flat::with_functor(in, rule, state, [&](const auto& functor) {
    in_parts(threads_, flat::count_chunks(in.ranges), [&](std::int64_t first, std::int64_t last) {
      flat::walk_chunks(
          in.ranges, first, last, [&](std::int64_t begin, std::int64_t end, const FlatRange& range) {
            auto own = functor;
            rules::set_constants(own.in, in.gradient_scale, in.learning_rate * range.rate_factor, in.decay,
                                 range.weight_decay);
            if (halves == nullptr) return flat::sweep(own, begin, end);
            sweep_with_halves(own, begin, end, halves);
          });
    });
  });
}

}  // namespace flotilla
