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

/// Workers that no longer hold the same model, the same on every worker.
struct Disagreement {
  std::vector<int> ranks;        ///< In the minority; of two of one size the one without rank 0
  int reference = 0;             ///< A rank of the others
  std::string tensor{};          ///< The first that differs
  std::int64_t size = 0;         ///< Its values
  std::int64_t differing = 0;    ///< Of them, on ranks.front()
  float value = 0.0F;            ///< The first of those there
  float reference_value = 0.0F;  ///< The same on `reference`

  /// What ranks.front() says: "holds another model than the others after step 400: the first tensor that
  /// differs is …".
  std::string text(int workers, std::int64_t step) const;
};

/// Compares what all workers must hold alike, by hashes (XXH3) of its tensors.
class AgreementCheck {
 public:
  AgreementCheck(const mpi::Communicator& world, const Network& network);

  /// Collective. Nothing if all hold the same; the training thread allocates then nothing.
  std::optional<Disagreement> compare(const Model& model, mpi::CallSite at = {});

 private:
  struct Tensor {
    const Slice* slice;
    bool statistic;
  };
  /// Valid until the next one's.
  std::span<const float> values(const Tensor& tensor, const Model& model);
  Disagreement examine(const Model& model);

  const mpi::Communicator& world_;
  std::vector<Tensor> tensors_;
  HostStaging staging_;                 ///< For one of them
  std::vector<std::int64_t> hashes_;    ///< Of the tensors
  std::vector<std::int64_t> combined_;  ///< Of all hashes_, by rank
};

}  // namespace flotilla
