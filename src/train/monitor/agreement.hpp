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
#include "src/strategy/strategy.hpp"

namespace flotilla {

/// A finding that workers no longer hold equal models; equal on every worker.
struct Disagreement {
  std::vector<int> ranks;        ///< The smaller set; of two equal ones the one without the lowest rank
  int reference = 0;             ///< A rank of the larger set
  int compared = 0;              ///< Ranks that were compared: all, or those of a group
  std::string tensor{};          ///< Name of the first tensor that differs: "fc1.weight", of a slot
                                 ///< "optimizer/momentum/fc1.weight"
  std::int64_t size = 0;         ///< Number of values of the tensor
  std::int64_t differing = 0;    ///< Values that differ on ranks.front()
  float value = 0.0F;            ///< The first value that differs, on ranks.front()
  float reference_value = 0.0F;  ///< The first value that differs, on `reference`

  /// The message of ranks.front(): "holds another model than the others after step 400: the first tensor that
  /// differs is …".
  std::string text(std::int64_t step) const;
};

/// Compares what must be equal on all workers, or on those of a group, by hashes (XXH3) of its tensors.
class AgreementCheck {
 public:
  /// @param own state_arrays() of this worker: of the model, and of the optimizer unless slots are left out
  AgreementCheck(const mpi::Communicator& world, const Network& network, std::vector<StateArray> own);

  /// Collective. Empty if all are equal; the training thread then allocates nothing.
  std::optional<Disagreement> compare(const Replicated& alike, mpi::CallSite at = {});

 private:
  struct Tensor {
    const Slice* slice;
    std::size_t array;  ///< Index in own_ and compared_
  };
  /// The values of a compared tensor; valid until the next call.
  std::span<const float> values(const Tensor& tensor);
  std::optional<Disagreement> compare_inside(std::span<const int> groups, mpi::CallSite at);
  Disagreement examine(std::span<const int> groups);

  const mpi::Communicator& world_;
  std::vector<StateArray> own_;
  std::vector<DeviceSpan<float>> compared_;  ///< Values in the order of own_; empty: not compared
  std::vector<int> one_group_;               ///< One group with all workers
  std::vector<Tensor> tensors_;
  HostStaging staging_;                 ///< For one tensor
  std::vector<std::int64_t> hashes_;    ///< Hashes of the tensors
  std::vector<std::int64_t> combined_;  ///< The hash of hashes_ of each rank
};

}  // namespace flotilla
