// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "kernels/trace.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"
#include "src/parameter_server/worker/served_worker.hpp"

namespace flotilla {

/// Runs the exchange of a step with the servers in parallel with the computation of the next step
/// (server.pipeline = 1), on a thread of its own; one at a time. While one is under way no other request may
/// be sent to the servers.
class ExchangePipeline {
 public:
  ExchangePipeline(const ServedWorker& worker, const ServedThread& thread);

  /// Begins the exchange of a step, with the payloads of the embeddings. `what.from` may change when this
  /// returns; `what.to` is not changed before finish().
  void start(const PushAndPull& what);
  /// Waits for the answer, if an exchange is under way: the servers may be asked other things then.
  void wait();
  /// Sets `what.to` to the answer, once; does nothing if there is none.
  void finish();
  void drop();                                  ///< finish() shall do nothing: something newer was pulled.
  bool has_answer() const { return pending_; }  ///< An exchange was begun whose answer is not in `what.to`.

 private:
  void exchange(std::int64_t step);

  ServedWorker parts_;
  Storage pushed_;                  ///< The values that are pushed, as they were when the exchange began
  Storage pulled_;                  ///< The values that come back
  std::unique_ptr<CopyLane> lane_;  ///< Null: the device shares the host's memory
  CopyLane::Mark mark_ = 0;         ///< Behind the copy into pushed_
  PushAndPull what_;
  std::span<const mpi::Payload> payloads_;
  std::span<float> answer_;  ///< The host's view of pulled_
  bool under_way_ = false;
  bool pending_ = false;
  std::int64_t sent_bytes_ = 0;  ///< Bytes that the last exchange sent
  mpi::CommunicationThread thread_;
};

}  // namespace flotilla
