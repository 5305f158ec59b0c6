// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_file.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/commands/export.hpp"
#include "src/commands/inspect.hpp"
#include "src/commands/make_data.hpp"
#include "src/config/config.hpp"
#include "src/data/data_file.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/dataset.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/checkpoint/tamper.hpp"
#include "tests/data/arrays/array_files.hpp"
#include "tests/data/clicks/click_lines.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/data/shards/tar_bytes.hpp"
#include "tests/support/temporary_folder.hpp"

// Every kind of file that is known, given to every reader: what a reader does not read is refused with a
// sentence that says what the file is and what reads it, and that does not call it damaged.
// FLOTILLA_TABLE=FILE writes the sentences as a Markdown table.

namespace flotilla {
namespace {

using std::literals::string_literals::operator""s;
using Texts = std::vector<std::string>;

/// A reader of files: throws where it does not read one.
struct Reader {
  std::string name;
  Texts reads;  ///< Names in `files`
  std::function<void(const std::string& path)> read;
};

/// A file or folder in the test's folder, and what it is called in sentences.
struct Given {
  std::string name;
  std::string called;
};

const std::vector<Given> files = {
    {"images.idx", "an IDX file of images"},
    {"labels.idx", "an IDX file of labels"},
    {"images.idx.gz", "an IDX file of images"},
    {"list.txt", "a list of images"},
    {"classes", "a folder of folders"},
    {"image.jpg", "a JPEG image"},
    {"image.png", "a PNG image"},
    {"shard.tar", "a tar file"},
    {"clicks.tsv", "a Criteo log"},
    {"clicks.svm", "a LIBSVM file"},
    {"clicks.svm.gz", "a LIBSVM file"},
    {"arrays.h5", "an HDF5 file"},
    {"arrays.h5.gz", "an HDF5 file"},
    {"checkpoint.h5", "a checkpoint or a file of weights"},
    {"weights.h5", "a checkpoint or a file of weights"},
    {"array.npy", "a NumPy array (.npy)"},
    {"arrays.npz", "a NumPy archive (.npz)"},
    {"npy", "a folder of NumPy files"},
    {"cifar.bin", "a CIFAR file"},
    {"table.csv", "a CSV file"},
    {"rows.json", "a JSON file"},
    {"deck.toml", "a TOML file"},
    {"notes.txt", "a text file"},
    {"table.parquet", "a Parquet file"},
    {"object.pkl", "a Python pickle"},
    {"model.pt", "a PyTorch file"},
    {"model.safetensors", "a file of safetensors"},
    {"model.onnx", "an ONNX model"},
    {"files.zip", "a zip archive"},
    {"files.tar.gz", "a tar file compressed by gzip"},
    {"text.bz2", "a bzip2 file"},
    {"text.xz", "an xz file"},
    {"text.zst", "a zstd file"},
    {"paper.pdf", "a PDF file"},
    {"error.html", "an HTML page"},
    {"image.webp", "a WebP image"},
    {"pointer", "a Git LFS pointer"},
    {"empty", "an empty file"},
};

test::Bytes tar_file() {
  const test::Bytes image = test::jpeg(test::pattern(16, 16));
  return test::bytes(test::tar_member("a.jpg", {image.begin(), image.end()}) +
                     test::tar_member("a.cls", "1") + test::tar_end());
}

/// A member of a zip archive, as far as it is looked at.
test::Bytes zip(const std::string& member) {
  return test::bytes("PK\3\4"s + std::string(22, '\0') + static_cast<char>(member.size()) + "\0\0\0"s +
                     member + std::string(100, 'x'));
}

class WrongFiles : public testing::Test {
 protected:
  void SetUp() override {
    const auto save = [&](const std::string& name, const test::Bytes& bytes) {
      test::save(path(name), bytes);
    };
    const auto text = [&](const std::string& name, const std::string& bytes) {
      save(name, test::bytes(bytes));
    };
    save("images.idx", test::images(4, 4, 4));
    save("labels.idx", test::labels(4, 3));
    save("images.idx.gz", test::gzip(test::images(4, 4, 4)));
    const test::Bytes jpeg = test::jpeg(test::pattern(16, 16));
    std::filesystem::create_directories(path("classes/cat"));
    std::filesystem::create_directories(path("classes/dog"));
    std::filesystem::create_directories(path("classes/hat"));
    for (const char* name : {"classes/cat/1.jpg", "classes/dog/1.jpg", "classes/hat/1.jpg", "image.jpg"})
      save(name, jpeg);
    text("list.txt", "classes/cat/1.jpg 0\nclasses/dog/1.jpg 1\n");
    save("image.png", test::png(test::pattern(16, 16)));
    save("shard.tar", tar_file());
    text("clicks.tsv", test::criteo_text(0, 6));
    text("clicks.svm", test::libsvm_text(1, 6));
    save("clicks.svm.gz", test::gzip(test::bytes(test::libsvm_text(1, 6))));
    const test::StoredArray images = test::counted("images", {}, {4, 4, 4});
    const test::StoredArray labels = test::of_values("labels", {}, {4}, {0, 1, 2, 0});
    test::save_hdf5(path("arrays.h5"), {images, labels});
    const std::string hdf5 = [&] {
      std::ifstream in(path("arrays.h5"), std::ios::binary);
      return std::string{std::istreambuf_iterator<char>(in), {}};
    }();
    save("arrays.h5.gz", test::gzip(test::bytes(hdf5)));
    {
      CheckpointWriter writer(path("run/checkpoints"), 1);  // its destructor waits for the file
      writer.start(save_of(sample_snapshot(4)));
    }
    std::filesystem::rename(path("run/checkpoints/step-00000004.h5"), path("checkpoint.h5"));
    add_dataset(path("weights.h5"), "parameters/w", {4}, {1.0F, 2.0F, 3.0F, 4.0F});
    save("array.npy", test::npy(images));
    save("arrays.npz", test::npz({images, labels}));
    std::filesystem::create_directory(path("npy"));
    save("npy/images.npy", test::npy(images));
    save("npy/labels.npy", test::npy(labels));
    save("cifar.bin", test::Bytes(2 * 3073, 1));
    text("table.csv", "x,y,label\n1.5,2.5,0\n0.5,2.0,1\n");
    text("rows.json", "{\"x\": 1, \"label\": 0}\n");
    text("deck.toml", "# A deck\n[run]\noutput = \"runs/a\"\n");
    text("notes.txt", "What was done last week\n");
    text("table.parquet", "PAR1\x15\x04\x15\x10"s + std::string(50, '\1'));
    text("object.pkl", "\x80\4\x95\x0B\0\0\0\0\0\0\0]\x94(K\1K\2e."s);
    save("model.pt", zip("archive/data.pkl"));
    text("model.safetensors",
         "\x40\0\0\0\0\0\0\0{\"weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"s);
    text("model.onnx",
         "\x08\x08\x12\x07pytorch\x1A\x05"
         "1.13.0:"s);
    save("files.zip", zip("images/1.jpg"));
    save("files.tar.gz", test::gzip(tar_file()));
    text("text.bz2", "BZh91AY&SY\x12\x34\x56");
    text("text.xz", "\xFD\x37zXZ\0\0\4"s);
    text("text.zst", "\x28\xB5\x2F\xFD\x24\x01");
    text("paper.pdf", "%PDF-1.7\n%\xE2\xE3\n");
    text("error.html", "<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>\n");
    text("image.webp", "RIFF\x24\0\0\0WEBPVP8 \x18\0\0\0"s);
    text("pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
    text("empty", "");
  }

  std::string path(const std::string& name) const { return folder_.path(name); }

  /// The reader of data of a kind. @param labelled true: as in training; false: as in flotilla predict
  Reader data(DataKind kind, const Texts& reads, bool labelled = true) const {
    return {cat(labelled ? "" : "predict, ", "data.kind = \"", kind, "\""), reads,
            [this, kind, labelled](const std::string& file) {
              DataConfig data;
              data.kind = kind;
              data.image_size = 8;
              data.short_side = 8;
              data.flip = 0.0;
              DataSourceConfig source{.given = true, .images = file, .labels = {}, .path = file};
              if (labelled) source.labels = path("labels.idx");
              if (!labelled) source.inputs = {file};
              const auto opened = open_dataset(data, source, 3, 1, {.training = labelled});
              const bool bags = kind == DataKind::criteo || kind == DataKind::libsvm;
              if (bags) return static_cast<void>(test::read_all(*opened));
              std::vector<float> sample(static_cast<std::size_t>(opened->sample_shape().size()));
              opened->read(0, 0, sample);
            }};
  }

  std::vector<Reader> readers() const {
    const auto ignore = [](const std::string&) {};
    std::vector<Reader> all;
    all.push_back(data(DataKind::idx, {"images.idx", "images.idx.gz"}));
    all.push_back({"data.train.labels", {"labels.idx"}, [this](const std::string& file) {
                     open_dataset({}, {.given = true, .images = path("images.idx"), .labels = file}, 3, 1,
                                  {.training = true});
                   }});
    all.push_back(data(DataKind::image_list, {"list.txt"}));
    all.push_back(data(DataKind::image_folder, {"classes"}));
    all.push_back(data(DataKind::webdataset, {"shard.tar"}));
    all.push_back(data(DataKind::criteo, {"clicks.tsv"}));
    all.push_back(data(DataKind::libsvm, {"clicks.svm", "clicks.svm.gz"}));
    for (const bool labelled : {true, false}) {
      all.push_back(data(DataKind::hdf5, {"arrays.h5"}, labelled));
      all.push_back(data(DataKind::numpy, {"arrays.npz", "npy"}, labelled));
      if (!labelled) all.back().reads.push_back("array.npy");
      all.push_back(data(DataKind::cifar, {"cifar.bin"}, labelled));
    }
    all.push_back({"run.resume", {"checkpoint.h5"}, [=](const std::string& file) {
                     CheckpointFile(checkpoint_at(file, ignore), CheckpointFile::Content::everything).all();
                   }});
    all.push_back({"model.initial_weights, evaluate, predict",
                   {"checkpoint.h5", "weights.h5"},
                   [=](const std::string& file) { read_weights(checkpoint_at(file, ignore)); }});
    all.push_back({"export", {"checkpoint.h5"}, [=, this](const std::string& file) {
                     export_checkpoint({.checkpoint = file, .output = path("exported.h5")}, ignore);
                   }});
    Texts inspected;
    for (const Given& file : files)
      if (kind_of_path(path(file.name)).advice.starts_with("data.kind")) inspected.push_back(file.name);
    all.push_back({"inspect", inspected, [](const std::string& file) {
                     const Inspection shown = inspect(file, {});
                     EXPECT_NE(shown.text, "") << file;
                     if (!shown.damage.empty()) throw UserError(shown.damage);
                   }});
    return all;
  }

  test::TemporaryFolder folder_;
};

/// What a reader says of files that it reads, but not so.
std::string other_sentence(const std::string& reader, const std::string& file) {
  if (reader == "data.kind = \"numpy\"" && file == "array.npy")
    return "is one array, and samples need labels or targets";
  const bool of_lines = reader == "data.kind = \"image-list\"" || reader == "data.kind = \"criteo\"" ||
                        reader == "data.kind = \"libsvm\"";
  if (of_lines && (file == "table.csv" || file == "notes.txt")) return file + ":1: ";
  if (of_lines && file == "npy") return "NumPy";
  if (of_lines && file == "empty")
    return reader == "data.kind = \"image-list\"" ? "lists no images" : "is empty";
  if (reader == "data.kind = \"idx\"" && file == "labels.idx") return "holds labels";
  if (reader == "data.train.labels" && file.starts_with("images.idx")) return "holds images";
  if ((reader == "data.kind = \"idx\"" || reader == "data.train.labels") && file == "empty")
    return "is empty";
  if (reader == "data.kind = \"image-folder\"" && file == "npy") return "has no folder for a class";
  if (reader == "run.resume" && file == "weights.h5")
    return "it is not a checkpoint; weights go into model.initial_weights";
  if (reader == "export" && file == "weights.h5") return "a file of weights needs no export";
  return {};
}

/// The text without the test's folder, for a table.
std::string shortened(std::string text, const std::string& folder) {
  for (std::size_t at = text.find(folder); at != std::string::npos; at = text.find(folder))
    text.erase(at, folder.size());
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.insert(at, "\\");
  return text;
}

TEST_F(WrongFiles, AreNotMadeUnderNamesOfOtherFormats) {
  for (const std::string name : {"a.pt", "a.pth", "a.bin", "a.safetensors", "a.npz", "a.ONNX", "a.keras"}) {
    const std::string said = error_of([&] {
      export_checkpoint({.checkpoint = path("checkpoint.h5"), .output = path(name)},
                        [](const std::string&) {});
    });
    EXPECT_TRUE(mentions(said, {"cannot write an HDF5 file as '" + path(name) + "'", "ends in .h5 or .hdf5",
                                "an ONNX model ends in .onnx", "torch_to_hdf5.py --back"}))
        << said;
    EXPECT_FALSE(std::filesystem::exists(path(name)));
  }
  for (const std::string name : {"a.h5", "a.hdf5", "a"})
    EXPECT_EQ(error_of([&] {
                export_checkpoint({.checkpoint = path("checkpoint.h5"), .output = path(name)},
                                  [](const std::string&) {});
              }),
              "");
  EXPECT_NE(error_of([&] { make_borehole_data({.rows = 4, .output = path("a.csv")}); }), "");
}

TEST_F(WrongFiles, AreNamedWithWhatReadsThem) {
  const char* const table = std::getenv("FLOTILLA_TABLE");
  std::ofstream out(table == nullptr ? "/dev/null" : table);
  for (const Reader& reader : readers()) {
    out << "\n| " << reader.name << " is given | it says |\n|---|---|\n";
    for (const Given& file : files) {
      const bool is_read = std::ranges::count(reader.reads, file.name) > 0;
      std::string said = "(read)";
      try {
        reader.read(path(file.name));
        EXPECT_TRUE(is_read) << reader.name << " read " << file.name;
      } catch (const UserError& error) {
        said = shortened(error.what(), path(""));
        EXPECT_FALSE(is_read) << reader.name << " refuses " << file.name << ": " << said;
      }
      out << "| " << file.name << " | " << said << " |\n";
      if (is_read) continue;
      const std::string other = other_sentence(reader.name, file.name);
      EXPECT_NE(said.find(other.empty() ? file.called : other), std::string::npos)
          << reader.name << ", " << file.name << ": " << said;
      EXPECT_NE(said.find(file.name), std::string::npos) << reader.name << ", " << file.name << ": " << said;
      for (const char* word :
           {"damaged", "truncated", "copy it again", "copy the file again", "write it again"})
        EXPECT_EQ(said.find(word), std::string::npos) << reader.name << ", " << file.name << ": " << said;
    }
  }
}

}  // namespace
}  // namespace flotilla
