// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"
#include "src/config/rules.hpp"

namespace flotilla::config {
namespace {

class ImageRules : public RuleChecks {
 public:
  using RuleChecks::RuleChecks;

  void cut_images() {
    if (!usable({"data.kind", "data.shape", "train.cutmix"}) || config.train.cutmix == 0.0) return;
    if (!config.data.keys().files && config.data.shape.size() != 3)
      reject({"train.cutmix", "data.shape"}, "train.cutmix exchanges parts of images, but a sample has ",
             config.data.shape.size(), " sizes instead of channels, height and width (data.shape)");
  }

  void image_sizes() {
    if (!usable({"data.kind", "data.image_size", "data.short_side"})) return;
    if (config.data.image_size <= config.data.short_side) return;
    reject({"data.image_size", "data.short_side"},
           "data.image_size must be at most data.short_side: validation crops the one from the other, got ",
           config.data.image_size, " and ", config.data.short_side);
  }

  void range(std::string_view path, const std::vector<double>& values) {
    if (!usable({"data.kind", path}) || values[0] <= values[1]) return;
    reject({path}, path, " must be [least, largest], got ", toml_text(values));
  }

  void ranges() {
    range("data.crop_area", config.data.crop.area);
    range("data.crop_aspect", config.data.crop.aspect);
    range("data.erase_area", config.data.erased.area);
    range("data.erase_aspect", config.data.erased.aspect);
  }

  void hue() {
    if (!usable({"data.kind", "data.color_jitter"}) || config.data.color_jitter[3] <= 0.5) return;
    reject({"data.color_jitter"},
           "data.color_jitter: the hue, its last value, must be at most 0.5 (half the circle), got ",
           config.data.color_jitter[3]);
  }
};

}  // namespace

std::vector<Key> image_keys() {
  const Condition photographs = data_has(&DataKindKeys::images);
  const Condition photographs_and_cifar = data_has(&DataKindKeys::colours);
  const Condition images = data_has(&DataKindKeys::augmented);
  return {
      key<&DataConfig::image_size>("data.image_size", positive(2048), on_request,
                                   "Height and width of a sample, pixels")
          .only_for(photographs),
      key<&DataConfig::short_side>(
          "data.short_side", positive(2048), on_request,
          "Validation: an image's shorter side before the crop of its centre; at least image_size")
          .only_for(photographs),
      key<&DataConfig::resize_filter>(
          "data.resize_filter", any_value(), on_request,
          "\"bilinear\": between the nearest pixels only, as OpenCV does; \"antialias\": over all pixels "
          "that a new one covers, as PIL and torchvision do. Evaluate with the one that the weights were "
          "trained with")
          .only_for(photographs),
      key<&DataConfig::crop, &CropConfig::area>(
          "data.crop_area", array_of(2, 2, positive(1)), on_request,
          "Training: least and largest share of the image's area in a random crop")
          .only_for(photographs),
      key<&DataConfig::crop, &CropConfig::aspect>(
          "data.crop_aspect", array_of(2, 2, positive(100)), on_request,
          "Training: least and largest width ÷ height of a random crop")
          .only_for(photographs),
      key<&DataConfig::flip>("data.flip", at_least(0, 1), on_request,
                             "Training: probability of exchanging left and right")
          .only_for(images)
          .with_default("0.5, for data.kind = \"idx\", \"hdf5\" and \"numpy\" 0"),
      key<&DataConfig::crop_padding>(
          "data.crop_padding", at_least(0, 2048), on_request,
          "Training: pixels of black that are added on each side before a crop of the old size is taken: the "
          "image moves by up to as many; for images of 32 pixels 4 is usual, with crop_area = [1, 1]")
          .only_for(images),
      key<&DataConfig::rand_augment>("data.rand_augment", at_least(0, 16), on_request,
                                     "Training: operations of RandAugment on each image: rotations, shifts "
                                     "and changes of colours, drawn from 14, on bytes; 2 is usual; 0: off")
          .only_for(images),
      key<&DataConfig::rand_augment_magnitude>(
          "data.rand_augment_magnitude", at_least(0, 30), on_request,
          "Training: strength of these operations, as torchvision's with 31 bins")
          .only_for(images),
      key<&DataConfig::erase>(
          "data.erase", at_least(0, 1), on_request,
          "Training: probability of covering a rectangle with the mean colour (random erasing)")
          .only_for(images),
      key<&DataConfig::erased, &EraseConfig::area>(
          "data.erase_area", array_of(2, 2, positive(1)), on_request,
          "Training: least and largest share of the image's area in the erased rectangle")
          .only_for(images),
      key<&DataConfig::erased, &EraseConfig::aspect>(
          "data.erase_aspect", array_of(2, 2, positive(100)), on_request,
          "Training: least and largest height ÷ width of the erased rectangle")
          .only_for(images),
      key<&DataConfig::color_jitter>("data.color_jitter", array_of(4, 4, at_least(0, 100)), on_request,
                                     "Training: random changes of brightness, contrast, saturation (factors "
                                     "1 ± value) and hue (± value of the circle, at most 0.5); zeros: none")
          .only_for(photographs),
      key<&DataConfig::image_mean>("data.image_mean", array_of(3, 3, at_least(-100, 100)), on_request,
                                   "The network sees (value / 255 − mean) / std of red, green and blue")
          .only_for(photographs_and_cifar),
      key<&DataConfig::image_std>("data.image_std", array_of(3, 3, at_least(1e-6, 100)), on_request,
                                  "See image_mean")
          .only_for(photographs_and_cifar),
      key<&DataConfig::exif_orientation>("data.exif_orientation", any_value(), on_request,
                                         "Turn images as their EXIF data say; PaddlePaddle's Fleet does not")
          .only_for(photographs),
      // These keys may change on resuming: after a bad image ended a run, they are the way to go on.
      key<&DataConfig::max_pixels>("data.max_pixels", positive(max_count), may_change,
                                   "An image with more is a bad one: it might be made to fill the memory")
          .only_for(photographs),
      key<&DataConfig::on_bad_image>(
          "data.on_bad_image", any_value(), may_change,
          "A training image that is missing or cannot be decoded: \"error\" ends the job and names it; "
          "\"replace\" takes another one, chosen by seed and number, and reports the count after each epoch. "
          "A bad validation image always ends the job: an accuracy without it would be another one")
          .only_for(photographs),
      key<&DataConfig::max_bad_images>(
          "data.max_bad_images", at_least(0, max_steps), of_machine,
          "With on_bad_image = \"replace\": more in one epoch, over all ranks, end the job")
          .only_for(photographs),
      key<&DataConfig::cache>("data.cache", any_value(), of_machine,
                              "\"files\": each rank keeps the bytes of the files in memory once they are "
                              "read, for slow file systems; they are decoded again every time")
          .may_differ_between_hosts()
          .only_for(photographs),
  };
}

void check_image_rules(const Config& config, const DeckValues& given, Mistakes& mistakes) {
  ImageRules rules(config, given, mistakes);
  rules.cut_images();
  rules.image_sizes();
  rules.ranges();
  rules.hue();
}

}  // namespace flotilla::config
