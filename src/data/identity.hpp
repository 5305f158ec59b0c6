// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/files/checksum.hpp"

namespace flotilla {

/// Data that can be told from others wherever they lie.
class Identifiable {
 public:
  virtual ~Identifiable() = default;
  virtual std::int64_t size() const = 0;  ///< Samples
  /// The type of the numbers of samples as they are stored, as NumPy calls it.
  virtual std::string number_type() const { return "float32"; }
  /// Adds to `sum` what is known of all samples without reading them (labels, sizes of files), and the stored
  /// contents of the given ones. Nothing where the deck's keys say all. @throws UserError as reading does
  virtual void identify(std::span<const std::int64_t> /*samples*/, Checksum& /*sum*/) const {}
};

/// Samples of which identity_of reads the contents; all of a smaller data set.
inline constexpr std::int64_t identified_samples = 64;

/// What the data are: "2000 samples, xxh3 0123456789abcdef", a checksum of what they identify() with
/// identified_samples samples, spread evenly from the first to the last. Equal texts mean the same samples,
/// as far as those that were read tell. @throws UserError as reading does
std::string identity_of(const Identifiable& data);

}  // namespace flotilla
