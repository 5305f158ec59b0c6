// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/device_scalar.hpp"
#include "kernels/error.hpp"
#include "kernels/gpu/loops/elements.hpp"

/// The ways to start a kernel. What is launched, a functor and Kokkos' own numbers, stays below 512 bytes:
/// more would pass through Kokkos' constant memory, and the host would wait for the kernel before.
namespace flotilla::loops {

/// The Kokkos space of policies and copies: spaces of tests are derived from it.
template <class Space>
using ExecutionOf = typename Space::execution_space;

/// Queues kernels and copies on an execution space.
template <class Space>
struct Queue {
  template <class T>
  using HostSpan = Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
  template <class T>
  using SpaceSpan = Kokkos::View<T*, typename Space::memory_space, Kokkos::MemoryUnmanaged>;

  template <class Launch>
  static void put(const Space& space, const Launch& launch) {
    launch(space);
  }
  /// The device's copy of a number for kernels that are started later and again, with other numbers. Null:
  /// kernels start at once.
  template <class T>
  static const T* late_number(const Space& /*space*/, const T& /*number*/) {
    return nullptr;
  }
  /// Copies to the device. `from` must not change until wait().
  static void upload(const Space& space, const void* from, void* to, std::size_t bytes) {
    Kokkos::deep_copy(ExecutionOf<Space>(space), SpaceSpan<char>(static_cast<char*>(to), bytes),
                      HostSpan<const char>(static_cast<const char*>(from), bytes));
  }
  /// Copies to the host. `to` is valid after wait().
  static void download(const Space& space, const void* from, void* to, std::size_t bytes) {
    Kokkos::deep_copy(ExecutionOf<Space>(space), HostSpan<char>(static_cast<char*>(to), bytes),
                      SpaceSpan<const char>(static_cast<const char*>(from), bytes));
  }
  static void wait(const Space& space) { space.fence(); }
};

/// A number for the kernel started next. A queue that starts it later keeps the number on the device. To be
/// called when scratch is there: making that submits the queue.
template <class Space, class T>
DeviceScalar<T> late(const Space& space, T number) {
  const T* const place = Queue<Space>::late_number(space, number);
  return place == nullptr ? DeviceScalar<T>(number) : DeviceScalar<T>(place);
}
template <class Space, class T>
DeviceScalar<T> late(const Space& space, DeviceScalar<T> number) {
  return number.is_known() ? late(space, number.get()) : number;
}

/// Default number of lanes in a team.
inline constexpr int team_lanes = 256;

/// Processors of a large GPU (H100, H200). Work is cut for one, on every device, so that sums have the same
/// bits everywhere.
inline constexpr std::int64_t large_gpu = 132;

/// One thread per lane on a GPU; on a host one thread that does all lanes in turn. So a team computes in
/// rounds, each a loop over lanes (each_lane) that ends in a barrier, and the bits are the same.
template <class Space>
inline constexpr bool one_thread = std::is_same_v<typename Space::memory_space, Kokkos::HostSpace>;

/// At least `side_by_side` teams run concurrently on a multiprocessor of a GPU: with two a lane has 128
/// registers, with three 80.
template <class Space, int side_by_side = 2>
using Policy = Kokkos::TeamPolicy<ExecutionOf<Space>, Kokkos::LaunchBounds<team_lanes, side_by_side>>;

/// The order in which a kernel's indices or teams run: the space's own. Spaces of tests shuffle them, and the
/// lanes of their own type of team.
template <class Space>
struct Order {
  using Team = typename Policy<Space>::member_type;
  template <class Functor>
  static const Functor& of(const Functor& functor, std::int64_t /*count*/) {
    return functor;
  }
};
/// The argument of a functor over teams.
template <class Space>
using TeamOf = typename Order<Space>::Team;

template <class Functor>
inline constexpr bool small = sizeof(Functor) <= 256 && std::is_trivially_copyable_v<Functor>;

/// A kernel over indices.
template <class Space, class Functor>
struct RangeLaunch {
  const char* name = nullptr;
  std::int64_t count = 0;
  Functor functor;
  void operator()(const ExecutionOf<Space>& space) const {
    using Policy = Kokkos::RangePolicy<ExecutionOf<Space>, Kokkos::IndexType<std::int64_t>>;
    Kokkos::parallel_for(name, Policy(space, 0, count), Order<Space>::of(functor, count));
  }
  friend bool operator==(const RangeLaunch&, const RangeLaunch&) = default;
};

/// A kernel of teams, which share `bytes` of fast memory each.
template <class Space, int side_by_side, class Functor>
struct TeamLaunch {
  const char* name = nullptr;
  int teams = 0;
  int lanes = 0;
  int bytes = 0;
  Functor functor;
  void operator()(const ExecutionOf<Space>& space) const {
    Policy<Space, side_by_side> policy(space, teams, one_thread<Space> ? 1 : lanes);
    Kokkos::parallel_for(name, policy.set_scratch_size(0, Kokkos::PerTeam(bytes)),
                         Order<Space>::of(functor, teams));
  }
  friend bool operator==(const TeamLaunch&, const TeamLaunch&) = default;
};

/// Calls functor(i) for 0 … count − 1.
template <class Space, class Functor>
void for_each(const Space& space, const char* name, std::int64_t count, const Functor& functor) {
  static_assert(small<Functor>);
  if (count == 0) return;
  Queue<Space>::put(space, RangeLaunch<Space, Functor>{name, count, functor});
}

/// An elementwise functor, whose operator()<V>(first) does V values, on packs of V and then on the rest.
template <int V, class Functor>
struct Packed {
  Functor functor;
  std::int64_t size = 0;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t pack) const {
    const std::int64_t first = pack * V;
    if (first + V <= size) {
      functor(Width<V>{}, first);
    } else {
      for (std::int64_t i = first; i < size; ++i) functor(Width<1>{}, i);
    }
  }
  friend bool operator==(const Packed&, const Packed&) = default;
};
template <int V, class Space, class Functor>
void for_each_pack(const Space& space, const char* name, std::int64_t size, const Functor& functor) {
  for_each(space, name, (size + V - 1) / V, Packed<V, Functor>{functor, size});
}

/// Calls functor(team) for teams 0 … teams − 1, which share `scratch_bytes` of fast memory (below 32 KiB).
template <int side_by_side = 2, class Space, class Functor>
void for_each_team(const Space& space, const char* name, std::int64_t teams, int lanes,
                   std::size_t scratch_bytes, const Functor& functor) {
  static_assert(small<Functor>);
  if (teams == 0) return;
  require(teams <= 0x7FFFFFFF && scratch_bytes <= 32760, name, ": ", teams, " teams with ", scratch_bytes,
          " bytes of scratch are too many");
  // 8 more: the scratch starts on 8 bytes at most.
  const int bytes = scratch_bytes == 0 ? 0 : static_cast<int>(scratch_bytes) + 8;
  Queue<Space>::put(
      space, TeamLaunch<Space, side_by_side, Functor>{name, static_cast<int>(teams), lanes, bytes, functor});
}

template <class Team, class Body>
KOKKOS_INLINE_FUNCTION void each_lane(const Team& team, int lanes, const Body& body) {
  Kokkos::parallel_for(Kokkos::TeamThreadRange(team, lanes), body);
  team.team_barrier();
}

template <class T, class Team>
KOKKOS_INLINE_FUNCTION T* shared(const Team& team, int count) {
  return static_cast<T*>(team.team_shmem().get_shmem(static_cast<std::ptrdiff_t>(sizeof(T)) * count));
}

/// values[0] ← the sum of values[0 … lanes − 1], lanes a power of two, in a fixed order.
template <class T, class Team>
KOKKOS_INLINE_FUNCTION void tree_sum(const Team& team, int lanes, T* values) {
  for (int width = lanes / 2; width > 0; width /= 2)
    each_lane(team, width, [&](int lane) { values[lane] += values[lane + width]; });
}

}  // namespace flotilla::loops
