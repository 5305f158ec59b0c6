// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flotilla {

/// A number that work on a device takes: known when the work is handed out, or read from the device's memory
/// when it is done. Work that is done again without being handed out anew (a graph) takes new numbers so.
template <class T>
class Late {
 public:
  constexpr Late() = default;
  constexpr Late(T value) : value_(value) {}  ///< Implicit: most are known.
  constexpr explicit Late(const T* address) : address_(address) {}

  constexpr bool is_known() const { return address_ == nullptr; }
  constexpr T get() const { return address_ == nullptr ? value_ : *address_; }
  friend bool operator==(const Late&, const Late&) = default;

 private:
  T value_{};
  const T* address_ = nullptr;
};

}  // namespace flotilla
