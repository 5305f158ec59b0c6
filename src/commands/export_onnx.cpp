// SPDX-License-Identifier: Apache-2.0
#include "src/commands/export_onnx.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"

#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/error.hpp"
#include "src/commands/version.hpp"
#include "src/config/deck.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/found.hpp"
#include "src/data/images/image_dataset.hpp"
#include "src/data/images/image_transform.hpp"
#include "src/data/input_form.hpp"
#include "src/onnx/model_graph.hpp"

namespace flotilla {

namespace {

/// The samples that the network of a checkpoint takes; of a checkpoint that does not keep their form that of
/// the data that its deck names.
SampleForm form_of(const DataConfig& data, const CheckpointState& state) {
  const auto kept = state.choices.find("model.inputs");
  if (kept != state.choices.end())
    return {.shape = shape_in(kept->second), .bytes = kept->second.starts_with("uint8 ")};
  const auto form = reader_of(data.kind).form;
  const DatasetUse use{.training = !data.validation.given};
  const DataSourceConfig& source = use.training ? data.train : data.validation;
  return form == nullptr ? SampleForm() : form({.data = data, .source = source, .use = use});
}

/// The scaling of images of bytes; empty for other samples.
std::optional<ByteScaling> scaling_of_bytes(const DataConfig& data, const SampleForm& form) {
  if (data.has_images()) return normalization(transform_spec(data));
  ByteScaling scaling;
  if (!form.bytes || form.shape.rank() != 3 || form.shape[0] > std::ssize(scaling.factor)) return {};
  return SampleScaling::of_pixels(form.shape[0], scaling_of(data, true)).bytes(form.shape[0]);
}

/// Metadata for programs that use the model. @param scaled the model scales its inputs itself
std::map<std::string, std::string> metadata_of(const Config& config, const CheckpointState& state, bool bytes,
                                               bool scaled) {
  std::map<std::string, std::string> all = {{"step", cat(state.step)}};
  const auto labels = state.choices.find("data.class_names");
  if (labels != state.choices.end() && !labels->second.empty()) all["labels"] = labels->second;
  const FoundInData& found = config.data.found;
  if (!found.columns.empty())
    all.merge(std::map<std::string, std::string>{{"columns", nlohmann::json(found.columns).dump()},
                                                 {"categories", nlohmann::json(found.categories).dump()},
                                                 {"fills", nlohmann::json(found.fills).dump()}});
  const GivenScaling scale = scaling_of(config.data, bytes || config.data.pixel_scale_given);
  if (scale.mean.empty() || scaled) return all;
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
  Config config = load_deck({.path = path, .text = model.state.deck, .overrides = {}, .saved = true}).config;
  take_found(model.state.choices, config);
  OnnxForm form{.keep_batch_norm = arguments.keep_batch_norm};
  SampleForm samples{.shape = {}, .bytes = false};
  const bool takes_rows = config.model.kind == "mlp" || config.model.has_embeddings();
  if (!takes_rows || arguments.with_preprocessing || model.state.choices.contains("model.inputs"))
    samples = form_of(config.data, model.state);
  form.sample = samples.shape;
  if (arguments.with_preprocessing) {
    form.preprocessing = scaling_of_bytes(config.data, samples);
    if (!form.preprocessing)
      throw UserError(cat("--with-preprocessing is for images, and the samples of ", path,
                          " are of data.kind = \"", config.data.kind, "\": leave it out"));
  }
  if (arguments.with_scaling) {
    const GivenScaling scale = scaling_of(config.data, false);
    form.mean = scale.mean;
    form.deviation = scale.std;
    if (samples.bytes || arguments.with_preprocessing || form.mean.empty())
      throw UserError(
          cat("--with-scaling is for numbers that data.input_mean and data.input_std scale, which those of ",
              path, " are not: leave it out", samples.bytes ? ", or take --with-preprocessing" : ""));
  }
  OnnxGraph graph = make_onnx_graph(config, model, form);
  graph.metadata = metadata_of(config, model.state, samples.bytes, arguments.with_scaling);
  write_onnx(arguments.output, graph, version_line());
  return path;
}

}  // namespace flotilla
