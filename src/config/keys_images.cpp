// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"

namespace flotilla::config {
namespace {

const std::vector<std::string> image_kinds = {"image-list", "image-folder", "webdataset"};

template <auto member>
Key image_key(std::string name, Rule rule, std::string help) {
  return {.path = "data." + std::move(name),
          .field = field<&Config::data, member>(),
          .rule = std::move(rule),
          .help = std::move(help),
          .on_resume = on_request,
          .condition = {"data.kind", image_kinds}};
}

/// Of images in arrays as well.
Key with_arrays(Key key, std::string default_text = {}) {
  key.condition = {"data.kind",
                   {"idx", "image-list", "image-folder", "webdataset", "hdf5", "numpy", "cifar"}};
  key.default_text = std::move(default_text);
  return key;
}

Key with_cifar(Key key) {
  key.condition.values.emplace_back("cifar");
  return key;
}

Key free_on_resume(OnResume how, Key key) {
  key.on_resume = how;
  return key;
}

}  // namespace

std::vector<Key> image_keys() {
  using D = DataConfig;
  return {
      image_key<&D::image_size>("image_size", positive(2048), "Height and width of a sample, pixels"),
      image_key<&D::short_side>("short_side", positive(2048),
                                "Validation: an image's shorter side before the crop of its centre; at least "
                                "image_size"),
      image_key<&D::resize_filter>(
          "resize_filter", {},
          "\"bilinear\": between the nearest pixels only, as OpenCV does; \"antialias\": over "
          "all pixels that a new one covers, as PIL and torchvision do. Evaluate with the one that the "
          "weights "
          "were trained with"),
      image_key<&D::crop_area>("crop_area", array_of(2, 2, positive(1)),
                               "Training: least and largest share of the image's area in a random crop"),
      image_key<&D::crop_aspect>("crop_aspect", array_of(2, 2, positive(100)),
                                 "Training: least and largest width ÷ height of a random crop"),
      with_arrays(
          image_key<&D::flip>("flip", at_least(0, 1), "Training: probability of exchanging left and right"),
          "0.5, for data.kind = \"idx\", \"hdf5\" and \"numpy\" 0"),
      with_arrays(image_key<&D::crop_padding>(
          "crop_padding", at_least(0, 2048),
          "Training: pixels of black that are added on each side before a crop of the old size is taken: the "
          "image moves by up to as many; for images of 32 pixels 4 is usual, with crop_area = [1, 1]")),
      with_arrays(image_key<&D::rand_augment>("rand_augment", at_least(0, 16),
                                              "Training: operations of RandAugment on each image: rotations, "
                                              "shifts and changes of colours, drawn "
                                              "from 14, on bytes; 2 is usual; 0: off")),
      with_arrays(image_key<&D::rand_augment_magnitude>(
          "rand_augment_magnitude", at_least(0, 30),
          "Training: strength of these operations, as torchvision's with 31 bins")),
      with_arrays(image_key<&D::erase>("erase", at_least(0, 1),
                                       "Training: probability of covering a rectangle with the mean colour "
                                       "(random erasing)")),
      with_arrays(image_key<&D::erase_area>("erase_area", array_of(2, 2, positive(1)),
                                            "Training: least and largest share of the image's area in the "
                                            "erased rectangle")),
      with_arrays(image_key<&D::erase_aspect>("erase_aspect", array_of(2, 2, positive(100)),
                                              "Training: least and largest height ÷ width of the erased "
                                              "rectangle")),
      image_key<&D::color_jitter>("color_jitter", array_of(4, 4, at_least(0, 100)),
                                  "Training: random changes of brightness, contrast, saturation (factors 1 ± "
                                  "value) and hue (± value of the circle, at most 0.5); zeros: none"),
      with_cifar(
          image_key<&D::image_mean>("image_mean", array_of(3, 3, at_least(-100, 100)),
                                    "The network sees (value / 255 − mean) / std of red, green and blue")),
      with_cifar(
          image_key<&D::image_std>("image_std", array_of(3, 3, at_least(1e-6, 100)), "See image_mean")),
      image_key<&D::exif_orientation>("exif_orientation", {},
                                      "Turn images as their EXIF data say; PaddlePaddle's Fleet does not"),
      // These may change on resuming: after a bad image ended a run, they are the way to go on.
      free_on_resume(
          OnResume::may_change,
          image_key<&D::max_pixels>("max_pixels", positive(most_count),
                                    "An image with more is a bad one: it might be made to fill the memory")),
      free_on_resume(
          OnResume::may_change,
          image_key<&D::on_bad_image>(
              "on_bad_image", {},
              "A training image that is missing or cannot be decoded: \"error\" ends the job and names it; "
              "\"replace\" takes another one, chosen by seed and number, and reports the count after each "
              "epoch. "
              "A "
              "bad validation image always ends the job: an accuracy without it would be another one")),
      free_on_resume(of_machine,
                     image_key<&D::max_bad_images>(
                         "max_bad_images", at_least(0, most_steps),
                         "With on_bad_image = \"replace\": more in one epoch, over all ranks, end the job")),
      free_on_resume(
          of_machine,
          image_key<&D::cache>(
              "cache", {},
              "\"files\": each rank keeps the bytes of the files in memory once they are read, for slow file "
              "systems; they are decoded again every time")),
  };
}

}  // namespace flotilla::config
