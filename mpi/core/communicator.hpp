// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "mpi/core/collective_log.hpp"
#include "mpi/core/environment.hpp"

namespace flotilla::mpi {

enum class Op { sum, min, max };

template <class T>
concept Scalar = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::int64_t> || std::same_as<T, std::byte> || std::same_as<T, char>;

/// Types with addition and comparison in MPI.
template <class T>
concept Number = Scalar<T> && std::is_arithmetic_v<T> && !std::same_as<T, char>;

/// A group of ranks and a private message space. Move-only: copying a communicator is a collective operation.
/// Every call throws LibraryError, naming the MPI function and the place of the call, if MPI reports an
/// error. Collective calls are noted with their place and step, and compared with those of the other ranks:
/// once a rank has waited for a second (MismatchDetector), or, with set_collective_checks(), before each
/// call; they throw InternalError then, on all ranks.
class Communicator {
 public:
  static Communicator world();  ///< Collective. A private copy of MPI_COMM_WORLD.
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();  ///< Collective; nothing while an exception is being thrown.

  int rank() const;
  int size() const;
  bool is_root() const { return rank() == 0; }

  /// Collective. The same ranks, another message space.
  Communicator collective_clone(CallSite at = {}) const;
  /// Collective. Equal colors form a group, ordered as here.
  Communicator split(int color, CallSite at = {}) const;
  /// Collective. The ranks that can share memory with this one.
  Communicator split_by_host(CallSite at = {}) const;

  void barrier(CallSite at = {}) const;  ///< Collective.
  /// Collective. A barrier in which the thread sleeps instead of polling.
  void patient_barrier(CallSite at = {}) const;
  /// Collective. Any count, cut into pieces that fit an int.
  template <Scalar T>
  void broadcast(std::span<T> data, int root = 0, CallSite at = {}) const;
  /// Collective. The length travels too.
  void broadcast(std::string& text, int root = 0, CallSite at = {}) const;
  template <Number T>
  void all_reduce(std::span<T> data, Op op = Op::sum, CallSite at = {}) const;  ///< Collective, in place.
  /// Collective. Equal counts; in rank order.
  template <Scalar T>
  std::vector<T> all_gather(std::span<const T> mine, CallSite at = {}) const;
  /// Collective. The values of all ranks, in rank order, into `all`, size() × mine.size() values; allocates
  /// nothing.
  template <Scalar T>
  void all_gather(std::span<const T> mine, std::span<T> all, CallSite at = {}) const;
  /// Collective. The values of all ranks, whose counts may differ, in rank order, on rank 0; empty elsewhere.
  template <Scalar T>
  std::vector<T> gather(std::span<const T> mine, CallSite at = {}) const;
  /// Collective. In rank order. Two calls of MPI, whatever the number of ranks, up to 1 GiB in all.
  std::vector<std::string> all_gather(const std::string& mine, CallSite at = {}) const;

 private:
  struct Handle;
  friend struct NativeHandle;
  explicit Communicator(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

}  // namespace flotilla::mpi
