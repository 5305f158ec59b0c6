// SPDX-License-Identifier: Apache-2.0
#include "kernels/device_loops/value_checks.hpp"

#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla::loops {

void check_address(const char* name, const GivenValues& values) {
  require(values.size == 0 || values.address != nullptr, name, " must be there");
  require(reinterpret_cast<std::uintptr_t>(values.address) % 16 == 0, name, " must start on 16 bytes");
}

void check_size(const char* name, const GivenValues& values, std::int64_t size) {
  require(values.size == size, name, " must hold ", size, " values, has ", values.size);
  check_address(name, values);
}

void check_precision(const char* name, const GivenValues& values, const GivenValues& other) {
  require(values.precision == other.precision, name, " must have the precision of the other values");
}

void check_like(const char* name, const GivenValues& values, const GivenValues& other) {
  check_size(name, values, other.size);
  check_precision(name, values, other);
}

void check_residual(const BatchNormSpec& spec, const GivenValues& residual, const GivenValues& other) {
  require((residual.address != nullptr) == (spec.after == AfterNorm::add_relu),
          "batch norm has a residual with add_relu, and only then");
  if (residual.address != nullptr) check_like("the residual", residual, other);
}

void check_mask(const BatchNormSpec& spec, const std::uint8_t* positive) {
  require((positive != nullptr) == (spec.after == AfterNorm::add_relu),
          "batch norm has a mask of positive values with add_relu, and only then");
}

void check_images(const Shape& shape, std::int64_t channels) {
  require(shape.rank() == 4 && shape.size() > 0 && channels >= shape[1], "images of ", shape.text(), " with ",
          channels, " channels cannot be laid out");
}

std::int64_t rows_of(const char* name, const GivenValues& values, std::int64_t channels) {
  require(channels > 0 && values.size > 0 && values.size % channels == 0, name, " must be rows of ", channels,
          " values, has ", values.size);
  check_address(name, values);
  return values.size / channels;
}

void check_bias(DeviceSpan<const float> bias, std::int64_t channels) {
  require(bias.empty() || bias.size() == static_cast<std::size_t>(channels), "the bias must hold ", channels,
          " values, has ", bias.size());
}

void check_pool(const Pool2dSpec& spec, const std::uint8_t* chosen) {
  check_spec(spec);
  if (spec.kind != Pooling::max) return;
  require(spec.kernel <= 16, "max pooling keeps places in a byte: a kernel of at most 16, got ", spec.kernel);
  require(chosen != nullptr, "max pooling needs memory for the places of the largest values");
}

void check_loss(const SoftmaxLossSpec& spec, const GivenValues& logits, const DeviceTargets& targets,
                std::size_t normalisers) {
  flotilla::check_spec(spec);
  check_size("the logits", logits, spec.batch * spec.classes);
  require(spec.classes <= 0x7FFFFFFF, "there are too many classes: ", spec.classes);
  require(targets.valid >= 0 && targets.valid <= spec.batch, targets.valid, " valid rows of ", spec.batch);
  require(targets.valid == 0 || targets.labels != nullptr, "the labels must be there");
  require(targets.other_share == DeviceScalar<float>(0.0F) || targets.other_labels != nullptr,
          "the other labels must be there");
  require(normalisers == static_cast<std::size_t>(2 * spec.batch), "the normalisers must be ", 2 * spec.batch,
          " values, got ", normalisers);
}

void check_loss(const OutputLossSpec& spec, const GivenValues& outputs, const DeviceTargets& targets) {
  flotilla::check_spec(spec);
  check_size("the outputs", outputs, spec.batch * spec.outputs);
  require(targets.valid >= 0 && targets.valid <= spec.batch, targets.valid, " valid rows of ", spec.batch);
  require(targets.valid == 0 || targets.values != nullptr, "the targets must be there");
}

}  // namespace flotilla::loops
