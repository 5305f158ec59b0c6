// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flotilla {

/// A number that work on a device uses: known when the work is queued, or read from device memory when the
/// work runs. By the latter a graph that is launched again uses new numbers.
template <class T>
class DeviceScalar {
 public:
  constexpr DeviceScalar() = default;
  constexpr DeviceScalar(T value) : value_(value) {}  ///< Implicit: most are known.
  constexpr explicit DeviceScalar(const T* address) : address_(address) {}

  constexpr bool is_known() const { return address_ == nullptr; }
  constexpr T get() const { return address_ == nullptr ? value_ : *address_; }
  friend bool operator==(const DeviceScalar&, const DeviceScalar&) = default;

 private:
  T value_{};
  const T* address_ = nullptr;
};

}  // namespace flotilla
