// SPDX-License-Identifier: Apache-2.0
#include "src/train/click_results.hpp"

namespace flotilla {

namespace {

std::size_t logits_of(const Network& network) {
  return static_cast<std::size_t>(2 * network.batch());
}

std::size_t all_of(const Network& network) {
  return header_size + logits_of(network) + static_cast<std::size_t>(network.input_size());
}

}  // namespace

ClickResults::ClickResults(Device& device, const Network& network, DeviceSpan<const float> gradients)
    : device_(device),
      source_(gradients.subspan(0, header_size)),
      staging_(device, static_cast<std::size_t>(network.input_size())),
      logits_copy_(logits_of(network)) {
  const DeviceInfo& info = device.info();
  if (!info.shares_host_memory && !is_half(info.precision)) together_.emplace(device, all_of(network));
}

void ClickResults::read(const Network& network) {
  if (!together_) return read_tensors(network);
  const std::span<const float> all = together_->read(source_, {&network.logits(), &network.input_gradient()});
  header_ = all.first(header_size);
  logits_ = all.subspan(header_size, logits_of(network));
  gradient_ = all.subspan(header_size + logits_of(network));
}

/// One by one: where the device shares the host's memory nothing is waited for, and halves become floats.
void ClickResults::read_tensors(const Network& network) {
  device_.memory().download(source_, header_copy_);
  device_.tensors().download(network.logits(), logits_copy_);
  header_ = header_copy_;
  logits_ = logits_copy_;
  gradient_ = staging_.read(network.input_gradient());
}

}  // namespace flotilla
