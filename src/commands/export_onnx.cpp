// SPDX-License-Identifier: Apache-2.0
#include "src/commands/export_onnx.hpp"

#include <fmt/ranges.h>

#include <map>
#include <optional>

#include "kernels/error.hpp"
#include "src/commands/version.hpp"
#include "src/config/deck.hpp"
#include "src/data/arrays/open_arrays.hpp"
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
    const auto arrays = open_arrays(data, source, 0, {});
    return {.shape = arrays->sample_shape(), .bytes = arrays->scaling()};
  }
  SampleForm form;
  if (data.kind == DataKind::random)
    for (const std::int64_t extent : data.shape) form.shape.append(extent);
  return form;
}

/// What programs that use the model may want to know.
std::map<std::string, std::string> metadata_of(const Config& config, const CheckpointState& state) {
  const DataConfig& data = config.data;
  std::map<std::string, std::string> all = {{"step", cat(state.step)}};
  const auto labels = state.choices.find("data.class_names");
  if (labels != state.choices.end() && !labels->second.empty()) all["labels"] = labels->second;
  const auto add = [&](const std::vector<double>& mean, const std::vector<double>& deviation) {
    all["mean"] = fmt::format("[{}]", fmt::join(mean, ", "));
    all["std"] = fmt::format("[{}]", fmt::join(deviation, ", "));
  };
  if (data.has_images()) add(data.image_mean, data.image_std);
  if (data.kind == DataKind::idx) add({data.mean}, {data.std});
  if (data.kind == DataKind::cifar) add(data.image_mean, data.image_std);
  if (data.has_arrays() && !data.input_mean.empty()) add(data.input_mean, data.input_std);
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
  const bool takes_rows = config.model.kind == "mlp" || config.model.has_embeddings();
  if (!takes_rows || arguments.with_preprocessing) {
    const SampleForm samples = form_of(config.data);
    if (arguments.with_preprocessing && !samples.bytes)
      throw UserError(cat("--with-preprocessing is for images, and the samples of ", path,
                          " are of data.kind = \"", config.data.kind, "\": leave it out"));
    form.sample = samples.shape;
    if (arguments.with_preprocessing) form.preprocessing = samples.bytes;
  }
  OnnxGraph graph = make_onnx_graph(config, model, form);
  graph.metadata = metadata_of(config, model.state);
  write_onnx(arguments.output, graph, version_line());
  return path;
}

}  // namespace flotilla
