// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/emulated_link.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "kernels/trace.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/messages.hpp"
#include "mpi/all_reduce/sum_tree.hpp"
#include "mpi/core/collective_checks.hpp"

namespace flotilla::mpi {

namespace {

/// Values by bytes of Ethernet frames with TCP's headers and time stamps; every second frame that comes the
/// other way is acknowledged by one of 66 bytes.
constexpr double payload = 1448.0 / (1514.0 + 66.0 / 2.0);
constexpr double kib = 1024.0;  ///< As tc's "kb"
/// Larger messages ask first whether there is room: their beginning, an answer, and the rest.
constexpr std::size_t eager_bytes = 65536;
constexpr int trips_of_large_message = 3;
constexpr std::size_t halving_bytes = 262144;  ///< Open MPI 4: from here on Rabenseifner's algorithm

class SlowedAllReduce final : public Collectives {
 public:
  SlowedAllReduce(const Communicator& group, std::unique_ptr<Collectives> sums, EmulatedLink& link, Wire wire,
                  SumOrder order)
      : messages_(new Messages(group)),
        sums_(std::move(sums)),
        link_(link),
        wire_(wire),
        order_(order),
        calls_(link.next_user() << 40U) {}

  int ranks() const override { return sums_->ranks(); }

  void all_reduce(DeviceSpan<float> data, CallSite at) override {
    meet(at);
    const std::int64_t begin_ns = trace::now_ns();
    sums_->all_reduce(data, at);
    const LinkUse use = link_use(ranks(), *sums_, data.size(), wire_, order_);
    const trace::Span span("emulated link");
    std::this_thread::sleep_until(std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(link_.arrival_ns(begin_ns, use, calls_++))));
  }

  std::size_t sent_bytes(std::size_t count) const override { return sums_->sent_bytes(count); }
  std::vector<int> missing_ranks() const override {
    std::vector<int> missing = messages_->missing_ranks();
    return missing.empty() ? sums_->missing_ranks() : missing;
  }

 private:
  /// A slow link does not slow those down who wait for a rank that is late.
  void meet(const CallSite& at) {
    const CollectiveScope call(messages_->group(), "meeting at an emulated link", at);
    const int own = messages_->group().rank();
    met_.resize(static_cast<std::size_t>(ranks()));
    for (int other = 0; other < ranks(); ++other) {
      if (other == own) continue;
      messages_->receive(&met_[static_cast<std::size_t>(other)], 1, other);
      messages_->send(&met_[static_cast<std::size_t>(own)], 1, other);
    }
    messages_->wait();
  }

  std::unique_ptr<Messages, LeaveWhileThrowing<Messages>> messages_;
  std::unique_ptr<Collectives> sums_;
  EmulatedLink& link_;
  Wire wire_;
  SumOrder order_;
  std::uint64_t calls_;
  std::vector<std::byte> met_;
};

}  // namespace

double EmulatedLink::latency_ns(std::uint64_t call) const {
  const double drawn = model_.jitter > 0.0 ? -std::log1p(-Random(seed_, random_wire, ~call).uniform()) : 0.0;
  return model_.latency_us * 1e3 * (1.0 + model_.jitter * drawn);
}

std::int64_t EmulatedLink::arrival_ns(std::int64_t begin_ns, const LinkUse& use, std::uint64_t call) {
  const double ns_per_byte = 8.0 * sharers_ * model_.both_ways / model_.gbit_s;
  const auto begin = static_cast<double>(begin_ns);
  double sent = 0.0;
  {
    const std::scoped_lock lock(mutex_);
    at_rest_ns_ = std::max(at_rest_ns_, begin) + static_cast<double>(use.bytes) / payload * ns_per_byte;
    sent = std::max(begin, at_rest_ns_ - model_.burst_kb * kib * 8.0 / model_.gbit_s);
  }
  return std::llround(sent + use.messages * latency_ns(call));
}

LinkUse link_use(int ranks, const Collectives& sums, std::size_t count, Wire wire, SumOrder order) {
  LinkUse use{.messages = 2, .bytes = sums.sent_bytes(count)};
  if (!is_scaled(wire)) {
    const bool own = wire != Wire::float32 || order == SumOrder::tree;
    use.messages = own ? static_cast<int>(sum_steps(ranks, 0, 1, wire, {}).size())
                       : 2 * std::bit_width(static_cast<unsigned>(ranks - 1));
    const std::size_t bytes = count * sizeof(float);
    if (!own && bytes >= halving_bytes && !std::has_single_bit(static_cast<unsigned>(ranks))) {
      // Pairs of the ranks above a power of two reduce by halves first, and get the whole result at last.
      const std::size_t power = std::bit_floor(static_cast<unsigned>(ranks));
      use = {.messages = use.messages + 1, .bytes = 2 * bytes + 2 * (power - 1) * bytes / power};
    }
  }
  if (use.bytes > eager_bytes * static_cast<std::size_t>(use.messages))
    use.messages *= trips_of_large_message;
  return use;
}

std::unique_ptr<Collectives> make_slowed_all_reduce(const Communicator& group,
                                                    std::unique_ptr<Collectives> sums, EmulatedLink* link,
                                                    Wire wire, SumOrder order) {
  if (link == nullptr || group.size() == 1) return sums;
  return std::make_unique<SlowedAllReduce>(group, std::move(sums), *link, wire, order);
}

std::string describe(const LinkModel& link) {
  std::string text = cat(link.gbit_s, " Gbit/s, latency ", link.latency_us, " us");
  if (link.both_ways > 1.0) text += cat(", both ways at a time ", link.both_ways, " times as long");
  if (link.burst_kb > 0.0) text += cat(", burst ", link.burst_kb, " KiB");
  if (link.jitter > 0.0) text += cat(", jitter ", link.jitter);
  return text;
}

}  // namespace flotilla::mpi
