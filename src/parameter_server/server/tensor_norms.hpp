// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mpi/core/communicator.hpp"

namespace flotilla {

/// Norms of whole tensors whose blocks lie on several servers, for optimizers that need them.
class TensorNorms {
 public:
  /// @param tensors_of_blocks the tensor of each of this server's blocks, in the arena's order
  TensorNorms(const mpi::Communicator& servers, std::vector<std::size_t> tensors_of_blocks,
              std::size_t tensors);

  /// Collective over the servers. In: norms of this server's blocks, of two arrays. Out: those of their whole
  /// tensors, with the servers' squares added in order, so that the bits are equal on each. Allocates
  /// nothing.
  void complete(std::span<double> first, std::span<double> second);

 private:
  const mpi::Communicator& servers_;
  std::vector<std::size_t> tensors_of_blocks_;
  std::size_t tensors_;
  std::vector<double> mine_;  ///< Squares, (2, tensors)
  std::vector<double> all_;   ///< (servers, 2, tensors)
};

}  // namespace flotilla
