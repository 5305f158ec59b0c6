// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace flotilla {

// Values one behind another in a string, for another process of the same program: plain ones as they lie in
// memory, texts and vectors behind their length, tuples member by member. Another class names its members:
//   static void pass(auto& own, auto& fields) { fields(own.paths, own.left_out); }

template <class T>
concept HasMembers = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept HasLength = requires(T& values) {
  values.resize(std::size_t{1});
};

class Packer {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (add(values), ...);
  }
  std::string bytes{};

 private:
  template <class T>
  void add(const T& value) {
    if constexpr (HasMembers<T>) {
      std::apply(*this, value);
    } else if constexpr (std::is_trivially_copyable_v<T>) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    } else if constexpr (HasLength<T>) {
      add(value.size());
      if constexpr (std::is_trivially_copyable_v<typename T::value_type>)
        bytes.append(reinterpret_cast<const char*>(value.data()),
                     value.size() * sizeof(typename T::value_type));
      else
        for (const auto& each : value) add(each);
    } else {
      T::pass(value, *this);
    }
  }
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : left_(bytes) {}
  template <class... T>
  void operator()(T&... values) {
    (take(values), ...);
  }

 private:
  template <class T>
  void take(T& value) {
    if constexpr (HasMembers<T>) {
      std::apply(*this, value);
    } else if constexpr (std::is_trivially_copyable_v<T>) {
      take_bytes(&value, sizeof(value));
    } else if constexpr (HasLength<T>) {
      std::size_t size = 0;
      take(size);
      value.resize(size);
      if constexpr (std::is_trivially_copyable_v<typename T::value_type>)
        take_bytes(value.data(), size * sizeof(typename T::value_type));
      else
        for (auto& each : value) take(each);
    } else {
      T::pass(value, *this);
    }
  }
  void take_bytes(void* to, std::size_t size) {
    left_.copy(static_cast<char*>(to), size);
    left_.remove_prefix(size);
  }

  std::string_view left_;
};

template <class T>
std::string packed(const T& value) {
  Packer packer;
  packer(value);
  return std::move(packer.bytes);
}

template <class T>
T unpacked(std::string_view bytes) {
  T value{};
  Unpacker{bytes}(value);
  return value;
}

}  // namespace flotilla
