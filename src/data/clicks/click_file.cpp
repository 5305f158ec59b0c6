// SPDX-License-Identifier: Apache-2.0
#include "src/data/clicks/click_file.hpp"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/data_file.hpp"
#include "src/data/file_kind.hpp"
#include "src/data/line_reader.hpp"
#include "src/files/gzip_reader.hpp"
#include "src/observe/progress_line.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t samples_checked = 100;
constexpr std::array<std::byte, 3> byte_order_mark = {std::byte{0xEF}, std::byte{0xBB}, std::byte{0xBF}};

std::int64_t text_begin(const File& file) {
  std::array<std::byte, 3> begin{};
  return file.read_some(0, begin) == begin.size() && begin == byte_order_mark ? 3 : 0;
}

/// The file itself, or its inflated copy, which is told.
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

ClickFile open_click_file(const std::string& path, const LineFormat& format, std::size_t most_entries,
                          LabelsSeen& labels, const std::string& inflated) {
  const bool criteo = format.name() == "Criteo";
  refuse_other_kinds(path, criteo ? FileFormat::criteo : FileFormat::libsvm,
                     criteo ? "a Criteo log" : "a LIBSVM file");
  bool is_inflated = false;
  File bytes = open_lines(path, inflated, is_inflated);
  ClickFile file{
      .path = path, .bytes = std::move(bytes), .inflated = is_inflated, .index = LineIndex(most_entries)};
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

}  // namespace flotilla
