// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/server/tensor_norms.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

TensorNorms::TensorNorms(const mpi::Communicator& servers, std::vector<std::size_t> tensors_of_blocks,
                         std::size_t tensors)
    : servers_(servers),
      tensors_of_blocks_(std::move(tensors_of_blocks)),
      tensors_(tensors),
      mine_(2 * tensors),
      all_(mine_.size() * static_cast<std::size_t>(servers.size())) {}

void TensorNorms::complete(std::span<double> first, std::span<double> second) {
  const std::size_t blocks = tensors_of_blocks_.size();
  require(first.size() == blocks && second.size() == blocks, "norms of ", first.size(), " and ",
          second.size(), " blocks, this server has ", blocks);
  std::ranges::fill(mine_, 0.0);
  for (std::size_t i = 0; i < blocks; ++i) {
    mine_[tensors_of_blocks_[i]] += first[i] * first[i];
    mine_[tensors_ + tensors_of_blocks_[i]] += second[i] * second[i];
  }
  servers_.all_gather(std::span<const double>(mine_), std::span(all_));
  std::ranges::fill(mine_, 0.0);
  for (std::size_t i = 0; i < all_.size(); ++i) mine_[i % mine_.size()] += all_[i];
  for (std::size_t i = 0; i < blocks; ++i) {
    first[i] = std::sqrt(mine_[tensors_of_blocks_[i]]);
    second[i] = std::sqrt(mine_[tensors_ + tensors_of_blocks_[i]]);
  }
}

}  // namespace flotilla
