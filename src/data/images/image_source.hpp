// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace flotilla {

/// Larger files are not photographs; reading one would take as much memory as the file is long.
inline constexpr std::int64_t max_image_bytes = std::int64_t{1} << 30;

/// Encoded images by number, each with its label: files, or parts of the shards that they were packed into.
/// Reading is const and safe from several threads at once.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual std::int64_t size() const = 0;  ///< Images
  virtual std::string description()
      const = 0;  ///< "1803 images of /data/train.txt, paths from /data/train (…)"
  virtual std::string left_out() const { return {}; }  ///< LeftOut::text()
  virtual std::string origin() const = 0;  ///< The list, the folder or the shards, as the user wrote it
  virtual std::int32_t label(std::int64_t i) const = 0;
  virtual std::string name(std::int64_t i) const = 0;   ///< The path of image i as the user wrote it
  virtual std::string place(std::int64_t i) const = 0;  ///< For messages about image i: "LIST:LINE: PATH: "
  virtual std::int64_t bytes(
      std::int64_t i) const = 0;  ///< Size of image i when it was opened; 0: it is missing
  /// Replaces `to` by the bytes of image i. @throws BadImage, whose text is to follow place(i), or UserError,
  /// which names the file
  virtual void read(std::int64_t i, std::vector<std::byte>& to) const = 0;
  /// A hint: images first … first + count − 1 are about to be read, in this order.
  virtual void will_read(std::int64_t /*first*/, std::int64_t /*count*/) const {}
};

}  // namespace flotilla
