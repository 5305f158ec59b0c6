// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "models/arena.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/strategy/reduce/all_reduce_plan.hpp"
#include "src/strategy/state_array.hpp"

namespace flotilla {

/// A tensor of the gradients as a matrix, and the thin matrices whose product is sent in its place.
struct ThinProduct {
  std::size_t slice = 0;   ///< Of the parameters
  std::size_t number = 0;  ///< Among the products
  std::int64_t rows = 0;   ///< Output channels, or the inputs of a layer whose weight is stored transposed
  std::int64_t columns = 0;
  std::int64_t rank = 0;
  bool converted = false;  ///< The device stores the tensor in an order that is not a matrix's
  std::size_t left = 0;    ///< Place among all left factors, floats; each lies column after column
  std::size_t right = 0;   ///< Place among all right factors

  std::size_t left_size() const { return static_cast<std::size_t>(rank * rows); }
  std::size_t right_size() const { return static_cast<std::size_t>(rank * columns); }
  std::size_t size() const { return static_cast<std::size_t>(rows * columns); }
};

/// How a model's gradients are sent: matrices as thin products, the other tensors unchanged.
struct CompressionCut {
  std::int64_t rank = 0;
  std::vector<ThinProduct> products{};
  std::vector<std::size_t> whole{};  ///< Slices of tensors that are sent as they are
  std::size_t whole_size = 0;        ///< Floats of these
  std::size_t left_size = 0;         ///< Floats of all left factors
  std::size_t right_size = 0;

  /// Floats that are sent in a step: `leading` ones before the gradients, whole tensors, and factors.
  std::size_t count(std::size_t leading) const { return leading + whole_size + left_size + right_size; }
};

/// Makes a product of each tensor of two or more dimensions that it makes smaller by more than the factor
/// `min_rate`; 2 is the default of PyTorch's hook. A tensor is seen as its first dimension by all others.
CompressionCut cut_for_compression(const TensorSet& tensors, std::int64_t rank, double min_rate = 2.0);

/// Makes vectors of equal size, one after another, orthonormal by Gram-Schmidt in double, which is done twice
/// for each vector. One that depends on those before it, so that less than 1e-7 of it is left (the rounding
/// of float), and one of zeros become zero. @param room at least one vector
void orthonormalise(std::span<float> vectors, std::size_t count, std::span<double> room);

/// PowerSGD (Vogels, Karimireddy & Jaggi 2019): the workers' mean gradient M of a tensor is approximated by
/// P Qᵀ, where P = M Q with the Q of the step before, made orthonormal, and then Q = Mᵀ P. Both are linear in
/// M, so that workers add up their factors: all P, with the tensors that are sent whole, in one all-reduce,
/// and all Q in another. What this and a scaled wire leave out of a worker's gradient is added to that of the
/// next step (what such a wire leaves of factors is not added to factors: it is part of the former). All
/// workers compute the same bits, whatever threads they have. For devices that share the host's memory.
class PowerSgd {
 public:
  struct Parts {
    Device& device;
    mpi::Watchdog& watchdog;
    const mpi::Communicator& workers;
    const TensorSet& tensors;     ///< Of the parameters
    DeviceSpan<float> gradients;  ///< Header, step statistics, gradients (buckets.hpp)
    CompressionCut cut;
    /// What the wire has left of gradients before `start`, laid out as the parameters: then errors are kept
    /// here. Empty: the wire leaves nothing.
    DeviceSpan<float> errors{};
    std::int64_t start = 0;  ///< First step that is compressed
    std::uint64_t seed = 0;  ///< Of the first Q
  };
  /// Collective, after fit_to_shared_memory() of the plan for the cut's count(). @param host workers of this
  /// host
  PowerSgd(Parts parts, const AllReducePlan& plan, const mpi::Communicator& host);

  bool compresses(std::int64_t step) const { return step >= parts_.start; }
  /// Collective. The gradients ← the sum over the workers of their approximations; what comes before them is
  /// summed exactly.
  void sum(std::int64_t step);
  std::size_t sent_bytes() const;  ///< By this worker in one sum()
  /// Collective, before training, while gradients are zero. Compares the time of sum() with that of the
  /// all-reduces of `buckets`.
  void measure(mpi::Collectives& plain, std::span<const DeviceSpan<float>> buckets);
  void clear_errors() { parts_.device.flat().fill(parts_.errors, 0.0F); }

  /// The Q of the next step, equal on all workers; a checkpoint of a run without this rank has none.
  StateArray factors();
  /// This worker's errors, for its own part of a checkpoint.
  StateArray errors();
  const Reduction& reduction() const { return reduction_; }
  std::string description() const;  ///< A line for the report at the start
  /// Where it was measured to be slower than without, or lacks shared memory.
  std::vector<std::string> warnings() const;
  std::int64_t held_bytes() const;

 private:
  DeviceSpan<float> whole_and_left() const;
  DeviceSpan<float> all_right() const {
    return sent_.values().subspan(parts_.cut.count(leading_) - parts_.cut.right_size, parts_.cut.right_size);
  }
  DeviceSpan<float> left(const ThinProduct& product) const;
  DeviceSpan<float> right(const ThinProduct& product) const;
  DeviceSpan<float> gradient(std::size_t slice) const;
  DeviceSpan<float> matrix(const ThinProduct& product);
  DeviceSpan<float> kept(Storage& factors, const ThinProduct& product) const;
  void multiply_left(const ThinProduct& product);
  void multiply_right(const ThinProduct& product);
  void expand(const ThinProduct& product);
  void move_whole(bool back);
  void move_wire_errors(bool back);

  Parts parts_;
  std::size_t leading_;
  ReducedArray sent_;  ///< What leads the gradients, whole tensors, left factors, right factors
  Reduction reduction_;
  TensorSet factor_tensors_;
  Storage factors_;
  Storage first_factors_;     ///< Random ones, which also replace columns that have become zero
  Storage errors_;            ///< Those of `parts_`, which in sum() are gradients and errors; empty: not ours
  Storage plain_;             ///< The largest converted matrix
  std::vector<double> room_;  ///< For orthonormalise()
  double plain_ms_ = 0.0;     ///< Measured time of all buckets' all-reduces; 0: not measured
  double compressed_ms_ = 0.0;  ///< Measured time of sum()
};

}  // namespace flotilla
