// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

namespace flotilla {

/// A call that is kept to be done later.
class Work {
 public:
  virtual void run() const = 0;
  virtual bool same(const Work& other) const = 0;  ///< Same object, method and arguments
  virtual const Work* copy_to(std::pmr::memory_resource& memory) const = 0;

 protected:
  ~Work() = default;  // A copy goes with its memory.
};

template <auto method, class Object, class... Arguments>
class Call final : public Work {
 public:
  static_assert((std::is_trivially_destructible_v<Arguments> && ...));
  Call(Object* object, std::tuple<Arguments...> arguments) : object_(object), arguments_(arguments) {}
  void run() const override {
    std::apply([this](const Arguments&... given) { (object_->*method)(given...); }, arguments_);
  }
  bool same(const Work& other) const override {
    const auto* const like = dynamic_cast<const Call*>(&other);
    return like != nullptr && object_ == like->object_ && arguments_ == like->arguments_;
  }
  const Work* copy_to(std::pmr::memory_resource& memory) const override {
    return new (memory.allocate(sizeof(Call), alignof(Call))) Call(*this);
  }

 private:
  Object* object_;
  std::tuple<Arguments...> arguments_;
};

/// Work of a device that is kept until it is submitted. For one thread.
class WorkQueue {
 public:
  virtual ~WorkQueue() = default;
  /// Adds a call of object.method(arguments…). The object, and what the arguments point to, must stay valid
  /// until submit(); two calls are the same if all arguments are equal.
  template <auto method, class Object, class... Arguments>
  void add(Object& object, const Arguments&... arguments) {
    put(Call<method, Object, Arguments...>{&object, std::tuple<Arguments...>(arguments...)});
  }
  /// A number for the work added next: it is on the device when that work is done.
  template <class T>
  const T* number(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::uint64_t));
    const auto [host, device] = room_for((sizeof(T) + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
    std::memcpy(host, &value, sizeof(T));
    return reinterpret_cast<const T*>(device);
  }
  virtual void put(const Work& work) = 0;  ///< Adds a copy.
  /// Does what was added. @throws what that work throws
  virtual void submit() = 0;
  /// To be called before memory that work may use is freed: submits. An error is thrown by the next submit().
  virtual void before_release() noexcept = 0;
  virtual bool recording()
      const = 0;  ///< Work is being recorded to be repeated later: it must not allocate memory.

 private:
  /// Room for `words` words of numbers: on the host, and their addresses on the device.
  virtual std::pair<std::uint64_t*, const std::uint64_t*> room_for(std::size_t words) = 0;
};

}  // namespace flotilla
