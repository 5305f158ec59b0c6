// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/device_memory.hpp"
#include "kernels/device_queue.hpp"
#include "kernels/flat_math.hpp"
#include "kernels/flat_updates.hpp"
#include "kernels/image_operations.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/overflow_guard.hpp"
#include "kernels/precision.hpp"
#include "kernels/tensors.hpp"

namespace flotilla {

/// The properties of a device.
struct DeviceInfo {
  std::string description;  ///< "oneDNN 2.6.3, 2 threads, AVX-512": printed by every run
  int threads = 1;          ///< Host threads that kernels use
  /// The type of activations, their gradients and the weights of products; arenas are float32.
  Precision precision = Precision::float32;
  bool shares_host_memory = false;  ///< Device spans are host addresses: arenas may lie in MPI windows.
  bool stages_bytes = false;        ///< Images are staged as bytes that the device scales: fewer to copy.
  bool reads_halves = false;        ///< Layers read parameters as halves: Weights::half_weight.
  /// Calls return before their work is complete: reading a result waits for all queued work.
  bool runs_ahead = false;
};

/// A device to compute on. A tensor has a logical shape; the layout of its storage is private to the device.
///
/// Memory of a device is the host's only where info().shares_host_memory says so. Elsewhere an address of a
/// DeviceSpan must not be dereferenced: the reference device returns invalid addresses, so that tests without
/// a GPU find code that does.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual DeviceMemory& memory() = 0;
  virtual DeviceQueue& queue() = 0;
  virtual Tensors& tensors() = 0;
  virtual ImageOperations& images() = 0;
  virtual Layers& layers() = 0;
  virtual FlatMath& flat() = 0;
  virtual FlatUpdates& updates() = 0;
  /// For devices that run ahead of the host. Null: the host checks with flat() whether a step is finite.
  virtual std::unique_ptr<OverflowGuard> overflow_guard(const OverflowGuardSpec& /*spec*/) { return {}; }
};

/// The operations in float32 whose operands a GPU may round to TF32 (10 bits of mantissa).
enum class Tf32 : std::uint8_t { none, convolutions, all };

/// The convolutions that a CPU computes by Winograd's algorithm F(4x4, 3x3) (Lavin & Gray 2016), in float32
/// and for kernels of 3x3 with stride 1: none, those that it makes faster by the measured costs of each pass
/// (kernels/cpu/winograd.cpp), or all to which it applies. Rounding errors are up to 20 times those of direct
/// convolutions (tests/kernels/test_winograd.cpp).
enum class WinogradUse : std::uint8_t { never, where_faster, wherever_possible };

/// @param threads 1 or more.
struct DeviceSpec {
  std::string kind = "cpu";  ///< "cpu", "reference" or "cuda".
  int threads = 1;
  Precision precision = Precision::float32;
  WinogradUse winograd = WinogradUse::never;  ///< cpu
  // cuda
  int ordinal = 0;                          ///< Index among the GPUs that this process sees
  Tf32 tf32 = Tf32::convolutions;           ///< "all": matrix products too
  bool reproducible = false;                ///< Only algorithms that give the same bits every time.
  std::size_t workspace_bytes = 1U << 30U;  ///< Most memory of a convolution's algorithm.
  bool graphs = false;                      ///< Work that repeats itself is launched as CUDA graphs.
};

/// "cpu" makes the calling thread, and those that it starts later, take denormal values as zero.
/// @throws UserError if this build has no such device, naming the option that would build it.
std::unique_ptr<Device> make_device(const DeviceSpec& spec);

}  // namespace flotilla
