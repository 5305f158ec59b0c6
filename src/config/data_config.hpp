// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/choices.hpp"

namespace flotilla {

/// Kinds of data. A new one is named here and gets a row in data_kinds; how it is read is described at the
/// end of its source in src/data, and listed in src/data/data_reader.hpp.
enum class DataKind {
  idx,
  image_list,
  image_folder,
  webdataset,
  hdf5,
  numpy,
  cifar,
  csv,
  criteo,
  libsvm,
  random
};

/// A kind of data in decks: its word, its help and the groups of keys that it has.
struct DataKindKeys {
  std::string_view word;
  std::string_view help;   ///< Help text of data.kind; empty: that of the next kind covers both
  bool files = true;       ///< The samples lie in files (data.stage_to); false: generated
  bool path = false;       ///< data.train.path and data.validation.path name the files
  bool images = false;     ///< Files of photographs: data.image_size, data.crop_area …
  bool augmented = false;  ///< Samples may be images: data.flip, data.erase, data.rand_augment …
  bool colours = false;  ///< Photographs: data.image_mean and data.image_std, and data.flip is 0.5 by default
  bool pixels = false;   ///< data.mean and data.std
  bool arrays = false;   ///< Named arrays of samples and of targets: data.inputs, data.targets …
  bool numbers = false;  ///< Targets may be numbers; both are scaled by data.input_mean, data.target_mean …
  bool table = false;    ///< Columns of a text: data.delimiter, data.columns …
  bool clicks = false;   ///< Bags of ids: data.hash_buckets
  bool shares = false;   ///< data.deal
  bool parted = false;   ///< data.validation.share: samples are read by number, in any order
  bool in_order = false;  ///< data.order is "file" by default
};

/// All kinds of data, in the order of DataKind.
inline constexpr std::array data_kinds = {
    DataKindKeys{.word = "idx",
                 .help = "files of images and labels as MNIST has them, plain or .gz",
                 .augmented = true,
                 .pixels = true,
                 .parted = true},
    DataKindKeys{.word = "image-list",
                 .help = "JPEG and PNG files named in a list",
                 .path = true,
                 .images = true,
                 .augmented = true,
                 .colours = true,
                 .parted = true},
    DataKindKeys{.word = "image-folder",
                 .help = "a folder of them per class",
                 .path = true,
                 .images = true,
                 .augmented = true,
                 .colours = true,
                 .parted = true},
    DataKindKeys{.word = "webdataset",
                 .help = "tar files of them, as `flotilla pack` and Python's webdataset write them",
                 .path = true,
                 .images = true,
                 .augmented = true,
                 .colours = true},
    DataKindKeys{.word = "hdf5",
                 .help = "",
                 .path = true,
                 .augmented = true,
                 .pixels = true,
                 .arrays = true,
                 .numbers = true,
                 .shares = true,
                 .parted = true},
    DataKindKeys{.word = "numpy",
                 .help = "arrays of samples and of labels or targets",
                 .path = true,
                 .augmented = true,
                 .pixels = true,
                 .arrays = true,
                 .numbers = true,
                 .shares = true,
                 .parted = true},
    DataKindKeys{.word = "cifar",
                 .help = "binary files of CIFAR-10 and CIFAR-100",
                 .path = true,
                 .augmented = true,
                 .colours = true,
                 .shares = true,
                 .parted = true},
    DataKindKeys{.word = "csv",
                 .help = "lines of numbers and categories with a label or targets",
                 .path = true,
                 .numbers = true,
                 .table = true,
                 .shares = true,
                 .parted = true},
    // The default is that of PaddlePaddle's Fleet: such files are often larger than memory, and sorted by
    // time.
    DataKindKeys{.word = "criteo",
                 .help = "lines of a label, 13 numbers and 26 categories",
                 .path = true,
                 .clicks = true,
                 .shares = true,
                 .in_order = true},
    DataKindKeys{.word = "libsvm",
                 .help = "lines of a label and index:value pairs",
                 .path = true,
                 .clicks = true,
                 .shares = true,
                 .parted = true},
    DataKindKeys{.word = "random", .help = "made up", .files = false},
};
static_assert(data_kinds.size() == static_cast<std::size_t>(DataKind::random) + 1);

template <>
inline constexpr auto words_of<DataKind> = [] {
  std::array<std::string_view, data_kinds.size()> words;
  std::ranges::transform(data_kinds, words.begin(), &DataKindKeys::word);
  return words;
}();

/// The words of the kinds that have a group of keys: kinds_with(&DataKindKeys::arrays).
std::vector<std::string> kinds_with(bool DataKindKeys::*group);

enum class LastBatch { wrap, drop };
template <>
inline constexpr auto words_of<LastBatch> = deck_words("wrap", "drop");

enum class SampleOrder { shuffled, file, blocks, balanced };
template <>
inline constexpr auto words_of<SampleOrder> = deck_words("shuffled", "file", "blocks", "balanced");
/// Whether neighbours in the order are neighbours in the data.
inline bool reads_in_order(SampleOrder order) {
  return order == SampleOrder::file || order == SampleOrder::blocks;
}

/// The part of the data that a worker reads: its part of each global batch, or a shard of its own: an equal
/// number of files (one more for the first workers where they do not divide), or an equal size.
enum class ShardBy { samples, files, bytes };
template <>
inline constexpr auto words_of<ShardBy> = deck_words("samples", "files", "bytes");

/// The transform of the number x in column I1 … I13 of Criteo's data; a missing one becomes 0.
enum class DenseTransform {
  log,      ///< ln(1 + max(x, 0))
  min_max,  ///< (min(max(x, least), cap) − least) / (cap − least): Fleet's, criteo_least and criteo_cap
};
template <>
inline constexpr auto words_of<DenseTransform> = deck_words("log", "min-max");

/// The interpolation of pixels. Pixel centres are at half-integers in both.
enum class ResizeFilter {
  bilinear,   ///< The two nearest pixels per axis, whatever the scale, in float (OpenCV's INTER_LINEAR;
              ///< torch's interpolate without antialias).
  antialias,  ///< A triangle widened by the scale, each axis rounded to 8 bits (BILINEAR of PIL, and so of
              ///< torchvision).
};
template <>
inline constexpr auto words_of<ResizeFilter> = deck_words("bilinear", "antialias");

enum class OnBadImage { error, replace };
template <>
inline constexpr auto words_of<OnBadImage> = deck_words("error", "replace");

enum class CachedFiles { none, files };
template <>
inline constexpr auto words_of<CachedFiles> = deck_words("none", "files");

struct DataSourceConfig {
  bool given = false;
  std::string images;        ///< idx
  std::string labels;        ///< idx
  std::int64_t samples = 0;  ///< random
  double share = 0.0;        ///< validation: of the training samples, held back for it; 0: none
  /// DataKindKeys::path: a file, a folder or a pattern of them; image-list: the list; image-folder: the
  /// folder of the class folders
  std::string path{};
  std::string root{};          ///< image-list: where relative paths begin; empty: found by the list's name
  std::string input_array{};   ///< hdf5, numpy: in place of DataConfig::inputs; empty: that
  std::string target_array{};  ///< hdf5, numpy: in place of DataConfig::targets; empty: that
  /// Not a key: the folder that holds the staged copies, below it with the original paths; empty: none
  std::string staged_below{};
  /// Not a key: what `flotilla predict` is given, which needs no labels; the other members are derived from
  /// it
  std::vector<std::string> inputs{};

  bool has_labels() const { return inputs.empty(); }
};

/// The value of a key that is "auto": its numbers are found in the training data.
inline bool is_auto(const std::vector<double>& values) {
  return values.size() == 1 && std::isinf(values.front());
}

/// What a deck leaves to its data: found in those of training, kept in checkpoints, used wherever the model
/// is. Scalings and model.classes that are found take the place of the deck's own.
struct FoundInData {
  std::vector<std::string> columns{};  ///< csv: names or numbers of the columns of inputs, in their order
  std::vector<std::vector<std::string>> categories{};  ///< csv: of each column; empty: it holds numbers
  std::vector<double> fills{};         ///< csv: of each column, the number in the place of a missing one
  std::vector<std::string> classes{};  ///< Texts of the labels 0, 1 …; empty: labels are these numbers
  std::int64_t class_count = 0;        ///< model.classes; 0: the deck gives it
  std::vector<double> input_mean{};    ///< Replaces "auto"; empty: the deck gives them, or none
  std::vector<double> input_std{};
  std::vector<double> target_mean{};
  std::vector<double> target_std{};

  friend bool operator==(const FoundInData&, const FoundInData&) = default;
};

/// Columns of tables (csv); data/arrays/csv_copy.hpp says more.
struct TableConfig {
  std::string delimiter = ",";                 ///< "tab" or the letter
  bool header = true;                          ///< The first line names the columns
  std::vector<std::string> columns{};          ///< Inputs, by name or number from 1; empty: all other ones
  std::vector<std::string> target_columns{};   ///< The label, or the numbers to be predicted
  std::vector<std::string> categories{};       ///< Inputs that are texts, each of them a number 0 or 1
  std::vector<std::string> ignored_columns{};  ///< Neither inputs nor targets
  std::vector<std::string> missing_texts = {"", "NA", "N/A", "NaN", "nan", "null", "NULL"};
  std::string fill_missing{};  ///< "mean" or a number; empty: missing inputs are refused
  bool labels_classes = true;  ///< Not a key: targets are labels of classes
};

/// The part of a photograph that is cropped: ranges of its area, as a share, and of width / height.
struct CropConfig {
  std::vector<double> area = {0.08, 1.0};
  std::vector<double> aspect = {3.0 / 4.0, 4.0 / 3.0};
};

/// The rectangles that are erased: ranges as those of a crop.
struct EraseConfig {
  std::vector<double> area = {0.02, 0.33};
  std::vector<double> aspect = {0.3, 3.3};
};

struct DataConfig {
  DataKind kind = DataKind::idx;
  DataSourceConfig train;
  DataSourceConfig validation;      ///< May be absent
  std::vector<std::int64_t> shape;  ///< random: of one sample
  double mean = 0.5;                ///< idx, and arrays of bytes: (pixel / 255 − mean) / std
  double std = 0.5;
  bool pixel_scale_given = false;  ///< Not a key: whether the deck sets one of the two
  std::string class_names;  ///< File of the names of classes, one a line; empty: looked for next to the data
  std::string stage_to;     ///< Folder of the host that data are copied to first; empty: none
  std::int64_t threads = 1;
  std::int64_t prefetch = 4;  ///< batches
  LastBatch last_batch = LastBatch::wrap;
  SampleOrder order = SampleOrder::shuffled;
  std::int64_t shuffle_block = 64;      ///< blocks: neighbouring samples that stay together on the disk
  std::int64_t shuffle_buffer = 16384;  ///< blocks: samples that are shuffled with each other

  // Arrays (hdf5, numpy); data/arrays says more.
  std::string inputs = "images";   ///< Name of the array of samples
  std::string targets = "labels";  ///< Name of the array of labels, or of numbers to be predicted
  bool channels_last = false;      ///< Samples lie as (H,W,C)
  std::int64_t cache_mb = 256;     ///< MiB of decoded chunks that a rank keeps of each data set
  std::vector<double>
      input_mean{};  ///< (x − mean) / std; one value, or one for each input; empty: as they are
  std::vector<double> input_std{};
  std::vector<double>
      target_mean{};  ///< Mean of the numbers to predict: one value, or one for each; empty: as they are
  std::vector<double> target_std{};

  TableConfig table{};  ///< csv
  FoundInData found{};  ///< Not a key: what the data decide

  // Both kinds of click data; data/clicks/line_format.hpp says more.
  std::int64_t hash_buckets = 1000001;                   ///< 0: ids are the whole 64 bits of the hash
  DenseTransform dense_transform = DenseTransform::log;  ///< criteo
  ShardBy deal = ShardBy::samples;

  // Both kinds of images; data/images/image_transform.hpp says more.
  std::int64_t image_size = 224;  ///< Height and width of a sample
  std::int64_t short_side = 256;  ///< Validation: before the crop
  ResizeFilter resize_filter = ResizeFilter::bilinear;
  CropConfig crop{};
  double flip = 0.0;  ///< idx as well; decks of photographs: 0.5 if not given
  std::vector<double> color_jitter = {0.0, 0.0, 0.0, 0.0};  ///< Brightness, contrast, saturation, hue
  // Keys of images and of idx; see data/augmentation.hpp.
  std::int64_t crop_padding = 0;
  double erase = 0.0;
  EraseConfig erased{};
  std::int64_t rand_augment = 0;  ///< Operations on each image; data/rand_augment.hpp says more
  std::int64_t rand_augment_magnitude = 9;
  std::vector<double> image_mean = {0.485, 0.456, 0.406};  ///< Mean of red, green and blue in [0, 1]
  std::vector<double> image_std = {0.229, 0.224, 0.225};
  bool exif_orientation = false;
  std::int64_t max_pixels = 178956970;
  OnBadImage on_bad_image = OnBadImage::error;
  std::int64_t max_bad_images = 100;  ///< In an epoch, over all ranks
  CachedFiles cache = CachedFiles::none;

  /// The groups of keys that the kind has.
  const DataKindKeys& keys() const { return data_kinds[static_cast<std::size_t>(kind)]; }
  /// Where the validation samples lie: with data.validation.share, in the training data.
  const DataSourceConfig& validation_source() const { return validation.share > 0.0 ? train : validation; }
  bool has_validation() const { return validation.given || validation.share > 0.0; }
  bool has_images() const { return keys().images; }
  bool has_arrays() const { return keys().arrays; }
  bool has_clicks() const { return keys().clicks; }
  /// The names of the arrays of `source`, train or validation.
  const std::string& inputs_of(const DataSourceConfig& source) const {
    return source.input_array.empty() ? inputs : source.input_array;
  }
  const std::string& targets_of(const DataSourceConfig& source) const {
    return source.target_array.empty() ? targets : source.target_array;
  }
};

}  // namespace flotilla
