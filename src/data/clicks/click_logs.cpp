// SPDX-License-Identifier: Apache-2.0
#include "src/data/clicks/click_logs.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_reader.hpp"
#include "src/files/gzip_reader.hpp"
#include "src/files/packed_fields.hpp"
#include "src/observe/progress_line.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t samples_checked = 100;

// Small files get an entry of the index for about each sample. In larger ones a sample is found in 32 KiB and
// the rest of a line; the index takes 1/8,192 of their size.
constexpr std::int64_t min_block_bytes = 64;
constexpr std::int64_t max_block_bytes = std::int64_t{32} << 10;
constexpr std::int64_t most_small_blocks = std::int64_t{1} << 20;

std::int64_t text_begin(const File& file) {
  std::array<char, config::utf8_mark.size()> begin{};
  const std::size_t there = file.read_some(0, std::as_writable_bytes(std::span(begin)));
  return std::string_view(begin.data(), there) == config::utf8_mark ? there : 0;
}

std::optional<File> copy_of(const std::string& path, const std::map<std::string, std::string>& inflated) {
  const auto copy = inflated.find(path);
  return copy == inflated.end() ? std::nullopt
                                : File::of_handle(copy->second, cat("the inflated copy of ", path));
}

/// The file itself, or its inflated copy.
ClickFile open_lines(const std::string& path, const std::map<std::string, std::string>& inflated) {
  File file = open_data_file(path);
  if (!GzipReader::recognises(file)) return {path, std::move(file), false, {}};
  std::optional<File> copy = copy_of(path, inflated);
  return {path, copy ? std::move(*copy) : inflated_samples(file), true, {}};
}

/// Reads files up to the first label that is not 1, which tells how the others are written. Nothing is
/// decided if files cannot be read: opening them reports that.
LabelsSeen first_labels(const ClickOpening& opening) {
  LabelsSeen labels;
  try {
    for (const std::string& path : find_data_files(opening.training)) {
      const ClickFile file = open_lines(path, opening.inflated);
      LineReader lines;
      lines.seek(file.bytes, text_begin(file.bytes), file.bytes.size());
      std::int64_t number = 0;
      for (std::string_view line; lines.next(line);) {
        ++number;
        if (opening.format.is_sample(line)) labels.add(opening.format.label(line), path, number);
        if (labels.tell()) return labels;
      }
    }
  } catch (const UserError&) {
    return {};
  }
  return labels;
}

void give_blocks(std::vector<ClickFile>& files, std::int64_t block_bytes) {
  std::int64_t bytes = 0;
  for (const ClickFile& file : files) bytes += file.bytes.size();
  if (block_bytes == 0)
    block_bytes = std::clamp(
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes / most_small_blocks + 1))),
        min_block_bytes, max_block_bytes);
  for (ClickFile& file : files) file.index = SampleIndex(file.bytes.size(), block_bytes);
}

/// Reads the lines that begin in blocks `first` … `end` − 1 of a file. The first piece of a file reads on
/// until it has checked as many samples as are checked completely.
class PieceReader {
 public:
  PieceReader(const LineFormat& format, const ClickFile& file, ClickPiece& piece)
      : format_(format),
        file_(file),
        piece_(piece),
        dense_(static_cast<std::size_t>(format.dense())),
        bags_(1, 1, false) {}

  void run(std::int64_t first, std::int64_t end) {
    piece_.blocks.resize(static_cast<std::size_t>(end - first));
    try {
      read(first, std::min(end * file_.index.block_bytes(), file_.bytes.size()));
      piece_.complete = true;
    } catch (const UserError& error) {
      piece_.mistake = error.what();
      piece_.mistake_in_line = in_line_;
      piece_.mistake_line = in_line_ ? number_ : number_ + 1;
    }
  }

 private:
  void read(std::int64_t first, std::int64_t end_byte) {
    const std::int64_t block_bytes = file_.index.block_bytes();
    const std::int64_t begin = first == 0 ? text_begin(file_.bytes) : first * block_bytes;
    std::int64_t unchecked = first == 0 ? samples_checked : 0;
    LineReader lines;
    std::string_view line;
    lines.seek(file_.bytes, first == 0 ? begin : begin - 1, end_byte - begin);
    if (first > 0) lines.next(line);  // the rest of a line of the piece before
    ProgressLine progress(cat("reading ", file_.path), end_byte - begin, Amount::bytes);
    while (lines.next(line)) {
      const std::int64_t at = lines.begin();
      piece_.complete = at >= end_byte;
      if (piece_.complete && unchecked == 0) return;
      ++number_;
      progress.at(at - begin);
      in_line_ = true;
      const bool is_sample = format_.is_sample(line);
      const int label = is_sample ? format_.label(line) : 0;
      if (!piece_.complete) count(is_sample, label, first, at);
      if (is_sample && unchecked > 0) {
        --unchecked;
        bags_.clear();
        format_.parse(line, dense_, bags_);
      }
      in_line_ = false;
    }
  }

  void count(bool is_sample, int label, std::int64_t first, std::int64_t at) {
    piece_.lines = number_;
    if (!is_sample) {
      ++piece_.without_sample;
      return;
    }
    if (label == 1) {
      ++piece_.ones;
    } else {
      piece_.twos += label == 2 ? 1 : 0;
      std::int64_t& line = piece_.first_lines[label < 0 ? 0 : label == 0 ? 1 : 2];
      if (line == 0) line = number_;
    }
    const std::int64_t block_bytes = file_.index.block_bytes();
    SampleIndex::Block& block = piece_.blocks[static_cast<std::size_t>(at / block_bytes - first)];
    if (block.samples++ == 0) block.begin = static_cast<std::uint16_t>(at % block_bytes);
  }

  const LineFormat& format_;
  const ClickFile& file_;
  ClickPiece& piece_;
  std::vector<float> dense_;
  BagBuffer bags_;
  std::int64_t number_ = 0;  ///< Of the last line, in the piece
  bool in_line_ = false;     ///< It is being looked at
};

/// Path, whether it is inflated, and bytes of a file.
using ListedFile = std::tuple<std::string, bool, std::int64_t>;

/// Something in a file that the order of its lines decides about.
struct Event {
  std::size_t file = 0;
  std::int64_t line = 0;
  int label = 0;
  const ClickPiece* mistaken = nullptr;  ///< Null: a label
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

ClickLogs ClickLogs::open(const ClickOpening& opening) {
  ClickLogs logs;
  for (const std::string& path : find_data_files(opening.path, {}, &logs.left_out)) {
    refuse_other_kinds(path, opening.kind.format, opening.kind.name);
    logs.files.push_back(open_lines(path, opening.inflated));
    if (logs.files.back().bytes.size() == 0)
      throw UserError(cat(path, ": is empty; give a file that holds samples, or leave it out"));
  }
  give_blocks(logs.files, opening.block_bytes);
  if (!opening.training.empty()) logs.of_training = first_labels(opening);
  return logs;
}

std::string ClickLogs::listed() const {
  std::vector<ListedFile> opened;
  for (const ClickFile& file : files) opened.emplace_back(file.path, file.inflated, file.bytes.size());
  return packed(std::tie(mistake, left_out, of_training, opened));
}

ClickLogs ClickLogs::of_listed(std::string_view text, const std::map<std::string, std::string>& inflated) {
  ClickLogs logs;
  std::vector<ListedFile> opened;
  Unpacker{text}(logs.mistake, logs.left_out, logs.of_training, opened);
  for (const auto& [path, is_inflated, size] : opened) {
    std::optional<File> copy = is_inflated ? copy_of(path, inflated) : open_data_file(path);
    File bytes = copy ? std::move(*copy) : inflated_samples(open_data_file(path));
    if (bytes.size() != size)
      throw UserError(cat(path, ": has ", bytes.size(), " bytes here and ", size,
                          " on the host of worker 0; give all hosts the same data"));
    logs.files.push_back({path, std::move(bytes), is_inflated, {}});
  }
  give_blocks(logs.files, 0);
  return logs;
}

std::vector<ClickPiece> ClickLogs::scan(const LineFormat& format, int part, int parts) const {
  std::vector<ClickPiece> pieces;
  std::int64_t all = 0;
  for (const ClickFile& file : files) all += file.index.blocks();
  const std::int64_t begin = all * part / parts;
  const std::int64_t end = all * (part + 1) / parts;
  std::int64_t before = 0;
  for (std::size_t k = 0; k < files.size(); before += files[k++].index.blocks()) {
    const std::int64_t first = std::max<std::int64_t>(begin - before, 0);
    const std::int64_t behind = std::min(end - before, files[k].index.blocks());
    if (first >= behind) continue;
    ClickPiece& piece = pieces.emplace_back();
    piece.file = static_cast<std::int64_t>(k);
    PieceReader(format, files[k], piece).run(first, behind);
  }
  return pieces;
}

void ClickLogs::merge(std::vector<ClickPiece> pieces) {
  std::vector<Event> events;
  std::vector<std::int64_t> without_sample(files.size());
  std::int64_t lines = 0;  // of the file, in the pieces before
  for (ClickPiece& piece : pieces) {
    const auto k = static_cast<std::size_t>(piece.file);
    ClickFile& file = files[k];
    if (file.index.is_empty()) lines = 0;
    constexpr std::array labels_of_first = {-1, 0, 2};
    for (std::size_t n = 0; n < labels_of_first.size(); ++n)
      if (piece.first_lines[n] > 0) events.push_back({k, lines + piece.first_lines[n], labels_of_first[n]});
    if (piece.mistake_line > 0) events.push_back({k, lines + piece.mistake_line, 0, &piece});
    if (!piece.complete) break;  // no line behind it counts
    lines += piece.lines;
    without_sample[k] += piece.without_sample;
    labels.ones += piece.ones;
    labels.twos += piece.twos;
    file.index.add(std::move(piece.blocks));
    if (file.index.is_complete() && file.index.size() == 0)
      events.push_back({k, std::numeric_limits<std::int64_t>::max()});
  }
  std::ranges::stable_sort(events, {}, [](const Event& event) { return std::pair(event.file, event.line); });
  const LabelsSeen counted = labels;
  for (const auto& [k, line, label, mistaken] : events) {
    const std::string& path = files[k].path;
    if (mistaken != nullptr && !mistaken->mistake_in_line) throw UserError(mistaken->mistake);
    if (mistaken != nullptr) throw UserError(cat(path, ":", line, ": ", mistaken->mistake));
    if (line == std::numeric_limits<std::int64_t>::max())
      throw UserError(cat(path, ": holds no sample, only empty lines or comments; leave it out"));
    try {
      labels.add(label, path, line);
    } catch (const UserError& error) {
      throw UserError(cat(path, ":", line, ": ", error.what()));
    }
  }
  labels.ones = counted.ones;
  labels.twos = counted.twos;
  for (std::size_t k = 0; k < files.size(); ++k)
    if (without_sample[k] > 0) left_out.add("comment or empty line", files[k].path, "", without_sample[k]);
}

}  // namespace flotilla
