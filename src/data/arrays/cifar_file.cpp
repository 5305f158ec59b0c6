// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/error.hpp"
#include "src/data/arrays/array.hpp"
#include "src/data/arrays/known_arrays.hpp"
#include "src/data/arrays/open_arrays.hpp"
#include "src/data/data_file.hpp"
#include "src/data/mistake_list.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t image_bytes = 3 * 32 * 32;
constexpr std::int64_t fine_classes = 100;
constexpr std::int64_t coarse_classes = 20;

class CifarFile final : public ArrayFile {
 public:
  explicit CifarFile(const std::string& path)
      : path_(path), file_(std::make_shared<const UnchangedFile>(open_data_file(path))) {
    const std::int64_t bytes = file_->size();
    if (bytes > 0 && bytes % (image_bytes + 1) == 0) {
      names_ = {"labels"};
    } else if (bytes > 0 && bytes % (image_bytes + 2) == 0) {
      names_ = {"coarse_labels", "fine_labels"};
    } else {
      refuse_other_kinds(path, FileFormat::cifar, "a CIFAR file of the binary version");
      throw UserError(
          cat("'", path, "' is no file of CIFAR's, or truncated: its ", bytes,
              " bytes are no multiple of 3073 (CIFAR-10) or 3074 (CIFAR-100); give the binary version"));
    }
    names_.push_back("images");
  }

  std::vector<std::string> names() const override { return names_; }

  std::unique_ptr<Array> open(const std::string& name) const override {
    const std::int64_t labels = std::ssize(names_) - 1;
    const std::int64_t record = labels + image_bytes;
    const std::int64_t records = file_->size() / record;
    ArrayForm form{
        .name = cat("'", path_, "', ", name), .extents = {records}, .type = {}, .storage = "records"};
    if (name == names_.back()) form.extents = {records, 3, 32, 32};
    const std::int64_t begin = name == names_.front() ? 0 : name == names_.back() ? labels : 1;
    return make_plain_array(std::move(form), file_, {.begin = begin, .stride = record});
  }

 private:
  std::string path_;
  std::shared_ptr<const UnchangedFile> file_;
  std::vector<std::string> names_;  ///< Names in the order of a record
};

}  // namespace

std::unique_ptr<ArrayFile> open_cifar(const std::string& path) {
  return std::make_unique<CifarFile>(path);
}

namespace {

/// The array of labels for a model with `classes` classes. @throws UserError if the file has none for it
std::string cifar_labels(const ArrayFile& file, const std::string& path, std::int64_t classes) {
  if (file.has("labels")) return "labels";
  if (classes == fine_classes) return "fine_labels";
  if (classes == coarse_classes) return "coarse_labels";
  throw UserError(cat("'", path, "' is of CIFAR-100, whose labels are ", fine_classes, " fine and ",
                      coarse_classes, " coarse classes: set model.classes to one of them",
                      classes == any_classes ? "" : cat(", got ", classes)));
}

void name_cifar(ArrayNames& names, const ArrayFile& file, const std::string& path, const DataRequest& request,
                MistakeList& mistakes) {
  names.inputs = "images";
  if (request.source.has_labels())
    mistakes.attempt([&] { names.targets = cifar_labels(file, path, request.classes); });
}

InFolder what_is_cifar(const std::string& name, bool training) {
  const std::string ending = small_ending(name);
  const bool tests = name == "test_batch.bin" || name == "test.bin";
  const bool trains = name == "train.bin" || (name.starts_with("data_batch_") && ending == ".bin");
  if (training ? trains : tests) return InFolder::data;
  return tests || trains || ending == ".txt" || ending == ".html" ? InFolder::beside : InFolder::other;
}

/// The names that come with the binary files.
std::vector<std::string> cifar_class_names(const DataConfig& data, std::int64_t classes) {
  if (classes == fine_classes) return names_beside(data, "fine_label_names.txt", classes);
  return names_beside(data, classes == coarse_classes ? "coarse_label_names.txt" : "batches.meta.txt",
                      classes);
}

constexpr ArrayFormat cifar_format = {
    .wanted =
        [](bool training) {
          return training ? "data_batch_*.bin or train.bin" : "test_batch.bin or test.bin";
        },
    .what_is = what_is_cifar,
    .open = [](const std::string& path, const ArrayOpening& /*opening*/) { return open_cifar(path); },
    .name_arrays = name_cifar};

}  // namespace

const DataReader cifar_reader = [] {
  DataReader reader = array_reader(DataKind::cifar, cifar_format);
  reader.class_names = cifar_class_names;
  return reader;
}();

}  // namespace flotilla
