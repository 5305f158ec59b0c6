// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/random.hpp"
#include "src/data/dataset.hpp"
#include "src/data/images/picture.hpp"
#include "src/data/rand_augment.hpp"

namespace flotilla {

/// Random changes of small images in training. All 0: none.
struct AugmentationSpec {
  double flip = 0.0;         ///< Probability of exchanging left and right
  std::int64_t padding = 0;  ///< Pixels added on each side, of which a crop of the old size is taken
  double erase = 0.0;        ///< Probability of erasing a rectangle, of
  double area_min = 0.02;    ///< a share of the area drawn from area_min … area_max, and
  double area_max = 0.33;
  double aspect_min =
      0.3;  ///< a height ÷ width whose logarithm is drawn from that of aspect_min … aspect_max
  double aspect_max = 3.3;
  RandAugmentSpec operations = {};  ///< Applied to bytes between the crop and the erasing

  bool any() const { return flip > 0.0 || padding > 0 || erase > 0.0 || operations.count > 0; }
};

/// The operations on one sample besides RandAugment, in this order.
struct Augmentation {
  bool flip = false;
  std::int64_t down = 0;  ///< Pixels that the image moves down and to the right; black moves in
  std::int64_t right = 0;
  Box erased{};  ///< Erased box; height 0: none
};

/// Draws the augmentation of an image: torchvision's RandomHorizontalFlip, RandomCrop with padding (the
/// images of CIFAR in He et al. 2016, section 4.2) and RandomErasing (Zhong et al. 2020: ten tries at a
/// rectangle that is lower and narrower than the image, then none is erased).
Augmentation draw_augmentation(Random& random, std::int64_t image_height, std::int64_t image_width,
                               const AugmentationSpec& spec);

/// Pixels of an image or of one of its channels: rows of `width` pixels of `black.size()` values.
template <class Value>
struct PixelPlane {
  std::span<Value> values;
  std::int64_t width = 0;
  std::span<const Value> black;   ///< A pixel that moves in
  std::span<const Value> erased;  ///< A pixel of the erased rectangle
};

/// Changes the pixels in place. Value: float or std::uint8_t
template <class Value>
void augment(const Augmentation& augmentation, const PixelPlane<Value>& plane);

/// The samples of `images` (C,H,W), each changed at random as `spec` says, as a function of its variation: as
/// bytes and as floats to the same bits. What is erased becomes the byte nearest to the mean, what moves in
/// becomes 0, before both are scaled. @param scaling of bytes to the values of a sample
std::unique_ptr<Dataset> augmented(std::unique_ptr<Dataset> images, const AugmentationSpec& spec,
                                   const ByteScaling& scaling);

struct DataRequest;

/// The images of a training set, changed as the deck says; others as they are.
/// @param scaling of augmented()  @param own_flips the images flip themselves
/// @throws UserError naming the key of the first operation that these samples do not suit, and the data
std::unique_ptr<Dataset> with_augmentation(std::unique_ptr<Dataset> images, const DataRequest& request,
                                           const ByteScaling& scaling, bool own_flips = false);

/// The operations that the deck asks for. @param own_flips as above
AugmentationSpec augmentation_spec(const DataConfig& data, bool own_flips);

}  // namespace flotilla
