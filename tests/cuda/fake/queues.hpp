// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

// The fake GPU's streams. A stream is a queue: what is put there waits until the host waits for it, for
// something after it, or for an event that depends on it. Then works are done one after another, in a random
// order among those that CUDA allows: a stream keeps its own order, an event is waited for, and nothing else
// orders two streams. Works that no caller waits for are done in between, or not, as chance has it.
//
// FLOTILLA_FAKE_GPU_SEED selects the order (1 if it is not set). One seed in four does only what is waited
// for, one all that it can at every call; the others lie between.
namespace flotilla::fake {

using Work = std::function<void()>;
class Stream;

/// All that a stream had been handed at some time. Without a stream: nothing.
struct Place {
  std::shared_ptr<Stream> stream;
  std::size_t works = 0;
};

cudaStream_t make_stream();
void destroy_stream(cudaStream_t stream);  ///< What it holds may still be done.

/// A work for the stream, or for the graph that is captured from it.
void put(cudaStream_t stream, Work work);
/// A work that waits for other ranks. Those of a process are done in the order of their calls, whatever their
/// streams, and only when they are waited for.
/// @returns false, with a message, where nothing orders it after the last one on another stream: NCCL's
/// documentation forbids that, unless NCCL_LAUNCH_ORDER_IMPLICIT=1 asks NCCL to do it
bool put_meeting(cudaStream_t stream, Work work);
/// Work put on the stream from now on runs after that place.
void put_wait(cudaStream_t stream, const Place& after);
Place place_of(cudaStream_t stream);
bool is_done(const Place& place);
/// Returns when all before that place is done.
void finish(const Place& place);

using Works = std::vector<Work>;
bool begin_capture(cudaStream_t stream);
/// Whether this thread captures: calls that wait or allocate are refused, and spoil what is captured.
bool capturing();
cudaError_t refuse_in_capture();
/// The works captured; null: the capture was spoilt. Ends it in either case.
std::unique_ptr<Works> end_capture(cudaStream_t stream);
/// The next captures are spoilt by their first work.
void spoil_captures(int count);

/// Held while works are put and done, which may be by any thread that waits.
std::recursive_mutex& queues_mutex();
/// True with this probability, for other random choices. The caller holds the mutex.
bool by_chance(double probability);

}  // namespace flotilla::fake
