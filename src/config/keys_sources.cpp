// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"

namespace flotilla::config {
namespace {

Condition data_has_path() {
  return {"data.kind",
          {"image-list", "image-folder", "webdataset", "hdf5", "numpy", "cifar", "criteo", "libsvm"}};
}

template <auto part, auto member>
Key array_name_key(std::string path, std::string help) {
  return {.path = std::move(path),
          .field = field<&Config::data, part, member>(),
          .help = std::move(help),
          .on_resume = same_samples,
          .condition = {"data.kind", {"hdf5", "numpy"}},
          .presence = Necessity::optional};
}

}  // namespace

std::vector<Key> data_source_keys() {
  using D = DataConfig;
  using Source = DataSourceConfig;
  return {
      {.path = "data.train.images",
       .field = field<&Config::data, &DataConfig::train, &DataSourceConfig::images>(),
       .help = "IDX file of training images, relative to the deck",
       .on_resume = same_samples,
       .condition = data_is("idx"),
       .presence = Necessity::required,
       .path_role = PathRole::input},
      {.path = "data.train.labels",
       .field = field<&Config::data, &DataConfig::train, &DataSourceConfig::labels>(),
       .help = "IDX file of their labels",
       .on_resume = same_samples,
       .condition = data_is("idx"),
       .presence = Necessity::required,
       .path_role = PathRole::input},
      {.path = "data.train.path",
       .field = field<&Config::data, &DataConfig::train, &DataSourceConfig::path>(),
       .help =
           "List of training images, a line each: path, white space, label, or a pattern of lists; or the "
           "folder that "
           "the class folders are in, class 0, 1 … in byte order of their names; or shards: a tar file, "
           "a folder of them or a pattern, as "
           "train-*.tar or train-{000000..000009}.tar, with braces as bash has them. Criteo and "
           "LIBSVM: a file, plain or .gz, a folder of files or a pattern, as day_{0..22}.gz. Arrays: a "
           "file, a folder or a pattern; several files are joined along the first axis in byte order of "
           "their names (\"numpy\": .npz files, or a folder of .npy files; \"cifar\": a folder's "
           "data_batch_*.bin or train.bin)",
       .on_resume = same_samples,
       .condition = data_has_path(),
       .presence = Necessity::required,
       .path_role = PathRole::input},
      {.path = "data.train.root",
       .field = field<&Config::data, &DataConfig::train, &DataSourceConfig::root>(),
       .help = "Folder that relative paths of the list begin at; left out: the folder beside the list "
               "that is named like it (train.txt: train/), else the list's own",
       .on_resume = same_samples,
       .condition = data_is("image-list"),
       .presence = Necessity::optional,
       .path_role = PathRole::input},
      array_name_key<&D::train, &Source::input_array>(
          "data.train.inputs", "Name of the array of training samples; left out: data.inputs"),
      array_name_key<&D::train, &Source::target_array>(
          "data.train.targets", "Name of the array of their labels or targets; left out: data.targets"),
      {.path = "data.train.samples",
       .field = field<&Config::data, &DataConfig::train, &DataSourceConfig::samples>(),
       .rule = positive(most_steps),
       .help = "Number of random training samples",
       .on_resume = must_match,
       .condition = data_is("random"),
       .presence = Necessity::required},
      {.path = "data.validation.images",
       .field = field<&Config::data, &DataConfig::validation, &DataSourceConfig::images>(),
       .help = "IDX file of validation images; left out or empty, as the labels then must be: no validation",
       .on_resume = same_samples,
       .condition = data_is("idx"),
       .presence = Necessity::optional,
       .path_role = PathRole::input},
      {.path = "data.validation.labels",
       .field = field<&Config::data, &DataConfig::validation, &DataSourceConfig::labels>(),
       .help = "IDX file of their labels",
       .on_resume = same_samples,
       .condition = data_is("idx"),
       .presence = Necessity::optional,
       .path_role = PathRole::input},
      {.path = "data.validation.path",
       .field = field<&Config::data, &DataConfig::validation, &DataSourceConfig::path>(),
       .help = "The same for validation; left out or empty: no validation",
       .on_resume = same_samples,
       .condition = data_has_path(),
       .presence = Necessity::optional,
       .path_role = PathRole::input},
      {.path = "data.validation.root",
       .field = field<&Config::data, &DataConfig::validation, &DataSourceConfig::root>(),
       .help = "See data.train.root",
       .on_resume = same_samples,
       .condition = data_is("image-list"),
       .presence = Necessity::optional,
       .path_role = PathRole::input},
      array_name_key<&D::validation, &Source::input_array>(
          "data.validation.inputs",
          "Name of the array of validation samples, which may lie in the file of the training samples; left "
          "out: data.inputs"),
      array_name_key<&D::validation, &Source::target_array>(
          "data.validation.targets", "Name of the array of their labels or targets; left out: data.targets"),
      {.path = "data.validation.samples",
       .field = field<&Config::data, &DataConfig::validation, &DataSourceConfig::samples>(),
       .rule = at_least(0, most_steps),
       .help = "Number of random validation samples; left out or 0: no validation",
       .on_resume = must_match,
       .condition = data_is("random"),
       .presence = Necessity::optional},
  };
}

}  // namespace flotilla::config
