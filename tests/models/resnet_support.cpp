// SPDX-License-Identifier: Apache-2.0
#include "tests/models/resnet_support.hpp"

#include "kernels/random.hpp"
#include "tests/models/lift_above_zero.hpp"

namespace flotilla::test {

namespace {

Storage arena_for(Device& device, const ArenaLayout& layout) {
  return device.memory().allocate(static_cast<std::size_t>(layout.size()));
}

}  // namespace

std::unique_ptr<Network> make_resnet(Device& device, const ResnetCase& resnet) {
  const Shape sample{resnet.input[1], resnet.input[2], resnet.input[3]};
  return make_layer_network(
      device, plan_layers(resnet_layers(resnet.model), sample),
      {.batch = resnet.input[0], .purpose = resnet.model.purpose, .exchange = resnet.exchange});
}

ResnetRun::ResnetRun(const std::string& kind, const ResnetCase& resnet, std::int64_t first_image, int threads,
                     Precision precision)
    : device(make_device({.kind = kind, .threads = threads, .precision = precision})),
      network(make_resnet(*device, resnet)),
      parameters(arena_for(*device, network->layout())),
      gradients(arena_for(*device, network->layout())),
      statistics(arena_for(*device, network->statistics().layout())),
      step_values(arena_for(*device, network->statistics().layout())),
      sums(device->memory().allocate(ArenaLayout::alignment)) {
  network->bind({.parameters = parameters.span(),
                 .gradients = gradients.span(),
                 .statistics = statistics.span(),
                 .step_statistics = step_values.span()});
  network->parameters().initialise(device->memory(), 7, parameters.span());
  network->statistics().initialise(device->memory(), 7, statistics.span());
  const std::int64_t size = resnet.input.size() / resnet.input[0];
  for (std::int64_t image = first_image; image < first_image + resnet.input[0]; ++image) {
    Random random(11, random_data, static_cast<std::uint64_t>(image));
    for (std::int64_t i = 0; i < size; ++i) images.push_back(static_cast<float>(random.normal()));
    labels.push_back(static_cast<std::int32_t>(image * 7 % resnet.model.outputs));
  }
}

void ResnetRun::lift_above_zero() {
  test::lift_above_zero(*device, *network, parameters.span());
}

double ResnetRun::loss(Pass pass) {
  device->flat().fill(sums.span(), 0.0F);
  device->flat().fill(step_values.span(), 0.0F);
  network->forward(images, {.labels = labels, .valid = network->batch()}, pass,
                   sums.span().subspan(0, loss_sums));
  std::vector<float> values(sums.size());
  device->memory().download(sums.span(), values);
  return static_cast<double>(values[sum_loss]);
}

double ResnetRun::step(float scale) {
  const double sum = loss();
  if (scale == 0.0F) scale = 1.0F / static_cast<float>(network->batch());
  network->backward({.labels = labels, .valid = network->batch()}, scale, [](std::int64_t) {});
  return sum;
}

std::vector<float> ResnetRun::plain(const TensorSet& tensors, DeviceSpan<const float> arena) const {
  std::vector<float> all;
  for (std::size_t i = 0; i < tensors.layout().slices().size(); ++i) {
    const Slice& slice = tensors.layout()[i];
    std::vector<float> stored(static_cast<std::size_t>(slice.size));
    device->memory().download(part_of(arena, slice), stored);
    std::vector<float> values = stored;
    if (!tensors.is_plain(i)) {
      values.resize(static_cast<std::size_t>(slice.shape.size()));
      tensors.to_plain(i, stored, values);
    }
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::vector<float> ResnetRun::plain_gradients() const {
  return plain(network->parameters(), gradients.span());
}

std::vector<float> ResnetRun::step_statistics() const {
  return plain(network->statistics(), step_values.span());
}

std::vector<float> ResnetRun::logits() const {
  std::vector<float> values(static_cast<std::size_t>(network->logits().shape().size()));
  device->tensors().download(network->logits(), values);
  return values;
}

}  // namespace flotilla::test
