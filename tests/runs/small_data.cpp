// SPDX-License-Identifier: Apache-2.0
#include "tests/runs/small_data.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "tests/data/arrays/array_files.hpp"
#include "tests/data/clicks/click_lines.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/data/shards/tar_bytes.hpp"

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using config::Key;
using config::Value;
using Words = std::vector<std::string>;

constexpr std::int64_t samples = 12;
constexpr NumberType u8{};
constexpr NumberType f32{NumberType::Kind::f32};
constexpr NumberType i64{NumberType::Kind::i64};

StoredArray labels_of(const std::string& name, NumberType type, double classes) {
  std::vector<double> values;
  for (int i = 0; i < samples; ++i) values.push_back(i % static_cast<int>(classes));
  return of_values(name, type, {samples}, values);
}

std::vector<StoredArray> arrays() {
  return {counted("rows", f32, {samples, 6}),
          counted("single", f32, {samples}),
          counted("signal", f32, {samples, 8, 5}),
          counted("grey", u8, {samples, 1, 8, 8}),
          counted("pairs", u8, {samples, 2, 9, 7}),
          counted("images", u8, {samples, 3, 8, 8}),
          counted("four", f32, {samples, 4, 8, 8}),
          labels_of("labels", u8, 2),
          labels_of("wide", i64, 3),
          counted("numbers", f32, {samples, 2}),
          of_values("binary", u8, {samples, 2}, std::vector<double>(2 * samples, 1.0))};
}

void write_images(const fs::path& folder) {
  std::ofstream list(folder / "list.txt");
  std::string shard;
  for (int i = 0; i < samples; ++i) {
    const Bytes file = i % 3 == 0 ? png(pattern(20 + i, 17)) : jpeg(busy(24, 16 + i));
    const std::string name = cat("c", i % 2, "/", i, i % 3 == 0 ? ".png" : ".jpg");
    fs::create_directories(folder / "images" / name.substr(0, 2));
    save((folder / "images" / name).string(), file);
    list << "images/" << name << ' ' << i % 2 << '\n';
    const std::string key = cat("s", i);
    shard += tar_member(key + (i % 3 == 0 ? ".png" : ".jpg"), {file.begin(), file.end()});
    shard += tar_member(key + ".cls", cat(i % 2));
  }
  std::ofstream(folder / "shard-0.tar") << shard << tar_end();
}

Value some(const Words& words, Random& random) {
  return words.at(below(random, words.size()));
}

/// From `least` to `least` + 3 random words.
Value several(const Words& words, Random& random, std::size_t least = 0) {
  Words chosen;
  for (std::size_t count = least + below(random, 4); count > 0; --count)
    chosen.push_back(words.at(below(random, words.size())));
  return chosen;
}

Value small(Random& random, std::int64_t least, std::int64_t end) {
  return least + static_cast<std::int64_t>(below(random, static_cast<std::size_t>(end - least)));
}

Value layers(Random& random) {
  static const std::vector<Words> nets = {
      {"linear 2"},
      {"conv 4 3", "relu", "flatten", "linear 2"},
      {"conv 4 3 padding 1", "batch_norm", "relu", "max_pool 2", "dropout 0.2", "linear 2"},
      {"conv 2 1", "global_average_pool"},
      {"linear 8", "layer_norm", "gelu", "linear 2"},
      {"flatten", "linear 8", "batch_norm", "silu", "linear 3"},
      {"conv 4 3 padding 1", "residual", "conv 4 3 padding 1", "batch_norm", "end", "relu", "linear 2"},
      {"conv 4 1", "residual projection", "conv 8 3 stride 2 padding 1", "batch_norm", "end", "relu",
       "linear 2"},
      {"average_pool 2", "flatten", "linear 2"}};
  Words net = nets.at(below(random, nets.size()));
  static const Words any = {"relu",
                            "flatten",
                            "batch_norm",
                            "layer_norm",
                            "dropout 0.5",
                            "residual",
                            "max_pool 3",
                            "linear 4",
                            "end",
                            "conv 2 5",
                            "tanh",
                            "conv 2 9 stride 3",
                            "max_pool 1000000",
                            "average_pool 2 padding 1",
                            "global_average_pool"};
  if (below(random, 3) == 0)
    net.insert(net.begin() + static_cast<std::ptrdiff_t>(below(random, net.size() + 1)),
               any.at(below(random, any.size())));
  return net;
}

Value shape(Random& random) {
  static const std::vector<std::vector<std::int64_t>> shapes = {
      {1}, {6}, {8, 5}, {9, 9}, {1, 8, 8}, {3, 8, 8}, {2, 9, 7}, {3, 33, 32}, {4, 1, 1}, {17, 1, 3}};
  return shapes.at(below(random, shapes.size()));
}

}  // namespace

void write_small_data(const std::string& name) {
  const fs::path folder = name;
  fs::create_directories(folder / "cifar");
  save(folder / "img", images(samples, 8, 9));
  save(folder / "lab", labels(samples, 2));
  save(folder / "img.gz", gzip(images(2 * samples, 5, 5)));
  save(folder / "lab.gz", gzip(labels(2 * samples, 3)));
  save_hdf5(folder / "arrays.h5", arrays());
  save_hdf5(folder / "chunks.h5", arrays(), {.chunk = {5}, .shuffle = true, .deflate = 1});
  save(folder / "arrays.npz", npz(arrays()));
  save_text(folder / "clicks.txt", criteo_text(0, samples));
  save_text(folder / "clicks.svm", libsvm_text(0, samples));
  save_text(folder / "names.txt", "one\ntwo\n");
  save_text(folder / "empty", "");
  Bytes records;
  for (int i = 0; i < samples * 3073; ++i)
    records.push_back(static_cast<std::uint8_t>(i % 3073 == 0 ? 1 : i));
  save(folder / "cifar" / "data_batch_1.bin", records);
  write_images(folder);
}

OwnValue fitting_values(const std::string& folder, int ranks) {
  const auto in = [folder](const std::string& name) { return folder + "/" + name; };
  const std::map<DataKind, Words> paths = {{DataKind::hdf5, {in("arrays.h5"), in("chunks.h5")}},
                                           {DataKind::numpy, {in("arrays.npz")}},
                                           {DataKind::criteo, {in("clicks.txt")}},
                                           {DataKind::libsvm, {in("clicks.svm")}},
                                           {DataKind::image_list, {in("list.txt")}},
                                           {DataKind::image_folder, {in("images")}},
                                           {DataKind::webdataset, {in("shard-0.tar")}},
                                           {DataKind::cifar, {in("cifar")}},
                                           {DataKind::idx, {in("empty"), in("absent"), folder}},
                                           {DataKind::random, {in("absent")}}};
  const Words names = {"rows", "single", "signal",  "grey",   "pairs", "images",
                       "four", "labels", "numbers", "binary", "wide"};
  const Words patterns = {"*", "fc.*", "0.weight", "*.bias", "layer1.*", "linear*", "absent"};
  std::map<std::string, std::function<Value(Random&)>> own;
  for (const std::string part : {"data.train.", "data.validation."}) {
    own[part + "images"] = [=](Random& random) {
      return some({in("img"), in("img.gz"), in("lab"), in("absent")}, random);
    };
    own[part + "labels"] = [=](Random& random) {
      return some({in("lab"), in("lab.gz"), in("img"), in("empty")}, random);
    };
    own[part + "root"] = [=](Random& random) { return some({folder, folder, folder, in("images")}, random); };
    own[part + "samples"] = [](Random& random) { return small(random, 1, 40); };
  }
  own["data.inputs"] = own["data.targets"] = [=](Random& random) { return some(names, random); };
  own["data.class_names"] = [=](Random& random) { return some({"", in("names.txt"), in("empty")}, random); };
  own["data.stage_to"] = [=](Random& random) { return some({"", in("staged")}, random); };
  own["data.shape"] = shape;
  own["data.threads"] = [](Random& random) { return small(random, 1, 4); };
  own["data.prefetch"] = [](Random& random) { return small(random, 1, 6); };
  own["data.image_size"] = [](Random& random) { return small(random, 1, 40); };
  own["data.short_side"] = [](Random& random) { return small(random, 1, 44); };
  own["data.cache_mb"] = [](Random& random) { return small(random, 1, 3); };
  own["data.hash_buckets"] = [](Random& random) { return small(random, 0, 50); };
  own["data.crop_padding"] = [](Random& random) { return small(random, 0, 12); };
  own["model.kind"] = [](Random& random) {
    return some({"mlp", "mlp", "mlp", "layers", "layers", "layers", "ctr-dnn", "resnet"}, random);
  };
  own["model.layers"] = layers;
  own["model.widths"] = [](Random& random) {
    std::vector<std::int64_t> widths;
    for (std::size_t count = below(random, 4); count > 0; --count)
      widths.push_back(1 + static_cast<std::int64_t>(below(random, 17)));
    return widths;
  };
  own["model.classes"] = own["model.outputs"] = [](Random& random) {
    return below(random, 4) == 0 ? std::int64_t{3} : std::int64_t{2};
  };
  own["model.depth"] = [](Random& random) {
    return below(random, 8) == 0 ? std::int64_t{50} : std::int64_t{18};
  };
  own["model.embedding_width"] = [](Random& random) { return small(random, 1, 9); };
  own["model.recompute"] = [](Random& random) {
    return several({"blocks", "conv1", "layer1", "layer2.1", "layer9"}, random);
  };
  own["model.initial_weights"] = [=](Random& random) {
    return some({"", "", in("arrays.h5"), in("absent")}, random);
  };
  own["model.fixed_statistics"] =
      own["optimizer.frozen"] = [=](Random& random) { return several(patterns, random); };
  own["optimizer.rates"] = [](Random& random) {
    return several({"* 2", "fc.* 0.5", "*.bias 1e3", "0.* 1e-3"}, random);
  };
  own["train.batch_size"] =
      own["train.global_batch_size"] = [](Random& random) { return small(random, 1, 14); };
  own["train.epochs"] = own["train.steps"] = [](Random& random) { return small(random, 0, 9); };
  own["train.accumulate_steps"] = [](Random& random) { return small(random, 1, 4); };
  own["validation.batch_size"] = [](Random& random) { return small(random, 0, 30); };
  own["run.resume_with"] = [](Random& random) {
    return several({"schedule", "train", "optimizer.weight_decay"}, random);
  };
  own["run.resume"] = [=](Random& random) {
    if (below(random, 10) > 0) return Value("auto");
    return some({"never", in("arrays.h5"), in("absent")}, random);
  };
  own["run.virtual_shards"] = [](Random& random) { return small(random, 1, 9); };
  own["run.watchdog_s"] = [](Random& random) { return below(random, 2) == 0 ? 0.0 : 60.0; };
  own["run.emulate_straggler.rank"] = [=](Random& random) { return small(random, 0, ranks); };
  own["run.emulate_straggler.pause_s"] = [](Random&) { return 0.001; };
  own["run.emulate_straggler.slow_factor"] = [](Random&) { return 1.5; };
  own["device.threads"] = [](Random& random) { return small(random, 0, 3); };
  own["device.kind"] = [](Random& random) {
    if (below(random, 40) == 0) return Value("cuda");
    return some({"cpu", "cpu", "cpu", "reference"}, random);
  };
  own["strategy.kind"] = [](Random& random) {
    return some({"all-reduce", "all-reduce", "local-sgd", "parameter-server"}, random);
  };
  own["strategy.communicators"] = [](Random& random) { return small(random, 1, 4); };
  own["strategy.ranks_per_group"] = [=](Random& random) { return small(random, 0, 1 + ranks); };
  own["roles.servers"] = [=](Random& random) { return small(random, 1, 1 + ranks); };
  own["roles.server_ranks"] = own["roles.worker_ranks"] = [](Random& random) {
    return some({"0", "1", "0-1", "1, 0", "2", "x"}, random);
  };
  const auto of_others = [=](const Key& key, const Config& config, Random& random) -> std::optional<Value> {
    const bool fits = below(random, 10) > 0;
    if (key.name() == "path") {
      const auto any = std::next(paths.begin(), static_cast<std::ptrdiff_t>(below(random, paths.size())));
      return some(fits ? paths.at(config.data.kind) : any->second, random);
    }
    if (key.path == "model.kind" && config.device.kind == DeviceKind::reference)
      return some({"mlp", "layers", "ctr-dnn"}, random);
    if (!fits) return std::nullopt;
    const bool served = config.server() != nullptr;
    if (key.path == "roles.kind")
      return some(served ? Words{"symmetric", "ratio", "user-defined"} : Words{"collective"}, random);
    if (key.path == "strategy.kind" && config.model.has_embeddings()) return Value("parameter-server");
    if (key.path == "strategy.kind" && ranks == 1)
      return some({"all-reduce", "local-sgd", "adaptive-local-sgd"}, random);
    if (key.path == "data.kind" && config.model.has_embeddings()) return some({"criteo", "libsvm"}, random);
    if (key.path == "data.kind" && !config.model.has_classes())
      return some({"hdf5", "numpy", "random"}, random);
    if (key.path == "data.kind" && config.model.kind == "resnet")
      return some({"cifar", "image-list", "webdataset", "image-folder", "hdf5"}, random);
    if (key.path == "data.targets")
      return some(config.model.has_classes()               ? Words{"labels", "labels", "wide"}
                  : config.model.loss == ModelLoss::binary ? Words{"binary"}
                                                           : Words{"numbers"},
                  random);
    if (key.path == "run.reproducible") return below(random, 8) == 0;
    if (key.path == "run.mlperf_log") return below(random, 20) == 0;
    return std::nullopt;
  };
  return [=](const Key& key, const Config& config, Random& random) -> std::optional<Value> {
    if (auto value = of_others(key, config, random)) return value;
    const auto found = own.find(key.path);
    if (found == own.end()) return std::nullopt;
    return found->second(random);
  };
}

}  // namespace flotilla::test
