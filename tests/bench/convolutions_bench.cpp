// SPDX-License-Identifier: Apache-2.0
// The convolutions and batch norms of a ResNet on the device "cpu", each shape alone: direct and Winograd's
// convolutions take turns, because the speed of shared machines changes within seconds. Totals count a shape
// as often as the network has it. Run: convolutions_bench [depth 18 or 50 [batch [side [threads [rounds]]]]]
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "tests/bench/convolutions.hpp"
#include "tests/bench/timing.hpp"

namespace flotilla {
namespace {

using bench::Convolution;
using bench::fill;
using bench::filled;
using bench::timed;

/// A specification, and how often the network has it.
template <class Spec>
struct Counted {
  Spec spec;
  int count = 1;
};

struct Network {
  std::vector<Counted<Conv2dSpec>> convolutions;
  std::vector<Counted<BatchNormSpec>> norms;

  /// Adds a convolution without bias and the batch norm after it; returns the output's shape.
  Shape add(const Shape& input, std::int64_t channels, std::int64_t kernel, std::int64_t stride,
            AfterNorm after) {
    const Conv2dSpec spec{.input = input,
                          .out_channels = channels,
                          .kernel = kernel,
                          .stride = stride,
                          .padding = kernel / 2,
                          .input_gradient = input[1] > 3};
    const Shape output = output_shape(spec);
    add_to(convolutions, spec, [&](const Conv2dSpec& other) {
      return other.input == input && other.out_channels == channels && other.kernel == kernel &&
             other.stride == stride;
    });
    add_to(norms, BatchNormSpec{.input = output, .after = after},
           [&](const BatchNormSpec& other) { return other.input == output && other.after == after; });
    return output;
  }

 private:
  template <class Spec, class Same>
  static void add_to(std::vector<Counted<Spec>>& all, const Spec& spec, const Same& same) {
    for (Counted<Spec>& counted : all) {
      if (!same(counted.spec)) continue;
      ++counted.count;
      return;
    }
    all.push_back({spec});
  }
};

Network resnet(int depth, std::int64_t batch, std::int64_t side) {
  Network network;
  const Shape stem = network.add({batch, 3, side, side}, 64, 7, 2, AfterNorm::relu);
  Shape x{batch, 64, windows(stem[2], 3, 2, 1), windows(stem[3], 3, 2, 1)};
  const bool bottleneck = depth >= 50;
  const std::array<int, 4> blocks = bottleneck ? std::array{3, 4, 6, 3} : std::array{2, 2, 2, 2};
  for (std::size_t stage = 0; stage < 4; ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::int64_t inner = std::int64_t{64} << stage;
      const std::int64_t outer = bottleneck ? 4 * inner : inner;
      const std::int64_t stride = block == 0 && stage > 0 ? 2 : 1;
      if (stride != 1 || x[1] != outer) network.add(x, outer, 1, stride, AfterNorm::nothing);
      const Shape narrow = bottleneck ? network.add(x, inner, 1, 1, AfterNorm::relu) : x;
      const Shape middle = network.add(narrow, inner, 3, stride, AfterNorm::relu);
      x = network.add(middle, outer, bottleneck ? 1 : 3, 1, AfterNorm::add_relu);
    }
  }
  return network;
}

void time_convolutions(const Network& network, int threads, int rounds) {
  const auto direct = make_device({.kind = "cpu", .threads = threads});
  const auto winograd =
      make_device({.kind = "cpu", .threads = threads, .winograd = WinogradUse::wherever_possible});
  std::printf(
      "%-30s  forward, backward_data, backward_weights: fastest ms (GFLOP/s) Winograd allowed / not\n",
      direct->info().description.c_str());
  double all = 0.0;
  double all_winograd = 0.0;
  for (const auto& [spec, count] : network.convolutions) {
    std::array<Convolution, 2> both{Convolution(*direct, spec), Convolution(*winograd, spec)};
    std::printf("%18s -> %4ld %ldx%ld /%ld x%d", spec.input.text().c_str(),
                static_cast<long>(spec.out_channels), static_cast<long>(spec.kernel),
                static_cast<long>(spec.kernel), static_cast<long>(spec.stride), count);
    for (std::size_t pass = 0; pass < Convolution::passes; ++pass) {
      if (!both[0].has(pass)) continue;
      std::array<std::vector<double>, 2> times;
      for (Convolution& one : both) one.run(pass);
      for (int round = 0; round < rounds; ++round) {
        for (std::size_t way = 0; way < 2; ++way) times[way].push_back(timed([&] { both[way].run(pass); }));
      }
      const double time = bench::fastest(times[0]);
      const double time_winograd = bench::fastest(times[1]);
      all += count * time;
      all_winograd += count * time_winograd;
      std::printf("  %7.2f (%4.0f) %.2f", 1e3 * time, both[0].gflops() / time, time_winograd / time);
    }
    std::printf("\n");
  }
  std::printf("convolutions: %.1f ms direct, %.1f ms with Winograd's: %.3f\n", 1e3 * all, 1e3 * all_winograd,
              all_winograd / all);
}

void time_norms(const Network& network, int threads, int rounds) {
  const auto device = make_device({.kind = "cpu", .threads = threads});
  std::printf("batch norm: forward, backward: median ms (GB/s of what must be read and written once)\n");
  double all = 0.0;
  for (const auto& [spec, count] : network.norms) {
    const auto plan = device->layers().batch_norm(spec);
    const bool adds = spec.after == AfterNorm::add_relu;
    const auto channels = static_cast<std::size_t>(spec.input[1]);
    Storage pairs = device->memory().allocate(6 * channels);
    fill(pairs.span());
    const auto pair = [&](std::size_t at) {
      return ChannelPair<float>{pairs.span().subspan(at * channels, channels),
                                pairs.span().subspan((at + 1) * channels, channels)};
    };
    const Tensor x = filled(*device, spec.input);
    const Tensor residual = filled(*device, spec.input);
    const Tensor dy = filled(*device, spec.input);
    const Tensor more = filled(*device, spec.input);
    Tensor y = filled(*device, spec.input);
    Tensor dx = filled(*device, spec.input);
    Tensor dresidual = filled(*device, spec.input);
    std::array<std::vector<double>, 2> times;
    for (int round = 0; round <= rounds; ++round) {
      const double forward =
          timed([&] { plan->forward(x, adds ? &residual : nullptr, pair(0), pair(2), {}, y); });
      const double backward = timed([&] {
        plan->backward(x, y, pair(0), pair(2), dy, adds ? &more : nullptr, pair(4), dx,
                       adds ? &dresidual : nullptr);
      });
      if (round == 0) continue;
      times[0].push_back(forward);
      times[1].push_back(backward);
    }
    const double bytes = 4e-9 * static_cast<double>(spec.input.size());
    const double forward = bench::median(times[0]);
    const double backward = bench::median(times[1]);
    all += count * (forward + backward);
    std::printf("%18s %-8s x%d  %7.2f (%3.0f)  %7.2f (%3.0f)\n", spec.input.text().c_str(),
                adds ? "add_relu" : "", count, 1e3 * forward, (adds ? 3 : 2) * bytes / forward,
                1e3 * backward, (adds ? 6 : 3) * bytes / backward);
  }
  std::printf("batch norm: %.1f ms\n", 1e3 * all);
}

}  // namespace
}  // namespace flotilla

int main(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) { return argc > at ? std::atoi(argv[at]) : otherwise; };
  const flotilla::Network network = flotilla::resnet(number(1, 50), number(2, 16), number(3, 224));
  flotilla::time_convolutions(network, number(4, 1), number(5, 5));
  flotilla::time_norms(network, number(4, 1), number(5, 5));
}
