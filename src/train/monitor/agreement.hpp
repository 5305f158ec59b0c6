// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/host_staging.hpp"
#include "models/network.hpp"
#include "mpi/core/communicator.hpp"
#include "src/strategy/state_array.hpp"

namespace flotilla {

/// A finding that workers no longer hold equal models; equal on every worker.
struct Disagreement {
  std::vector<int> ranks;        ///< The smaller set; of two equal ones the one without rank 0
  int reference = 0;             ///< A rank of the larger set
  std::string tensor{};          ///< Name of the first tensor that differs
  std::int64_t size = 0;         ///< Number of values of the tensor
  std::int64_t differing = 0;    ///< Values that differ on ranks.front()
  float value = 0.0F;            ///< The first value that differs, on ranks.front()
  float reference_value = 0.0F;  ///< The first value that differs, on `reference`

  /// The message of ranks.front(): "holds another model than the others after step 400: the first tensor that
  /// differs is …".
  std::string text(int workers, std::int64_t step) const;
};

/// Compares the part of the model that must be equal on all workers, by hashes (XXH3) of its tensors.
class AgreementCheck {
 public:
  AgreementCheck(const mpi::Communicator& world, const Network& network);

  /// Collective. Empty if all are equal; the training thread then allocates nothing.
  std::optional<Disagreement> compare(const Model& model, mpi::CallSite at = {});

 private:
  struct Tensor {
    const Slice* slice;
    bool statistic;
  };
  /// Valid until the next call.
  std::span<const float> values(const Tensor& tensor, const Model& model);
  Disagreement examine(const Model& model);

  const mpi::Communicator& world_;
  std::vector<Tensor> tensors_;
  HostStaging staging_;                 ///< For one tensor
  std::vector<std::int64_t> hashes_;    ///< Of the tensors
  std::vector<std::int64_t> combined_;  ///< The hash of hashes_ of each rank
};

}  // namespace flotilla
