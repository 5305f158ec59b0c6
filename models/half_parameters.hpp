// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device.hpp"

namespace flotilla {

/// The parameters that a network computes with in the half precision of its device, for layers that read them
/// so (DeviceInfo::reads_halves). prepare() rounds all of them before every forward pass, so that code that
/// writes parameters need not know about it. The exception is code that writes both: an update with target(),
/// after which keep() says that no rounding is due.
class HalfParameters {
 public:
  /// @param size of the arena of parameters
  HalfParameters(Device& device, std::size_t size);
  /// From now on the halves are those of `parameters`, which must have that size.
  void bind(DeviceSpan<const float> parameters);
  GivenHalfSpan values() { return values_; }

  /// To be called before a forward pass: rounds all parameters, unless they were kept.
  void prepare();
  /// For an update of `parameters`, which must be those that it is bound to.
  HalfCopy target(DeviceSpan<const float> parameters);
  /// To be called where, since the last prepare(), parameters were written by updates with target() only.
  /// Until bind() or expire() all that writes parameters must be such updates.
  void keep();
  /// The parameters may be written by other means than updates with target().
  void expire();

 private:
  enum class State {
    expired,  ///< Nothing is known of the values.
    rounded,  ///< Rounded by prepare(); parameters may have been written since.
    kept,
  };

  Device& device_;
  Storage storage_;
  HalfSpan values_;
  DeviceSpan<const float> parameters_;
  State state_ = State::expired;
};

}  // namespace flotilla
