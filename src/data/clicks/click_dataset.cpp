// SPDX-License-Identifier: Apache-2.0
#include "src/data/clicks/click_dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/data_file.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/find_data_files.hpp"
#include "src/data/line_reader.hpp"
#include "src/files/gzip_reader.hpp"
#include "src/observe/progress_line.hpp"

namespace flotilla {

namespace {

constexpr FileKind criteo_file = {
    .format = FileFormat::criteo, .name = "a Criteo log", .advice = "data.kind = \"criteo\" reads it"};
constexpr FileKind libsvm_file = {
    .format = FileFormat::libsvm, .name = "a LIBSVM file", .advice = "data.kind = \"libsvm\" reads it"};

constexpr std::int64_t samples_checked = 100;
constexpr std::array<std::byte, 3> byte_order_mark = {std::byte{0xEF}, std::byte{0xBB}, std::byte{0xBF}};

std::int64_t text_begin(const File& file) {
  std::array<std::byte, 3> begin{};
  return file.read_some(0, begin) == begin.size() && begin == byte_order_mark ? 3 : 0;
}

/// The file itself, or its inflated copy; sets `is_inflated` accordingly.
File open_lines(const std::string& path, const std::string& inflated, bool& is_inflated) {
  File file = open_data_file(path);
  is_inflated = GzipReader::recognises(file);
  if (!is_inflated) return file;
  std::optional<File> copy = File::of_handle(inflated, cat("the inflated copy of ", path));
  return copy ? std::move(*copy) : inflated_samples(file);
}

/// Checks each label, and that they are of one notation.
class Scan {
 public:
  Scan(const LineFormat& format, LabelsSeen& labels)
      : format_(format),
        labels_(labels),
        dense_(static_cast<std::size_t>(format.dense())),
        bags_(1, 1, false) {}

  void run(ClickFile& file) {
    LineReader lines;
    std::string_view line;
    std::int64_t number = 0;
    lines.seek(file.bytes, text_begin(file.bytes), file.bytes.size());
    ProgressLine progress(cat("reading ", file.path), file.bytes.size(), Amount::bytes);
    while (lines.next(line)) {
      ++number;
      progress.at(lines.begin());
      if (!format_.is_sample(line)) {
        ++file.lines_without_sample;
        continue;
      }
      try {
        look_at(line, file, number);
      } catch (const UserError& error) {
        throw UserError(cat(file.path, ":", number, ": ", error.what()));
      }
      file.index.add(lines.begin());
    }
    file.index.set_end(file.bytes.size());
  }

 private:
  void look_at(std::string_view line, const ClickFile& file, std::int64_t number) {
    labels_.add(format_.label(line), file.path, number);
    if (file.index.size() >= samples_checked) return;
    bags_.clear();
    format_.parse(line, dense_, bags_);
  }

  const LineFormat& format_;
  LabelsSeen& labels_;
  std::vector<float> dense_;
  BagBuffer bags_;
};

}  // namespace

void LabelsSeen::add(int label, const std::string& path, std::int64_t line) {
  ones += label == 1 ? 1 : 0;
  twos += label == 2 ? 1 : 0;
  if (label == 1) return;
  std::string& first = label < 0 ? minus : label == 0 ? zero : two;
  if (!first.empty()) return;
  first = cat(path, ":", line);
  if ((minus.empty() ? 0 : 1) + (zero.empty() ? 0 : 1) + (two.empty() ? 0 : 1) < 2) return;
  std::string text;
  for (const auto& [name, place] : {std::pair("-1", minus), std::pair("0", zero), std::pair("2", two)})
    if (!place.empty()) text += cat(text.empty() ? "" : " and ", name, " (", place, ")");
  throw UserError(cat("labels are -1 and +1, 0 and 1, or 1 and 2, but the data hold both ", text,
                      "; write all in one way"));
}

LabelsSeen first_labels(const std::vector<std::string>& paths, const LineFormat& format,
                        const std::map<std::string, std::string>& inflated) {
  LabelsSeen labels;
  try {
    for (const std::string& path : paths) {
      const auto copy = inflated.find(path);
      bool is_inflated = false;
      const File file = open_lines(path, copy == inflated.end() ? "" : copy->second, is_inflated);
      LineReader lines;
      lines.seek(file, text_begin(file), file.size());
      std::int64_t number = 0;
      for (std::string_view line; lines.next(line);) {
        ++number;
        if (format.is_sample(line)) labels.add(format.label(line), path, number);
        if (labels.tell()) return labels;
      }
    }
  } catch (const UserError&) {
    return {};
  }
  return labels;
}

ClickFile open_click_file(const std::string& path, const LineFormat& format, std::size_t max_entries,
                          LabelsSeen& labels, const std::string& inflated) {
  const FileKind& kind = format.name() == "Criteo" ? criteo_file : libsvm_file;
  refuse_other_kinds(path, kind.format, kind.name);
  bool is_inflated = false;
  File bytes = open_lines(path, inflated, is_inflated);
  ClickFile file{
      .path = path, .bytes = std::move(bytes), .inflated = is_inflated, .index = LineIndex(max_entries)};
  if (file.bytes.size() == 0)
    throw UserError(cat(path, ": is empty; give a file that holds samples, or leave it out"));
  Scan(format, labels).run(file);
  if (file.index.size() == 0)
    throw UserError(cat(path, ": holds no sample, only empty lines or comments; leave it out"));
  return file;
}

std::string place_of(const ClickFile& file, std::int64_t begin) {
  return cat(file.path, ":", line_number(file.bytes, begin), ": ");
}

namespace {

constexpr std::size_t min_index_entries = 64;  // of a file

/// Constant data that the readers of a data set share.
struct ClickData {
  std::unique_ptr<const LineFormat> format;
  std::vector<ClickFile> files;
  bool from_one = false;  ///< Labels are 1 and 2
  std::vector<std::int64_t>
      firsts;  ///< Each file's first sample number, followed by the number of all samples
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
      throw UserError(place_of(data_.files[file_], lines_.begin()) + error.what());
    }
  }

  /// The line of sample i, as it is stored; valid until the next call.
  std::string_view line_of(std::int64_t i) {
    if (i != next_ || i == data_.firsts[file_ + 1]) seek(i);
    const std::string_view line = next_sample();
    next_ = i + 1;
    return line;
  }

 private:
  void seek(std::int64_t i) {
    require(0 <= i && i < data_.firsts.back(), "no sample ", i, " of ", data_.firsts.back());
    const auto behind = std::upper_bound(data_.firsts.begin(), data_.firsts.end(), i);
    file_ = static_cast<std::size_t>(behind - data_.firsts.begin()) - 1;
    next_ = -1;  // should this fail
    const ClickFile& file = data_.files[file_];
    const std::int64_t sample = i - data_.firsts[file_];
    const LineIndex::Entry entry = file.index.before(sample);
    lines_.seek(file.bytes, entry.begin, entry.bytes);
    for (std::int64_t k = entry.sample; k < sample; ++k) next_sample();
  }

  std::string_view next_sample() {
    std::string_view line;
    do {
      if (lines_.next(line)) continue;
      const ClickFile& file = data_.files[file_];
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
  ClickDataset(ClickData data, const std::string& path, const std::string& left_out, std::int64_t positive)
      : data_(std::move(data)) {
    const LineFormat& format = *data_.format;
    set_facts({.size = data_.firsts.back(),
               .shape = {format.dense()},
               .description = describe(path, positive) + left_out,
               .slots = format.slots(),
               .weighted = format.weighted()});
  }

  std::unique_ptr<BagReader> bag_reader() const override { return std::make_unique<ClickReader>(data_); }

  std::vector<std::int64_t> deal(ShardBy how, std::int64_t workers) const override {
    const std::int64_t files = std::ssize(data_.files);
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
    for (const ClickFile& file : data_.files) {
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
    const std::string files = data_.files.size() == 1 ? name : cat(data_.files.size(), " files, ", name);
    std::int64_t inflated = 0;
    for (const ClickFile& file : data_.files) inflated += file.inflated ? file.bytes.size() : 0;
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
    std::int64_t bytes = 0;
    for (const ClickFile& file : data_.files) bytes += file.bytes.size();
    auto left = static_cast<std::int64_t>(static_cast<double>(bytes) * static_cast<double>(worker) /
                                          static_cast<double>(workers));
    std::size_t k = 0;
    while (k + 1 < data_.files.size() && left >= data_.files[k].bytes.size())
      left -= data_.files[k++].bytes.size();
    return data_.firsts[k] + data_.files[k].index.sample_at(left);
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

std::unique_ptr<Dataset> make_click_dataset(const std::string& path, std::unique_ptr<const LineFormat> format,
                                            std::size_t index_entries,
                                            const std::map<std::string, std::string>& inflated,
                                            const std::string& training) {
  LeftOut left_out;
  const std::vector<std::string> paths = find_data_files(path, {}, &left_out);
  const std::size_t entries = std::max(index_entries / paths.size(), min_index_entries);
  ClickData data{.format = std::move(format), .files = {}, .firsts = {0}};
  LabelsSeen of_training;
  try {
    if (!training.empty()) of_training = first_labels(find_data_files(training), *data.format, inflated);
  } catch (const UserError&) {  // the training data are not here
  }
  LabelsSeen labels;
  for (const std::string& file : paths) {
    const auto copy = inflated.find(file);
    data.files.push_back(open_click_file(file, *data.format, entries, labels,
                                         copy == inflated.end() ? std::string() : copy->second));
    data.firsts.push_back(data.firsts.back() + data.files.back().index.size());
    if (const std::int64_t lines = data.files.back().lines_without_sample; lines > 0)
      left_out.add("comment or empty line", file, "", lines);
  }
  data.from_one = count_from_one(labels, of_training);
  const std::int64_t positive = data.from_one ? labels.twos : labels.ones;
  return std::make_unique<ClickDataset>(std::move(data), path, left_out.text(), positive);
}

namespace {

std::unique_ptr<Dataset> open_clicks(const DataRequest& request, std::unique_ptr<const LineFormat> format) {
  const auto& [data, source, classes, seed, use] = request;
  return make_click_dataset(source.path, std::move(format), default_index_entries, use.inflated,
                            use.training || !source.has_labels() ? "" : data.train.path);
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
          .open = nullptr,
          .list_files =
              [](const DataRequest& request, SourceFiles& found) {
                for (const std::string& path : find_data_files(request.source.path, {}, &found.left_out))
                  found.files.insert(path);
              },
          .inflate = inflated_clicks,
          .one_advice = "; of several logs name their folder, or a pattern in quotes",
          .file = file};
}

std::string ids_text(const DataConfig& data) {
  return cat(", ids by data.hash_buckets = ", data.hash_buckets);
}

}  // namespace

const DataReader criteo_reader = [] {
  DataReader reader = click_reader(DataKind::criteo, criteo_file);
  reader.open = [](const DataRequest& request) {
    return open_clicks(
        request, make_criteo_format({.transform = request.data.dense_transform,
                                     .hash_buckets = static_cast<std::uint64_t>(request.data.hash_buckets),
                                     .labelled = request.source.has_labels()}));
  };
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
  reader.open = [](const DataRequest& request) {
    return open_clicks(request, make_libsvm_format(static_cast<std::uint64_t>(request.data.hash_buckets),
                                                   request.source.has_labels()));
  };
  reader.input = [](const DataConfig& data) { return "x" + ids_text(data); };
  reader.is_line = [](std::string_view line) {
    const std::size_t colon = line.find(':');
    return line.find_first_not_of("0123456789+-. \t") == colon && colon != line.npos;
  };
  return reader;
}();

}  // namespace flotilla
