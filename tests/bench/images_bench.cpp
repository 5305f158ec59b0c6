// SPDX-License-Identifier: Apache-2.0
// Images per second of processor time on one thread: the JPEG files below a folder, read into memory
// beforehand, decoded and made training and validation samples. The variants take turns in short rounds,
// because the speed of shared machines changes within seconds. Run: images_bench FOLDER [seconds]
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/random.hpp"
#include "src/data/images/image_decoder.hpp"
#include "src/data/images/image_transform.hpp"
#include "src/data/images/resizer.hpp"

namespace flotilla {
namespace {

/// Seconds of this program on the processor: others on the machine count less than in elapsed time.
double now() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::vector<std::vector<char>> read_images(const char* folder) {
  std::vector<std::vector<char>> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension != ".jpg" && extension != ".jpeg" && extension != ".JPEG") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return files;
}

struct Variant {
  std::string name;
  std::function<void(std::span<const std::byte>, std::uint64_t)> run;
  std::vector<double> times = {};  ///< Seconds per image in each round.
};

void decode(ImageDecoder& decoder, const Box& box) {
  decoder.start(box);
  std::array<const Pixel*, RowSource::max_rows> rows{};
  for (std::int64_t y = 0; y < box.height; y += RowSource::max_rows) {
    const std::int64_t count = std::min<std::int64_t>(RowSource::max_rows, box.height - y);
    decoder.next(std::span(rows).first(static_cast<std::size_t>(count)));
  }
}

/// Rows that were there before.
class SameRow final : public RowSource {
 public:
  void next(std::span<const Pixel*> rows) override { std::fill(rows.begin(), rows.end(), row_.data()); }

 private:
  std::vector<Pixel> row_ = std::vector<Pixel>(4096, 0x00804020);
};

/// A crop of the usual size, decoded already.
Variant resizing(ResizeFilter filter, std::vector<float>& sample) {
  const std::shared_ptr<Resizer> resizer = make_resizer(filter);
  return {filter == ResizeFilter::bilinear ? "resizing 285, bilinear" : "resizing 285, antialias",
          [resizer, &sample](auto, std::uint64_t) {
            static SameRow rows;
            const AxisSpec axis{.source = 285, .target = 224, .begin = 0, .count = 224};
            resizer->prepare(axis, axis);
            resizer->run(rows, {}, sample);
          }};
}

std::vector<Variant> variants(std::vector<float>& sample) {
  static const auto decoder = make_jpeg_decoder();
  std::vector<Variant> result = {{"decoding, whole",
                                  [](auto file, std::uint64_t) {
                                    const Extent extent = decoder->open(file);
                                    decode(*decoder, {0, 0, extent.width, extent.height});
                                  }},
                                 {"decoding, crop", [](auto file, std::uint64_t variation) {
                                    const Extent extent = decoder->open(file);
                                    Random random(variation, random_augmentation);
                                    decode(*decoder, random_crop(random, extent, {}));
                                  }}};
  result.push_back(resizing(ResizeFilter::bilinear, sample));
  result.push_back(resizing(ResizeFilter::antialias, sample));
  for (const auto filter : {ResizeFilter::bilinear, ResizeFilter::antialias}) {
    const char* name = filter == ResizeFilter::bilinear ? "bilinear" : "antialias";
    const ImageTransformSpec spec{.filter = filter};
    const auto run = [&sample](const std::shared_ptr<ImageTransform>& transform) {
      return [&sample, transform](auto file, std::uint64_t variation) {
        transform->apply(file, variation, sample);
      };
    };
    result.push_back({std::string("training, ") + name, run(make_training_transform(spec))});
    result.push_back({std::string("validation, ") + name, run(make_validation_transform(spec))});
  }
  return result;
}

int measure(const char* folder, double seconds) {
  const auto files = read_images(folder);
  if (files.empty()) return std::fprintf(stderr, "images_bench: no JPEG file below %s\n", folder), 2;
  std::vector<float> sample(3 * 224 * 224);
  auto all = variants(sample);
  constexpr std::size_t per_round = 40;
  std::size_t next = 0;
  std::uint64_t variation = 0;
  for (const double end = now() + seconds; now() < end;) {
    for (Variant& variant : all) {
      const double begin = now();
      for (std::size_t i = 0; i < per_round; ++i) {
        const auto& file = files[(next + i) * 7919 % files.size()];
        variant.run(std::as_bytes(std::span(file)), variation + i);
      }
      variant.times.push_back((now() - begin) / per_round);
    }
    next += per_round;
    variation += per_round;
  }
  std::printf("%zu images, %zu rounds of %zu\n", files.size(), all[0].times.size(), per_round);
  for (Variant& variant : all) {
    std::sort(variant.times.begin(), variant.times.end());
    const double median = variant.times[variant.times.size() / 2];
    std::printf("  %-24s median %6.0f images/s (%6.1f us), fastest tenth %6.0f\n", variant.name.c_str(),
                1 / median, median * 1e6, 1 / variant.times[variant.times.size() / 10]);
  }
  return 0;
}

}  // namespace
}  // namespace flotilla

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: images_bench FOLDER [seconds]\n"), 2;
  return flotilla::measure(argv[1], argc > 2 ? std::atof(argv[2]) : 20.0);
}
