// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "mpi/core/slices.hpp"

namespace flotilla::mpi {

/// The messages that carry the values of one server, and their progress. Both ends cut equally: all parts but
/// the last have `part_values`. At most `places` parts are in flight.
class PushPullParts {
 public:
  static constexpr std::size_t places = 8;

  /// @param part_values 0: all in one part
  explicit PushPullParts(std::size_t part_values = 0) : part_values_(part_values) {}

  /// Starts again with the first part. Zero values are one (empty) part.
  void start(std::size_t values) {
    values_ = values;
    begun_ = 0;
    over_ = 0;
    ahead_.fill(false);
  }

  std::size_t count() const {
    if (part_values_ == 0) return 1;
    return std::max<std::size_t>(1, (values_ + part_values_ - 1) / part_values_);
  }
  SliceBounds bounds(std::size_t part) const {
    if (part_values_ == 0) return {0, values_};
    return {std::min(values_, part * part_values_), std::min(values_, (part + 1) * part_values_)};
  }
  static std::size_t place_of(std::size_t part) { return part % places; }

  /// Whether the next part may be sent, given that the first `ready` values may.
  bool may_begin(std::size_t ready) const {
    return begun_ < count() && begun_ - over_ < places && bounds(begun_).end <= ready;
  }
  /// The index of the part to be sent now.
  std::size_t begin() { return begun_++; }
  bool all_begun() const { return begun_ == count(); }

  /// The part that is in flight at this place.
  std::size_t part_at(std::size_t place) const { return over_ + (place + places - place_of(over_)) % places; }
  /// The part at this place was received or sent.
  void end(std::size_t place) {
    ahead_[place] = true;
    while (over_ < begun_ && ahead_[place_of(over_)]) ahead_[place_of(over_++)] = false;
  }
  /// Values of the leading parts that are complete, without a gap.
  std::size_t over() const { return over_ == 0 ? 0 : bounds(over_ - 1).end; }
  bool all_over() const { return over_ == count(); }

 private:
  std::size_t part_values_;
  std::size_t values_ = 0;
  std::size_t begun_ = 0;
  std::size_t over_ = 0;
  std::array<bool, places> ahead_{};  ///< By place: complete, but a part before it is not
};

}  // namespace flotilla::mpi
