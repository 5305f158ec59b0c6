// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"
#include "src/data/data_file.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/checkpoint/tamper.hpp"
#include "tests/data/arrays/bad_arrays.hpp"
#include "tests/data/arrays/faulty_hdf5.hpp"

// Commands that messages and documents advise: each is run on a file that shows the fault, and what it makes
// is read. A command that is advised and not run here, or named with the reason, fails.

namespace flotilla {
namespace {

namespace fs = std::filesystem;

const std::string source = FLOTILLA_SOURCE_DIR;

/// Whether a shell runs it with exit code 0, in a folder.
bool runs(const std::string& command, const std::string& folder = "/") {
  return std::system(("cd '" + folder + "' && { " + command + "; } >/dev/null 2>&1").c_str()) == 0;
}

/// A folder for PATH whose python3 has a module; "no" where there is none.
std::string path_to_python_with(const std::string& modules) {
  const char* const named = std::getenv("FLOTILLA_PYTHON");
  for (const std::string& python :
       {std::string(named == nullptr ? "python3" : named), std::string("/usr/bin/python3")})
    if (runs("'" + python + "' -c 'import " + modules + "'"))
      return python.find('/') == std::string::npos ? "" : fs::path(python).parent_path().string() + ":";
  return "no";
}

class AdvisedCommands : public test::BadArrays {
 protected:
  AdvisedCommands() {
    for (std::size_t k = 0; k < images.values.size(); ++k)
      images.values[k] = static_cast<std::uint8_t>(7 * k % 251);
    data.targets = "images";
  }

  /// All samples of a file of unlabelled ones.
  std::vector<float> samples(const std::string& name) const {
    const auto opened = open_dataset(data, unlabelled(name), 3, 1, {});
    std::vector<float> all;
    for (std::int64_t i = 0; i < opened->size(); ++i)
      for (const float value : test::values_of(*opened, i)) all.push_back(value);
    return all;
  }
  std::string refusal(const std::string& name) const {
    const std::string said = test::error_of([&] { samples(name); });
    EXPECT_NE(said, "") << name << " is read";
    return said;
  }
  /// Expects that a file is refused with a command, and that the command turns it into one with the samples
  /// of `images`.
  void expect_helps(const std::string& name, const std::string& command, const std::string& path = {}) {
    SCOPED_TRACE(name);
    const std::string said = refusal(name);
    EXPECT_TRUE(mentions(said, {command}));
    std::string line = command;
    line.replace(line.find("OLD"), 3, folder.path(name));
    line.replace(line.find("NEW"), 3, folder.path("new.h5"));
    fs::remove(folder.path("new.h5"));
    EXPECT_TRUE(runs("export PATH=" + path + "$PATH; " + line, source)) << line;
    EXPECT_EQ(samples("new.h5"), samples("plain.h5"));
  }

  DataSourceConfig unlabelled(const std::string& name) const {
    DataSourceConfig source_of_inputs = test::source_at(folder.path(name));
    source_of_inputs.inputs = {folder.path(name)};
    return source_of_inputs;
  }

  test::Bytes2d images{.rows = 70, .columns = 12, .values = std::vector<std::uint8_t>(70 * 12)};
};

void chunks(hid_t creation, hsize_t rows = 16, hsize_t columns = 12) {
  const std::vector<hsize_t> extents{rows, columns};
  hdf5::check(H5Pset_chunk(creation, 2, extents.data()), "H5Pset_chunk");
}

TEST_F(AdvisedCommands, OfHdf5ToolsMakeFilesThatAreRead) {
  if (!runs("h5repack --version")) GTEST_SKIP() << "h5repack is not installed (hdf5-tools)";
  test::save_as(folder.path("plain.h5"), images, [](hid_t) {});
  const auto filtered = [&](const char* name, const std::function<void(hid_t)>& set) {
    test::save_as(folder.path(name), images, [&](hid_t creation) {
      chunks(creation);
      set(creation);
    });
    expect_helps(name, "h5repack -f SHUF -f GZIP=4 OLD NEW");
  };
  filtered("nbit.h5", [](hid_t creation) { H5Pset_nbit(creation); });
  filtered("scaleoffset.h5", [](hid_t creation) { H5Pset_scaleoffset(creation, H5Z_SO_INT, 0); });
  if (H5Zfilter_avail(H5Z_FILTER_SZIP) > 0)
    filtered("szip.h5", [](hid_t creation) { H5Pset_szip(creation, H5_SZIP_NN_OPTION_MASK, 8); });

  const auto elsewhere = [&](const char* name, const std::function<void(hid_t)>& set, bool newest = false) {
    test::save_as(folder.path(name), images, set, newest);
    expect_helps(name, "h5repack -l CONTI OLD NEW");
  };
  elsewhere("external.h5", [&](hid_t creation) {
    hdf5::check(H5Pset_external(creation, folder.path("external.raw").c_str(), 0, images.values.size()),
                "H5Pset_external");
  });
  elsewhere(
      "edges.h5",
      [](hid_t creation) {
        chunks(creation);
        H5Pset_deflate(creation, 4);
        hdf5::check(H5Pset_chunk_opts(creation, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS), "H5Pset_chunk_opts");
      },
      true);
  test::save_as(folder.path("virtual.h5"), images, [&](hid_t creation) {
    const std::vector<hsize_t> extents{images.rows, images.columns};
    const hdf5::Space space(H5Screate_simple(2, extents.data(), nullptr), "H5Screate_simple");
    hdf5::check(H5Pset_virtual(creation, space.id(), folder.path("plain.h5").c_str(), "images", space.id()),
                "H5Pset_virtual");
  });
  expect_helps("virtual.h5", "h5repack -l CONTI OLD NEW");

  add_dataset_elsewhere(folder.path("link.h5"), "images", Elsewhere::external_link, "plain.h5", 0);
  expect_helps("link.h5", "h5repack --merge OLD NEW");
  add_dataset_elsewhere(folder.path("links.h5"), "images", Elsewhere::link_to_external_link, "plain.h5", 0);

  images = {.rows = 2, .columns = 600000, .values = std::vector<std::uint8_t>(1200000, 3)};
  test::save_as(folder.path("plain.h5"), images, [](hid_t) {});
  test::save_as(folder.path("large.h5"), images, [](hid_t creation) {
    chunks(creation, 2, 600000);
    H5Pset_deflate(creation, 1);
  });
  data.cache_mb = 1;
  expect_helps("large.h5", "h5repack -l CONTI OLD NEW");
}

TEST_F(AdvisedCommands, OfTheScriptMakeFilesThatAreRead) {
  const std::string path = path_to_python_with("h5py");
  if (path == "no") GTEST_SKIP() << "no python3 here has h5py (python3-h5py; FLOTILLA_PYTHON names another)";
  const std::string command = "python3 scripts/rewrite_hdf5.py OLD NEW";
  test::save_as(folder.path("plain.h5"), images, [](hid_t) {});
  test::save_lzf(folder.path("lzf.h5"), images);
  expect_helps("lzf.h5", command, path);

  // A format that is newer than this library, if h5py has a newer one.
  ASSERT_TRUE(
      runs("export PATH=" + path +
               "$PATH; python3 -c 'import h5py; a = h5py.File(\"plain.h5\"); h5py.File(\"latest.h5\", \"w\", "
               "libver=\"latest\").create_dataset(\"images\", data=a[\"images\"], compression=\"gzip\")'",
           folder.path("")));
  const std::string said = error_of([&] { samples("latest.h5"); });
  if (said.empty()) return;
  EXPECT_TRUE(mentions(said, {"newer HDF5 format"}));
  expect_helps("latest.h5", command, path);
}

TEST_F(AdvisedCommands, DecompressAndConvert) {
  const std::string text = "1 1:0.5\n0 2:0.25\n";
  std::ofstream(folder.path("plain")) << text;
  const auto expect_unpacks = [&](const std::string& pack, const std::string& packed,
                                  const std::string& unpack) {
    SCOPED_TRACE(unpack);
    if (!runs("command -v " + unpack.substr(0, unpack.find(' ')) + " && cp plain file && " + pack,
              folder.path("")))
      return;
    const FileKind kind = kind_of_path(folder.path(packed));
    EXPECT_TRUE(mentions(advice_on(kind), {"with " + unpack}));
    EXPECT_TRUE(runs(unpack + " " + packed, folder.path("")));
    EXPECT_TRUE(runs("cmp plain file", folder.path("")));
    fs::remove(folder.path("file"));
  };
  expect_unpacks("bzip2 file", "file.bz2", "bunzip2");
  expect_unpacks("xz file", "file.xz", "unxz");
  expect_unpacks("xz --format=lzma file", "file.lzma", "unlzma");
  expect_unpacks("zstd --rm file", "file.zst", "unzstd");
  expect_unpacks("lz4 --rm file file.lz4", "file.lz4", "unlz4 -m");
  expect_unpacks("zip -m file.zip file", "file.zip", "unzip");
  expect_unpacks("7z a -sdel file.7z file", "file.7z", "7z x");
  std::ofstream(folder.path("utf16"), std::ios::binary)
      << std::string("\xFF\xFE\x31\0\x20\0\x31\0\x3A\0\x35\0\n\0", 14);
  EXPECT_EQ(advice_on(kind_of_path(folder.path("utf16"))), "convert it with iconv -f UTF-16 -t UTF-8");
  EXPECT_TRUE(runs("iconv -f UTF-16 -t UTF-8 utf16 > utf8", folder.path("")));
  EXPECT_EQ(kind_of_path(folder.path("utf8")).name, "a LIBSVM file");
  // gunzip, of what is read only inflated; gzip -t tells a file that was cut off.
  test::save_as(folder.path("plain.h5"), images, [](hid_t) {});
  ASSERT_TRUE(runs("gzip -k plain.h5 && cp plain.h5.gz packed.h5.gz", folder.path("")));
  EXPECT_TRUE(mentions(refusal("plain.h5.gz"), {"decompress it with gunzip"}));
  EXPECT_TRUE(runs("gunzip packed.h5.gz", folder.path("")));
  EXPECT_EQ(samples("packed.h5"), samples("plain.h5"));
  EXPECT_TRUE(
      runs("gzip -t plain.h5.gz && head -c 100 plain.h5.gz > cut.gz && ! gzip -t cut.gz", folder.path("")));
}

TEST_F(AdvisedCommands, OfNumPyMakeFilesThatAreRead) {
  const std::string path = path_to_python_with("numpy");
  if (path == "no")
    GTEST_SKIP() << "no python3 here has numpy (python3-numpy; FLOTILLA_PYTHON names another)";
  const auto python = [&](const std::string& text) {
    EXPECT_TRUE(
        runs("export PATH=" + path + "$PATH; python3 -c 'import numpy; " + text + "'", folder.path("")))
        << text;
  };
  data.kind = DataKind::numpy;
  python(
      "a = numpy.arange(12.0).reshape(4, 3); numpy.save(\"plain.npy\", a); numpy.save(\"f.npy\", "
      "numpy.asfortranarray(a))");
  EXPECT_TRUE(mentions(refusal("f.npy"), {"write numpy.ascontiguousarray(array)"}));
  python("numpy.save(\"new.npy\", numpy.ascontiguousarray(numpy.load(\"f.npy\")))");
  EXPECT_EQ(samples("new.npy"), samples("plain.npy"));
  std::ofstream(folder.path("a.csv")) << "x,y,z\n0,1,2\n3,4,5\n6,7,8\n9,10,11\n";
  EXPECT_TRUE(mentions(refusal("a.csv"), {"data.kind = \"csv\" reads it"}));
}

TEST_F(AdvisedCommands, OfTorchMakeWeightsThatAreRead) {
  const std::string path = path_to_python_with("torch, h5py");
  if (path == "no") GTEST_SKIP() << "no python3 here has torch and h5py (FLOTILLA_PYTHON names another)";
  const auto shell = [&](const std::string& command) {
    EXPECT_TRUE(runs("export PATH=" + path + "$PATH; cd " + source + "; " + command)) << command;
  };
  const std::string pt = folder.path("a.pt");
  shell("python3 -c 'import torch; torch.save({\"fc.weight\": torch.ones(2, 3)}, \"" + pt + "\")'");
  const std::string said = error_of([&] { read_weights(pt); });
  const std::string command = "python3 scripts/torch_to_hdf5.py " + pt + " " + folder.path("a.h5");
  EXPECT_TRUE(mentions(said, {command}));
  shell(command);
  EXPECT_EQ(read_weights(folder.path("a.h5")).values, std::vector<float>(6, 1.0F));
  shell("python3 scripts/torch_to_hdf5.py --back " + folder.path("a.h5") + " " + folder.path("b.pt"));
}

TEST(AdvisedOptions, OfMpirunAreTaken) {
  if (!runs("mpirun --version | grep 'Open MPI'")) GTEST_SKIP() << "this mpirun is not that of Open MPI";
  for (const std::string options :
       {"--bind-to none", "--map-by core", "--map-by slot", "--map-by numa --bind-to numa",
        "--map-by ppr:1:node", "--map-by slot:PE=1 --bind-to core", "--oversubscribe",
        "-x OMPI_MCA_mpi_yield_when_idle=1", "--host localhost"})
    EXPECT_TRUE(runs("mpirun " + options + " -n 1 true")) << options;
}

/// The commands that messages and the pages of remedies advise, and the test that runs them, or why none
/// does.
const std::vector<std::pair<std::string, std::string>> advised = {
    {"h5repack -f SHUF -f GZIP=4 OLD NEW", "OfHdf5ToolsMakeFilesThatAreRead"},
    {"h5repack -l CONTI OLD NEW", "OfHdf5ToolsMakeFilesThatAreRead"},
    {"h5repack --merge OLD NEW", "OfHdf5ToolsMakeFilesThatAreRead"},
    {"python3 scripts/rewrite_hdf5.py OLD NEW", "OfTheScriptMakeFilesThatAreRead"},
    {"python3 scripts/torch_to_hdf5.py", "OfTorchMakeWeightsThatAreRead"},
    {"numpy.ascontiguousarray", "OfNumPyMakeFilesThatAreRead"},
    {"numpy.save", "OfNumPyMakeFilesThatAreRead"},
    {"gunzip", "DecompressAndConvert"},
    {"bunzip2", "DecompressAndConvert"},
    {"unxz", "DecompressAndConvert"},
    {"unlzma", "DecompressAndConvert"},
    {"unzstd", "DecompressAndConvert"},
    {"unlz4 -m", "DecompressAndConvert"},
    {"unzip", "DecompressAndConvert"},
    {"7z x", "DecompressAndConvert"},
    {"iconv -f UTF-16 -t UTF-8", "DecompressAndConvert"},
    {"unrar x", "no free program writes RAR archives"},
    {"nccopy -k nc4",
     "netcdf-bin would be a package for one line; tried by hand on a file of ncgen -k classic"},
    {"git lfs pull", "needs a server"},
    {"docker run",
     "no engine is there; tests/faults/test_containers.cpp makes what its options do with namespaces"},
    {"mpirun", "AdvisedOptions.OfMpirunAreTaken"},
    {"OMPI_MCA_", "AdvisedOptions.OfMpirunAreTaken, and all tests with MPI"},
    {"srun", "needs a Slurm: tests/hosts"},
    {"sbatch", "needs a Slurm: tests/hosts"},
    {"squeue", "needs a Slurm: tests/hosts"},
    {"SLURM_", "needs a Slurm: tests/hosts"},
    {"GOMP_SPINCOUNT=", "tests/runs/test_shared_cores.cpp"},
    {"NCCL_", "needs GPUs"},
    {"nvidia-smi", "needs a GPU"},
    {"ethtool", "asks a network card"},
    {"chmod", "no file's rights keep root, as whom tests run, from reading"},
    {"ulimit -", "limits of the machine: tests/files, tests/faults"},
};

/// The string literals of a source without its comments, adjacent ones joined; of a document the whole text.
std::vector<std::string> told_in(const fs::path& file) {
  std::ifstream in(file);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (file.extension() == ".md") return {text};
  static const std::regex comment("(^|\n)\\s*//[^\n]*");
  static const std::regex literal("\"(?:[^\"\\\\\n]|\\\\.)*\"");
  text = std::regex_replace(text, comment, "\n");
  std::vector<std::string> literals;
  std::size_t end = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), literal), none; at != none; ++at) {
    const auto begin = static_cast<std::size_t>(at->position());
    const bool goes_on = !literals.empty() && text.find_first_not_of(" \n", end) == begin;
    const std::string inside = at->str().substr(1, at->str().size() - 2);
    if (goes_on) literals.back() += inside;
    if (!goes_on) literals.push_back(inside);
    end = begin + at->str().size();
  }
  return literals;
}

TEST(AdvisedCommandsOf, MessagesAndPagesOfRemediesAreRunAbove) {
  static const std::regex command(
      "(^|[^\\w/.$-])((h5repack -|h5copy|gzip -|gunzip|zcat|bunzip2|unxz|unlzma|unzstd|unlz4|unzip|7z "
      "x|unrar|iconv|nccopy|git lfs|chmod|ulimit|mpirun -|srun -|sbatch -|squeue -|python3 |pip "
      "install|numpy\\.|nvidia-smi|ethtool|docker|OMPI_MCA_[a-z_]*=|GOMP_[A-Z]*=|NCCL_[A-Z]*=|SLURM_[A-Z_]*=)"
      "[^;,()`\"]*)");
  std::vector<fs::path> sources;
  for (const char* part : {"src", "kernels", "models", "mpi"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(source) / part))
      if (entry.path().extension() == ".cpp" || entry.path().extension() == ".hpp")
        sources.push_back(entry.path());
  for (const char* page : {"guide", "troubleshooting", "arrays", "security"})
    sources.push_back(fs::path(source) / "docs" / (std::string(page) + ".md"));
  std::set<std::string> used;
  for (const fs::path& file : sources)
    for (const std::string& text : told_in(file))
      for (std::sregex_iterator at(text.begin(), text.end(), command), none; at != none; ++at) {
        const std::string found = at->str(2);
        const auto known =
            std::ranges::find_if(advised, [&](const auto& each) { return found.starts_with(each.first); });
        EXPECT_NE(known, advised.end()) << file << " advises \"" << found << "\", which no test runs";
        if (known != advised.end()) used.insert(known->first);
      }
  for (const auto& [each, how] : advised) EXPECT_TRUE(used.contains(each)) << each << " is advised nowhere";
}

}  // namespace
}  // namespace flotilla
