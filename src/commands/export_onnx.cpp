// SPDX-License-Identifier: Apache-2.0
#include "src/commands/export_onnx.hpp"

#include <fmt/ranges.h>

#include <map>
#include <optional>

#include "kernels/error.hpp"
#include "src/commands/version.hpp"
#include "src/config/deck.hpp"
#include "src/data/arrays/open_arrays.hpp"
#include "src/data/arrays/sample_scaling.hpp"
#include "src/data/idx_dataset.hpp"
#include "src/data/images/image_dataset.hpp"
#include "src/data/images/image_transform.hpp"
#include "src/onnx/model_graph.hpp"
#include "src/onnx/write_onnx.hpp"

namespace flotilla {

namespace {

/// The samples that the network of a deck takes.
struct SampleForm {
  Shape shape{};                       ///< (C,H,W) of images; empty where the data do not say it
  std::optional<ByteScaling> bytes{};  ///< Of images
};

SampleForm form_of(const DataConfig& data) {
  if (data.has_images())
    return {.shape = {3, data.image_size, data.image_size}, .bytes = normalization(transform_spec(data))};
  if (data.kind == DataKind::idx) {
    const std::string& images = data.validation.given ? data.validation.images : data.train.images;
    const auto digits = open_idx_dataset(images, "", 1, {.mean = data.mean, .std = data.std});
    return {.shape = digits->sample_shape(), .bytes = digits->scaling()};
  }
  if (data.has_arrays() || data.kind == DataKind::cifar) {
    DataSourceConfig source = data.validation.given ? data.validation : data.train;
    source.inputs = {source.path};  // no labels are needed
    const auto arrays = open_arrays(data, source, 0, {.training = !data.validation.given});
    return {.shape = arrays->sample_shape(), .bytes = arrays->scaling()};
  }
  SampleForm form;
  if (data.kind == DataKind::random)
    for (const std::int64_t extent : data.shape) form.shape.append(extent);
  return form;
}

/// How the inputs are scaled: (x − mean) / std, of bytes with x / 255; empty where they are not.
/// @param bytes the samples are known to be images of bytes
GivenScaling scale_of(const DataConfig& data, bool bytes) {
  if (data.has_images() || data.kind == DataKind::cifar) return {data.image_mean, data.image_std};
  if (data.kind == DataKind::idx) return {{data.mean}, {data.std}};
  if (!data.has_arrays()) return {};
  if (data.input_mean.empty() && data.input_std.empty()) {
    if (bytes || data.pixel_scale_given) return {{data.mean}, {data.std}};
    return {};
  }
  GivenScaling scale{data.input_mean, data.input_std};
  if (scale.mean.empty()) scale.mean.assign(scale.std.size(), 0.0);
  if (scale.std.empty()) scale.std.assign(scale.mean.size(), 1.0);
  return scale;
}

/// What programs that use the model may want to know.
std::map<std::string, std::string> metadata_of(const Config& config, const CheckpointState& state,
                                               bool bytes) {
  std::map<std::string, std::string> all = {{"step", cat(state.step)}};
  const auto labels = state.choices.find("data.class_names");
  if (labels != state.choices.end() && !labels->second.empty()) all["labels"] = labels->second;
  const GivenScaling scale = scale_of(config.data, bytes);
  if (scale.mean.empty()) return all;
  all["mean"] = fmt::format("[{}]", fmt::join(scale.mean, ", "));
  all["std"] = fmt::format("[{}]", fmt::join(scale.std, ", "));
  return all;
}

}  // namespace

std::string export_onnx(const ExportArguments& arguments,
                        const std::function<void(const std::string&)>& on_damaged) {
  check_onnx();
  std::string path = checkpoint_at(arguments.checkpoint, on_damaged);
  check_output_file(arguments.output, {path});
  const Snapshot model = read_model(path, arguments.average);
  const Config config = load_deck({.path = path, .text = model.state.deck, .overrides = {}}).config;
  OnnxForm form{.keep_batch_norm = arguments.keep_batch_norm};
  bool bytes = false;
  const bool takes_rows = config.model.kind == "mlp" || config.model.has_embeddings();
  if (!takes_rows || arguments.with_preprocessing) {
    const SampleForm samples = form_of(config.data);
    if (arguments.with_preprocessing && !samples.bytes)
      throw UserError(cat("--with-preprocessing is for images, and the samples of ", path,
                          " are of data.kind = \"", config.data.kind, "\": leave it out"));
    form.sample = samples.shape;
    bytes = samples.bytes.has_value();
    if (arguments.with_preprocessing) form.preprocessing = samples.bytes;
  }
  OnnxGraph graph = make_onnx_graph(config, model, form);
  graph.metadata = metadata_of(config, model.state, bytes);
  write_onnx(arguments.output, graph, version_line());
  return path;
}

}  // namespace flotilla
