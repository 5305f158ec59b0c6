// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "src/config/data_config.hpp"
#include "src/data/bag_buffer.hpp"

namespace flotilla {

// A line of Criteo's logs: a label, then these.
constexpr std::int64_t criteo_numbers = 13;
constexpr std::int64_t criteo_categories = 26;

/// The least value and the 95th percentile of each number in the logs of Criteo's challenge of 2014: what
/// PaddlePaddle's CTR examples scale with.
constexpr std::array<float, criteo_numbers> criteo_least = {0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
constexpr std::array<float, criteo_numbers> criteo_cap = {20, 600, 100, 50, 64000, 500, 100,
                                                          50, 500, 10,  10, 10,    50};

/// The id of a category, fixed in all versions: XXH3 (64 bits, xxHash 0.8) of its text with the slot as the
/// seed, modulo `buckets`; 0 buckets: all 64 bits. A missing category is the empty text.
std::uint64_t category_id(std::int64_t slot, std::string_view text, std::uint64_t buckets);

/// Whether `text` is one finite number and nothing else, as "7", "+1" or "-2.5e3"; it is then in `number`.
bool read_number(std::string_view text, float& number);

/// The format of a line of click data. A malformed line is a UserError without file and line, which the
/// caller adds. Safe from several threads at once.
class LineFormat {
 public:
  virtual ~LineFormat() = default;
  virtual std::string_view name() const = 0;  ///< "LIBSVM"
  virtual std::int64_t dense() const = 0;     ///< Dense features of a sample
  virtual std::int64_t slots() const = 0;     ///< Bags of a sample
  virtual bool weighted() const = 0;          ///< Each id has a value.
  virtual bool labelled() const = 0;          ///< False: the label of a line is not read and may be missing.
  /// Whether the line holds a sample; if not, it is empty or a comment.
  virtual bool is_sample(std::string_view line) const = 0;
  /// The label as written: 1 for the second class, 0 or −1 for the first; or 2 and 1. 0 unless labelled().
  virtual int label(std::string_view line) const = 0;
  /// Writes the dense features, adds the bags and returns the label as written, but 0 for −1.
  virtual std::int32_t parse(std::string_view line, std::span<float> dense, BagBuffer& bags) const = 0;
};

struct CriteoOptions {
  DenseTransform transform = DenseTransform::log;
  std::uint64_t hash_buckets = 0;  ///< category_id's
  bool labelled = true;
};

/// Criteo's: a label, 13 numbers, 26 categories with tabs between them; numbers and categories may be
/// missing. A slot per category.
std::unique_ptr<LineFormat> make_criteo_format(const CriteoOptions& options);

/// LIBSVM's: a label and index:value pairs with blanks between them. One slot of all indices, each with its
/// value. "#" begins a comment.
std::unique_ptr<LineFormat> make_libsvm_format(std::uint64_t hash_buckets, bool labelled = true);

}  // namespace flotilla
