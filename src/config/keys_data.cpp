// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <sstream>

#include "src/config/key_table.hpp"
#include "src/config/rules.hpp"

namespace flotilla::config {
namespace {

/// The explanation of each kind of data: "idx": files of …; "image-list": ….
std::string help_of_kinds() {
  std::string text;
  for (const DataKindKeys& kind : data_kinds)
    text += cat(quoted(kind.word), kind.help.empty() ? ", " : cat(": ", kind.help, "; "));
  return text.substr(0, text.size() - 2);
}

class DataRules : public RuleChecks {
 public:
  using RuleChecks::RuleChecks;

  void validation_data() {
    if (!usable({"data.kind", "data.validation.images", "data.validation.labels"})) return;
    const DataSourceConfig& source = config.data.validation;
    if (source.images.empty() == source.labels.empty()) return;
    const bool has_images = !source.images.empty();
    reject({has_images ? "data.validation.images" : "data.validation.labels"},
           "data.validation needs images and labels, or neither of them: ", has_images ? "labels" : "images",
           " are missing");
  }

  void validation_share() {
    const DataSourceConfig& source = config.data.validation;
    for (const auto& [key, value] : {std::pair("data.validation.path", &source.path),
                                     std::pair("data.validation.images", &source.images)})
      exclude("data.validation.share", source.share > 0.0, key, !value->empty(),
              "samples are held back from training, or others are named");
  }

  void validation_path() {
    const DataSourceConfig& source = config.data.validation;
    const auto needs_path = [&](const std::string& value, const char* key, const char* what) {
      if (!usable({"data.kind", "data.validation.path", key}) || value.empty()) return;
      if (!source.path.empty() || given.find("data.validation.path") != nullptr) return;  // empty: none
      reject({key}, key, " needs data.validation.path: ", what);
    };
    needs_path(source.root, "data.validation.root", "the list of the images in it");
    needs_path(source.input_array, "data.validation.inputs", "the file that this array is in");
    needs_path(source.target_array, "data.validation.targets", "the file that this array is in");
  }

  void click_data() {
    if (!usable({"data.kind"}) || !config.data.has_clicks()) return;
    exclude("train.mixup", config.train.mixup > 0.0, "data.kind", true, "bags of ids cannot be mixed");
    exclude("train.cutmix", config.train.cutmix > 0.0, "data.kind", true, "bags of ids cannot be mixed");
    exclude("data.kind", true, "model.kind", !config.model.has_embeddings(),
            "only \"ctr-dnn\" has embeddings for the ids of click data");
  }

  void blocks() {
    const DataConfig& data = config.data;
    if (!usable({"data.order", "data.shuffle_block", "data.shuffle_buffer"}) ||
        data.order != SampleOrder::blocks || data.shuffle_buffer % data.shuffle_block == 0)
      return;
    reject({"data.shuffle_buffer", "data.shuffle_block"},
           "data.shuffle_buffer must be a multiple of data.shuffle_block, got ", data.shuffle_buffer, " and ",
           data.shuffle_block);
  }

  void balanced() {
    if (!usable({"data.order", "model.loss", "data.deal", "model.kind"})) return;
    if (config.data.order != SampleOrder::balanced) return;
    const std::string order = "data.order = \"balanced\"";
    if (!config.model.has_classes())
      reject({"data.order"}, order, " is of classes, and model.loss = ", quoted(word(config.model.loss)),
             " has none: give \"shuffled\"");
    if (config.model.has_embeddings())
      reject({"data.order"}, order,
             " is not done with model.kind = \"ctr-dnn\": its predictions would not be "
             "those of the data; give \"shuffled\" or \"file\"");
    if (config.data.deal != ShardBy::samples)
      reject({"data.deal", "data.order"}, order, " draws from all samples: leave data.deal out");
  }

  void shares() {
    exclude("data.deal", config.data.deal != ShardBy::samples, "run.reproducible", config.run.reproducible,
            "the samples of a step must not depend on the number of workers");
  }

  void table() {
    const TableConfig& data = config.data.table;
    if (!usable({"data.kind"}) || !config.data.keys().table) return;
    exclude("data.columns", !data.columns.empty(), "data.ignored_columns", !data.ignored_columns.empty(),
            "data.columns names all inputs");
    double number = 0.0;
    const std::string& fill = data.fill_missing;
    if (usable({"data.fill_missing"}) && !fill.empty() && fill != "mean" &&
        !(std::istringstream(fill) >> number >> std::ws).eof())
      reject({"data.fill_missing"}, "data.fill_missing must be \"mean\" or a number, got ", quoted(fill));
    const std::size_t targets = data.target_columns.size();
    const auto wanted = static_cast<std::size_t>(data.labels_classes ? 1 : config.model.outputs);
    if (usable({"data.target_columns", "model.loss", "model.outputs"}) && targets > 0 && targets != wanted)
      reject({"data.target_columns"}, "data.target_columns names ", targets, " columns, but ",
             data.labels_classes ? "a label is one column" : cat("model.outputs = ", wanted));
  }

  void pixel_scale() {
    const DataConfig& data = config.data;
    const char* const of_inputs = data.input_mean.empty() ? "data.input_std" : "data.input_mean";
    const char* const of_pixels = given.find("data.mean") == nullptr ? "data.std" : "data.mean";
    exclude(of_inputs, data.has_arrays() && !(data.input_mean.empty() && data.input_std.empty()), of_pixels,
            data.pixel_scale_given, "data.input_mean and data.input_std are enough, of uint8 too");
  }
};

}  // namespace

std::vector<Key> data_keys() {
  return {
      key<&DataConfig::kind>("data.kind", any_value(), must_match, help_of_kinds()),
      key<&DataConfig::shape>("data.shape", array_of(1, 3, positive(16777216)), must_match,
                              "Shape of a sample, one to three sizes")
          .only_for(data_is("random"))
          .must_be_given(),
      // not written by default: arrays that are not uint8 refuse it
      key<&DataConfig::mean>(
          "data.mean", any_value(), on_request,
          "The network sees (pixel / 255 − mean) / std; for arrays, only those of uint8 take this key")
          .only_for(data_has(&DataKindKeys::pixels))
          .may_be_left_out()
          .with_default("0.5"),
      key<&DataConfig::std>("data.std", positive(), on_request, "See data.mean")
          .only_for(data_has(&DataKindKeys::pixels))
          .may_be_left_out()
          .with_default("0.5"),
      key<&DataConfig::class_names>(
          "data.class_names", any_value(), of_machine,
          "File of the names of the classes, one a line from class 0 on, which checkpoints keep for "
          "`flotilla predict`; empty: the class folders of \"image-folder\", classes.txt beside the list of "
          "\"image-list\" or the shards of \"webdataset\" if it is there, the names that come with "
          "\"cifar\", else numbers")
          .input_path(),
      key<&DataConfig::stage_to>(
          "data.stage_to", any_value(), of_machine,
          "Folder on a disk of each host, as \"/local/scratch\", that the data are copied to, once on each "
          "host, before `flotilla train` reads them there; what is there and unchanged is not copied again; "
          "empty: they are read where they are")
          .only_for(data_has(&DataKindKeys::files))
          .output_path(),
      key<&DataConfig::threads>("data.threads", at_least(1, 1024), of_machine,
                                "Threads of a rank that read ahead")
          .may_differ_between_hosts(),
      key<&DataConfig::prefetch>("data.prefetch", at_least(1, 65536), of_machine, "Batches read ahead")
          .may_differ_between_hosts(),
      key<&DataConfig::last_batch>("data.last_batch", any_value(), must_match,
                                   "A last batch that is not full: \"wrap\" fills it from the start of the "
                                   "epoch's order, \"drop\" leaves it out"),
      key<&DataConfig::order>(
          "data.order", any_value(), must_match,
          "\"shuffled\": each epoch in another order; \"blocks\": blocks of neighbours in another order, and "
          "in it the samples of data.shuffle_buffer neighbours, the same for any number of workers; "
          "\"balanced\": all classes that occur equally often, one sample of each in turn, and all samples "
          "of "
          "a class before one comes again; an epoch has as many samples as the data, and all labels are read "
          "at the start; "
          "\"file\": as the data lie, which reads large files from their start to their end. If it is left "
          "out, data.kind = \"criteo\" takes \"file\""),
      key<&DataConfig::shuffle_block>(
          "data.shuffle_block", at_least(1, max_count), must_match,
          "Neighbouring samples that are read together: those of a chunk, or some hundred kilobytes")
          .only_for({"data.order", {"blocks"}}),
      key<&DataConfig::shuffle_buffer>(
          "data.shuffle_buffer", at_least(1, max_count), must_match,
          "Samples that are shuffled with each other, a multiple of shuffle_block; what they take is to fit "
          "the memory (chunks: data.cache_mb)")
          .only_for({"data.order", {"blocks"}}),
  };
}

std::vector<Key> array_keys() {
  constexpr std::size_t max_scalings = 1 << 20;
  return {
      key<&DataConfig::inputs>(
          "data.inputs", any_value(), must_match,
          "Name of the array of samples: (N), (N,F), (N,H,W) or (N,C,H,W); with groups as \"train/images\"")
          .only_for(data_has(&DataKindKeys::arrays)),
      key<&DataConfig::targets>("data.targets", any_value(), must_match,
                                "Name of the array of labels 0 … classes − 1 (integers), or of the numbers "
                                "to be predicted, (N) or (N,model.outputs)")
          .only_for(data_has(&DataKindKeys::arrays)),
      key<&DataConfig::channels_last>("data.channels_last", any_value(), must_match,
                                      "Images lie as (N,H,W,C)")
          .only_for(data_has(&DataKindKeys::arrays)),
      key<&DataConfig::input_mean>(
          "data.input_mean", array_of(0, max_scalings, {}), on_request,
          "The network sees (x − mean) / std: one value, or one for each feature of (N,F), each channel of "
          "(N,C,H,W); of uint8, x is the value / 255, and data.mean and data.std are left out. \"auto\": "
          "those of the training data, found before training and kept in checkpoints (docs/arrays.md)")
          .only_for(data_has(&DataKindKeys::numbers))
          .or_found_in_data(),
      key<&DataConfig::input_std>("data.input_std", array_of(0, max_scalings, positive()), on_request,
                                  "See data.input_mean")
          .only_for(data_has(&DataKindKeys::numbers))
          .or_found_in_data(),
      key<&DataConfig::target_mean>("data.target_mean", array_of(0, max_scalings, {}), on_request,
                                    "The loss sees (t − mean) / std of numbers to be predicted: one value, "
                                    "or one for each, or \"auto\": "
                                    "those of the training data")
          .only_for(data_has(&DataKindKeys::numbers))
          .or_found_in_data(),
      key<&DataConfig::target_std>("data.target_std", array_of(0, max_scalings, positive()), on_request,
                                   "See data.target_mean")
          .only_for(data_has(&DataKindKeys::numbers))
          .or_found_in_data(),
      key<&DataConfig::cache_mb>("data.cache_mb", at_least(1, 1048576), of_machine,
                                 "MiB of decoded chunks that each rank keeps of training data, and as much "
                                 "of validation data; at least a chunk for each thread")
          .may_differ_between_hosts()
          .only_for(data_is("hdf5")),
  };
}

std::vector<Key> table_keys() {
  const Condition tables = data_has(&DataKindKeys::table);
  const Rule names = array_of(0, 1 << 16, {});
  return {
      key<&DataConfig::table, &TableConfig::delimiter>(
          "data.delimiter", one_of({",", ";", "tab", "|", ":", " "}), must_match,
          "What separates the fields of a line: the character itself, or \"tab\"")
          .only_for(tables),
      key<&DataConfig::table, &TableConfig::header>(
          "data.header", any_value(), must_match,
          "The first line of each file names the columns; false: they have numbers only")
          .only_for(tables),
      key<&DataConfig::table, &TableConfig::columns>(
          "data.columns", names, must_match,
          "Columns that are inputs, by name or by number from 1 on; []: all that are "
          "neither targets nor ignored")
          .only_for(tables),
      key<&DataConfig::table, &TableConfig::target_columns>(
          "data.target_columns", array_of(1, 1 << 16, {}), must_match,
          "The column of the labels, which may be texts, or those of the numbers to be predicted")
          .only_for(tables)
          .must_be_given(),
      key<&DataConfig::table, &TableConfig::categories>(
          "data.categories", names, must_match,
          "Columns of inputs that hold texts: each text of the training data "
          "becomes an input that is 1 where "
          "it stands and 0 elsewhere; checkpoints keep the texts")
          .only_for(tables),
      key<&DataConfig::table, &TableConfig::ignored_columns>(
          "data.ignored_columns", names, must_match,
          "Columns that are neither inputs nor targets: numbers of lines, names")
          .only_for(tables),
      key<&DataConfig::table, &TableConfig::missing_texts>(
          "data.missing_texts", array_of(0, 1024, {}), must_match, "Fields that say that a value is missing")
          .only_for(tables),
      key<&DataConfig::table, &TableConfig::fill_missing>(
          "data.fill_missing", any_value(), must_match,
          "What stands for a missing input: a number, as 0, or \"mean\", that of its column in the "
          "training data; a missing category is none of the texts. Empty: missing values are refused")
          .only_for(tables)
          .or_a_number(),
  };
}

std::vector<Key> click_keys() {
  return {
      key<&DataConfig::hash_buckets>(
          "data.hash_buckets", at_least(0, 9e18), must_match,
          "Ids are the hash of slot and category modulo this; 0: the whole hash of 64 bits")
          .only_for(data_has(&DataKindKeys::clicks)),
      key<&DataConfig::dense_transform>(
          "data.dense_transform", any_value(), must_match,
          "What becomes of a number: \"log\": ln(1 + max(x, 0)); \"min-max\": capped at the 95th percentile "
          "of Criteo's challenge and scaled to [0, 1], as PaddlePaddle's Fleet does. A missing number: 0")
          .only_for(data_is("criteo")),
      key<&DataConfig::deal>("data.deal", any_value(), must_match,
                             "What a worker reads: \"samples\": its part of each global batch; \"files\": "
                             "files of its own, neighbours, as in PaddlePaddle's Fleet; \"bytes\": a part of "
                             "all files of its own, as long as the others', of arrays in whole chunks. A "
                             "worker that reaches its end starts again until the largest part is read")
          .only_for(data_has(&DataKindKeys::shares)),
  };
}

std::vector<Key> data_source_keys() {
  return {
      key<&DataConfig::train, &DataSourceConfig::images>("data.train.images", any_value(), same_samples,
                                                         "IDX file of training images, relative to the deck")
          .only_for(data_is("idx"))
          .must_be_given()
          .input_path(),
      key<&DataConfig::train, &DataSourceConfig::labels>("data.train.labels", any_value(), same_samples,
                                                         "IDX file of their labels")
          .only_for(data_is("idx"))
          .must_be_given()
          .input_path(),
      key<&DataConfig::train, &DataSourceConfig::path>(
          "data.train.path", any_value(), same_samples,
          "List of training images, a line each: path, white space, label, or a pattern of lists; or the "
          "folder that the class folders are in, class 0, 1 … in byte order of their names; or shards: a tar "
          "file, a folder of them or a pattern, as train-*.tar or train-{000000..000009}.tar, with braces as "
          "bash has them. Criteo and LIBSVM: a file, plain or .gz, a folder of files or a pattern, as "
          "day_{0..22}.gz. CSV: the same. Arrays: a file, a folder or a pattern; several files are joined "
          "along the first "
          "axis in byte order of their names (\"numpy\": .npz files, or a folder of .npy files; \"cifar\": a "
          "folder's data_batch_*.bin or train.bin)")
          .only_for(data_has(&DataKindKeys::path))
          .must_be_given()
          .input_path(),
      key<&DataConfig::train, &DataSourceConfig::root>(
          "data.train.root", any_value(), same_samples,
          "Folder that relative paths of the list begin at; left out: the folder beside the list that is "
          "named like it (train.txt: train/), else the list's own")
          .only_for(data_is("image-list"))
          .may_be_left_out()
          .input_path(),
      key<&DataConfig::train, &DataSourceConfig::input_array>(
          "data.train.inputs", any_value(), same_samples,
          "Name of the array of training samples; left out: data.inputs")
          .only_for(data_has(&DataKindKeys::arrays))
          .may_be_left_out(),
      key<&DataConfig::train, &DataSourceConfig::target_array>(
          "data.train.targets", any_value(), same_samples,
          "Name of the array of their labels or targets; left out: data.targets")
          .only_for(data_has(&DataKindKeys::arrays))
          .may_be_left_out(),
      key<&DataConfig::train, &DataSourceConfig::samples>("data.train.samples", positive(max_steps),
                                                          must_match, "Number of random training samples")
          .only_for(data_is("random"))
          .must_be_given(),
      key<&DataConfig::validation, &DataSourceConfig::images>(
          "data.validation.images", any_value(), same_samples,
          "IDX file of validation images; left out or empty, as the labels then must be: no validation")
          .only_for(data_is("idx"))
          .may_be_left_out()
          .input_path(),
      key<&DataConfig::validation, &DataSourceConfig::labels>("data.validation.labels", any_value(),
                                                              same_samples, "IDX file of their labels")
          .only_for(data_is("idx"))
          .may_be_left_out()
          .input_path(),
      key<&DataConfig::validation, &DataSourceConfig::path>(
          "data.validation.path", any_value(), same_samples,
          "The same for validation; left out or empty: no validation")
          .only_for(data_has(&DataKindKeys::path))
          .may_be_left_out()
          .input_path(),
      key<&DataConfig::validation, &DataSourceConfig::root>("data.validation.root", any_value(), same_samples,
                                                            "See data.train.root")
          .only_for(data_is("image-list"))
          .may_be_left_out()
          .input_path(),
      key<&DataConfig::validation, &DataSourceConfig::input_array>(
          "data.validation.inputs", any_value(), same_samples,
          "Name of the array of validation samples, which may lie in the file of the training samples; left "
          "out: data.inputs")
          .only_for(data_has(&DataKindKeys::arrays))
          .may_be_left_out(),
      key<&DataConfig::validation, &DataSourceConfig::target_array>(
          "data.validation.targets", any_value(), same_samples,
          "Name of the array of their labels or targets; left out: data.targets")
          .only_for(data_has(&DataKindKeys::arrays))
          .may_be_left_out(),
      key<&DataConfig::validation, &DataSourceConfig::share>(
          "data.validation.share", fraction(), must_match,
          "Share of the training samples that is held back for validation, as 0.1: the same samples "
          "whatever the seed and the number of ranks; left out or 0: none")
          .only_for(data_has(&DataKindKeys::parted))
          .may_be_left_out(),
      key<&DataConfig::validation, &DataSourceConfig::samples>(
          "data.validation.samples", at_least(0, max_steps), must_match,
          "Number of random validation samples; left out or 0: no validation")
          .only_for(data_is("random"))
          .may_be_left_out(),
  };
}

void check_data_rules(const Config& config, const DeckValues& given, Mistakes& mistakes) {
  DataRules rules(config, given, mistakes);
  rules.validation_data();
  rules.validation_share();
  rules.validation_path();
  rules.click_data();
  rules.blocks();
  rules.balanced();
  rules.shares();
  rules.table();
  rules.pixel_scale();
}

}  // namespace flotilla::config
