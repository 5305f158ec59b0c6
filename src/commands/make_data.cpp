// SPDX-License-Identifier: Apache-2.0
#include "src/commands/make_data.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <iterator>
#include <optional>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/commands/output_files.hpp"
#include "src/data/clicks/synthetic_clicks.hpp"
#include "src/files/atomic_file.hpp"
#include "src/observe/progress_line.hpp"

namespace flotilla {

namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;

struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

std::string write_rows(const SyntheticClicks& clicks, RowRange rows, const std::string& path,
                       const std::string& truth_path) {
  AtomicFile file(path);
  std::optional<AtomicFile> truth_file;
  if (!truth_path.empty()) truth_file.emplace(truth_path);
  std::string text;
  std::string truths;
  std::int64_t bytes = 0;
  Ceiling ceiling;
  const auto flush = [&] {
    file.append(text);
    bytes += std::ssize(text);
    text.clear();
    if (truth_file) truth_file->append(truths);
    truths.clear();
  };
  ProgressLine progress(cat("writing ", path), rows.end - rows.begin, Amount::items);
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    progress.at(i - rows.begin);
    const SyntheticClicks::Truth truth = clicks.write(i, text);
    ceiling.add(truth);
    if (truth_file) fmt::format_to(std::back_inserter(truths), "{:.8g}\n", truth.probability);
    if (text.size() >= block_bytes) flush();
  }
  flush();
  file.commit();
  if (truth_file) truth_file->commit();
  return fmt::format(
      "{}: {} rows, {:.2f} % positive, {:.1f} MB; the true probabilities reach AUC {:.5f}, log loss {:.5f}",
      path, ceiling.rows(),
      100.0 * static_cast<double>(ceiling.positive()) / static_cast<double>(ceiling.rows()),
      static_cast<double>(bytes) * 1e-6, ceiling.auc(), ceiling.log_loss());
}

}  // namespace

std::string validation_name(const std::string& path) {
  std::filesystem::path name(path);
  const std::string ending = name.extension().string();
  return name.replace_extension(".valid" + ending).string();
}

std::string make_criteo_data(const MakeDataArguments& arguments) {
  std::vector<std::string> outputs = {arguments.output, arguments.truth};
  if (arguments.validation_rows > 0)
    for (const std::string& path : {arguments.output, arguments.truth})
      outputs.push_back(path.empty() ? "" : validation_name(path));
  for (const std::string& path : outputs)
    if (std::filesystem::exists(path)) check_output_file(path, {});
  check_outputs(outputs, {});
  const SyntheticClicks clicks(
      {.seed = static_cast<std::uint64_t>(arguments.seed), .vocabulary = arguments.vocabulary});
  std::string said = write_rows(clicks, {0, arguments.rows}, arguments.output, arguments.truth);
  if (arguments.validation_rows > 0) {
    said += '\n';
    said += write_rows(clicks, {arguments.rows, arguments.rows + arguments.validation_rows},
                       validation_name(arguments.output),
                       arguments.truth.empty() ? "" : validation_name(arguments.truth));
  }
  return said;
}

}  // namespace flotilla
