// SPDX-License-Identifier: Apache-2.0
#include "src/data/clicks/click_file.hpp"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/data_file.hpp"
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

/// Checks each label, and that −1 and 0 do not both occur: which of them would be the first class?
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
    const int label = format_.label(line);
    if (label > 0) {
      ++labels_.positive;
    } else if (std::string& first = label < 0 ? labels_.minus : labels_.zero; first.empty()) {
      first = cat(file.path, ":", number);
      if (!labels_.minus.empty() && !labels_.zero.empty()) {
        throw UserError(cat("labels are -1 and +1 or 0 and 1, but the data hold both -1 (", labels_.minus,
                            ") and 0 (", labels_.zero, "); write all in one way"));
      }
    }
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

ClickFile open_click_file(const std::string& path, const LineFormat& format, std::size_t most_entries,
                          LabelsSeen& labels, const std::string& inflated) {
  ClickFile file{.path = path, .bytes = open_data_file(path), .index = LineIndex(most_entries)};
  if (GzipReader::recognises(file.bytes)) {
    const File compressed = std::move(file.bytes);
    std::optional<File> copy = File::of_handle(inflated, cat("the inflated copy of ", path));
    file.bytes = copy ? std::move(*copy) : inflated_samples(compressed);
    file.inflated = true;
  }
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
