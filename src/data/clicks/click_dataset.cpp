// SPDX-License-Identifier: Apache-2.0
#include "src/data/clicks/click_dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/data_file.hpp"
#include "src/data/find_data_files.hpp"
#include "src/files/gzip_reader.hpp"

namespace flotilla {

namespace {

constexpr FileKind criteo_file = {
    .format = FileFormat::criteo, .name = "a Criteo log", .advice = "data.kind = \"criteo\" reads it"};
constexpr FileKind libsvm_file = {
    .format = FileFormat::libsvm, .name = "a LIBSVM file", .advice = "data.kind = \"libsvm\" reads it"};

}  // namespace

std::string place_of(const ClickFile& file, std::int64_t begin) {
  return cat(file.path, ":", line_number(file.bytes, begin), ": ");
}

namespace {

/// The shares that data.deal = "bytes" cuts a file into begin at multiples of a power of two, such that the
/// files have together no more beginnings than this, but at least 64 each.
constexpr std::int64_t most_beginnings = std::int64_t{1} << 20;
constexpr std::int64_t min_beginnings = 64;

/// Constant data that the readers of a data set share.
struct ClickData {
  std::unique_ptr<const LineFormat> format;
  std::shared_ptr<const ClickLogs> logs;
  bool from_one = false;  ///< Labels are 1 and 2
  std::vector<std::int64_t>
      firsts;  ///< Each file's first sample number, followed by the number of all samples

  const ClickFile& file(std::size_t k) const { return logs->files[k]; }
};

class ClickReader final : public BagReader {
 public:
  explicit ClickReader(const ClickData& data) : data_(data) {}

  std::int32_t read(std::int64_t i, std::span<float> dense, BagBuffer& bags) override {
    const std::string_view line = line_of(i);
    try {
      const std::int32_t label = data_.format->parse(line, dense, bags);
      return data_.from_one ? label - 1 : label;
    } catch (const UserError& error) {
      throw UserError(place_of(data_.file(file_), lines_.begin()) + error.what());
    }
  }

  /// The line of sample i, as it is stored; valid until the next call.
  std::string_view line_of(std::int64_t i) {
    if (i != next_ || i == data_.firsts[file_ + 1]) seek(i);
    const std::string_view line = next_sample();
    next_ = i + 1;
    return line;
  }

  /// The byte at which sample i begins in its file.
  std::int64_t begin_of(std::int64_t i) {
    line_of(i);
    return lines_.begin();
  }

 private:
  void seek(std::int64_t i) {
    require(0 <= i && i < data_.firsts.back(), "no sample ", i, " of ", data_.firsts.back());
    const auto behind = std::upper_bound(data_.firsts.begin(), data_.firsts.end(), i);
    file_ = static_cast<std::size_t>(behind - data_.firsts.begin()) - 1;
    next_ = -1;  // should this fail
    const ClickFile& file = data_.file(file_);
    const std::int64_t sample = i - data_.firsts[file_];
    const SampleIndex::Entry entry = file.index.before(sample);
    lines_.seek(file.bytes, entry.begin, entry.bytes);
    for (std::int64_t k = entry.sample; k < sample; ++k) next_sample();
  }

  std::string_view next_sample() {
    std::string_view line;
    do {
      if (lines_.next(line)) continue;
      const ClickFile& file = data_.file(file_);
      throw UserError(cat(file.path, ": had ", file.index.size(),
                          " samples when it was opened and has fewer now; do not change data during a run"));
    } while (!data_.format->is_sample(line));
    return line;
  }

  const ClickData& data_;
  LineReader lines_;
  std::size_t file_ = 0;
  std::int64_t next_ = -1;  ///< The sample whose line comes next; −1: not known
};

class ClickDataset final : public Dataset {
 public:
  ClickDataset(ClickData data, const std::string& path, std::int64_t positive) : data_(std::move(data)) {
    const LineFormat& format = *data_.format;
    set_facts({.size = data_.firsts.back(),
               .shape = {format.dense()},
               .description = describe(path, positive) + data_.logs->left_out.text(),
               .slots = format.slots(),
               .weighted = format.weighted()});
  }

  std::unique_ptr<BagReader> bag_reader() const override { return std::make_unique<ClickReader>(data_); }

  std::vector<std::int64_t> deal(ShardBy how, std::int64_t workers) const override {
    const std::int64_t files = std::ssize(data_.logs->files);
    std::vector<std::int64_t> shares;
    for (std::int64_t worker = 0; worker <= workers; ++worker) {
      const auto file =
          static_cast<std::size_t>(worker * (files / workers) + std::min(worker, files % workers));
      shares.push_back(how == ShardBy::files ? data_.firsts[file] : sample_at_share(worker, workers));
    }
    return shares;
  }

  std::int32_t read(std::int64_t /*i*/, std::uint64_t /*variation*/, std::span<float> /*to*/) const override {
    throw InternalError("samples with bags are read by a BagReader");
  }

  void identify(std::span<const std::int64_t> samples, Checksum& sum) const override {
    sum.add(std::as_bytes(std::span(data_.firsts)));
    for (const ClickFile& file : data_.logs->files) {
      const std::int64_t bytes = file.bytes.size();
      sum.add(std::as_bytes(std::span(&bytes, 1)));
    }
    ClickReader reader(data_);
    for (const std::int64_t i : samples) {
      const std::string line = cat(reader.line_of(i), '\n');
      sum.add(std::as_bytes(std::span(line)));
    }
  }

 private:
  std::string describe(const std::string& path, std::int64_t positive) const {
    const std::string share =
        data_.format->labelled()
            ? fmt::format("{}{:.1f} % positive", data_.from_one ? "labels 1 and 2 are classes 0 and 1, " : "",
                          100.0 * static_cast<double>(positive) / static_cast<double>(data_.firsts.back()))
            : "labels not read";
    const std::string name = std::filesystem::path(path).filename().string();
    const std::string files =
        data_.logs->files.size() == 1 ? name : cat(data_.logs->files.size(), " files, ", name);
    std::int64_t inflated = 0;
    for (const ClickFile& file : data_.logs->files) inflated += file.inflated ? file.bytes.size() : 0;
    const std::string where = inflated == 0
                                  ? ""
                                  : fmt::format(", {:.1f} MB inflated in {}",
                                                static_cast<double>(inflated) * 1e-6, temporary_folder());
    return cat(data_.firsts.back(), " samples of ", files, " (", data_.format->name(), ", ", share, where,
               ")");
  }

  /// The first sample after the fraction worker ÷ workers of all bytes.
  std::int64_t sample_at_share(std::int64_t worker, std::int64_t workers) const {
    if (worker == workers) return size();
    const std::int64_t files = std::ssize(data_.logs->files);
    std::int64_t bytes = 0;
    for (const ClickFile& file : data_.logs->files) bytes += file.bytes.size();
    auto left = static_cast<std::int64_t>(static_cast<double>(bytes) * static_cast<double>(worker) /
                                          static_cast<double>(workers));
    std::size_t k = 0;
    while (k + 1 < data_.logs->files.size() && left >= data_.file(k).bytes.size())
      left -= data_.file(k++).bytes.size();
    const std::int64_t size = data_.file(k).index.size();
    const std::int64_t most = std::max(most_beginnings / files, min_beginnings);
    const auto stride =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>((size + most - 1) / most)));
    return data_.firsts[k] + last_before(k, left) / stride * stride;
  }

  /// The last sample of file k that begins at `byte` or before.
  std::int64_t last_before(std::size_t k, std::int64_t byte) const {
    auto [sample, may_be_later] = data_.file(k).index.known_before(byte);
    if (!may_be_later) return sample;
    ClickReader reader(data_);
    while (sample + 1 < data_.file(k).index.size() && reader.begin_of(data_.firsts[k] + sample + 1) <= byte)
      ++sample;
    return sample;
  }

  ClickData data_;
};

/// Whether labels are 1 and 2. @throws UserError if a 1 means another class in the training data
bool count_from_one(const LabelsSeen& labels, const LabelsSeen& training) {
  const std::string& other = training.minus.empty() ? training.zero : training.minus;
  if (!labels.two.empty() && training.two.empty() && (training.tell() || training.ones > 0))
    throw UserError(cat(labels.two, ": has the label 2, but a 1 is the second class in the training data",
                        other.empty() ? "" : cat(" (", other, ")"), "; write all in one way"));
  const std::string& here = labels.minus.empty() ? labels.zero : labels.minus;
  if (!training.two.empty() && !here.empty())
    throw UserError(cat(here, ": has the label ", labels.minus.empty() ? "0" : "-1",
                        ", but the training data have labels 1 and 2 (", training.two,
                        "); write all in one way"));
  return !labels.two.empty() || !training.two.empty();
}

}  // namespace

ClickOpening click_opening(const DataRequest& request, const LineFormat& format) {
  static const std::string none;
  const bool alone = request.use.training || !request.source.has_labels();
  return {.path = request.source.path,
          .training = alone ? none : request.data.train.path,
          .format = format,
          .kind = reader_of(request.data.kind).file,
          .inflated = request.use.inflated};
}

std::unique_ptr<const LineFormat> line_format(const DataRequest& request) {
  const auto buckets = static_cast<std::uint64_t>(request.data.hash_buckets);
  const bool labelled = request.source.has_labels();
  if (request.data.kind == DataKind::libsvm) return make_libsvm_format(buckets, labelled);
  if (request.data.kind != DataKind::criteo) return nullptr;
  return make_criteo_format(
      {.transform = request.data.dense_transform, .hash_buckets = buckets, .labelled = labelled});
}

std::unique_ptr<Dataset> make_click_dataset(std::shared_ptr<const ClickLogs> logs,
                                            std::unique_ptr<const LineFormat> format,
                                            const std::string& path) {
  if (!logs->mistake.empty()) throw UserError(logs->mistake);
  ClickData data{.format = std::move(format), .logs = std::move(logs), .firsts = {0}};
  for (const ClickFile& file : data.logs->files)
    data.firsts.push_back(data.firsts.back() + file.index.size());
  const LabelsSeen& labels = data.logs->labels;
  data.from_one = count_from_one(labels, data.logs->of_training);
  const std::int64_t positive = data.from_one ? labels.twos : labels.ones;
  return std::make_unique<ClickDataset>(std::move(data), path, positive);
}

std::unique_ptr<Dataset> make_click_dataset(const ClickOpening& opening,
                                            std::unique_ptr<const LineFormat> format) {
  auto logs = std::make_shared<ClickLogs>(ClickLogs::open(opening));
  logs->merge(logs->scan(*format, 0, 1));
  return make_click_dataset(std::move(logs), std::move(format), opening.path);
}

namespace {

std::unique_ptr<Dataset> open_clicks(const DataRequest& request) {
  std::unique_ptr<const LineFormat> format = line_format(request);
  if (request.use.clicks)
    return make_click_dataset(request.use.clicks, std::move(format), request.source.path);
  const ClickOpening opening = click_opening(request, *format);
  return make_click_dataset(opening, std::move(format));
}

std::map<std::string, File> inflated_clicks(const DataRequest& request) {
  std::map<std::string, File> copies;
  for (const std::string& path : find_data_files(request.source.path))
    if (GzipReader::recognises(open_data_file(path)))
      copies.emplace(path, inflated_samples(open_data_file(path)));
  return copies;
}

DataReader click_reader(DataKind kind, const FileKind& file) {
  return {.kind = kind,
          .open = open_clicks,
          .list_files =
              [](const DataRequest& request, SourceFiles& found) {
                for (const std::string& path : find_data_files(request.source.path, {}, &found.left_out))
                  found.files.insert(path);
              },
          .inflate = inflated_clicks,
          .always_inflates = true,
          .one_advice = "; of several logs name their folder, or a pattern in quotes",
          .file = file};
}

std::string ids_text(const DataConfig& data) {
  return cat(", ids by data.hash_buckets = ", data.hash_buckets);
}

}  // namespace

const DataReader criteo_reader = [] {
  DataReader reader = click_reader(DataKind::criteo, criteo_file);
  reader.input = [](const DataConfig& data) {
    return cat(word(data.dense_transform), " of x", ids_text(data));
  };
  reader.is_line = [](std::string_view line) {
    const auto tabs = std::ranges::count(line, '\t');
    return tabs == 38 || tabs == 39;
  };
  return reader;
}();

const DataReader libsvm_reader = [] {
  DataReader reader = click_reader(DataKind::libsvm, libsvm_file);
  reader.input = [](const DataConfig& data) { return "x" + ids_text(data); };
  reader.is_line = [](std::string_view line) {
    const std::size_t colon = line.find(':');
    return line.find_first_not_of("0123456789+-. \t") == colon && colon != line.npos;
  };
  return reader;
}();

}  // namespace flotilla
