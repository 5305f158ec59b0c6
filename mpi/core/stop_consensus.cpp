// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/stop_consensus.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <source_location>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "mpi/core/backoff.hpp"
#include "mpi/core/collective_checks.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

constexpr int note_tag = 7;

/// A worker's record of a meeting, in doubles: what comes before its values.
enum Record : std::size_t { record_stop, record_steps, record_values };

constexpr int rendezvous_spins = 200;
/// Time between two polls of a worker that steps alone: polling may yield the processor.
constexpr std::int64_t look_every_ns = 1'000'000;

/// A non-blocking all-gather. Its memory is made once.
class Gathering {
 public:
  Gathering(const Communicator& workers, const char* kind, std::size_t values)
      : comm_(NativeHandle::of(workers)),
        log_(NativeHandle::log(workers)),
        kind_(kind),
        mine_(values),
        all_(values * static_cast<std::size_t>(workers.size())) {}

  std::span<double> mine() { return mine_; }
  std::span<const double> all() const { return all_; }
  bool started() const { return started_; }
  /// @param step −1: ranks may differ
  void start(std::int64_t step, std::source_location where = std::source_location::current()) {
    log_.begin(kind_, type_word<double>(), std::ssize(mine_), {step, where});
    const auto count = static_cast<int>(mine_.size());
    check(MPI_Iallgather(mine_.data(), count, MPI_DOUBLE, all_.data(), count, MPI_DOUBLE, comm_, &request_),
          "MPI_Iallgather");
    started_ = true;
  }
  bool done() { return completed(request_); }
  CollectiveLog& log() { return log_; }

 private:
  MPI_Comm comm_;
  CollectiveLog& log_;
  const char* kind_;
  std::vector<double> mine_;
  std::vector<double> all_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool started_ = false;
};

}  // namespace

struct StopConsensus::Impl {
  Impl(const Communicator& group, std::size_t values)
      : meetings(group.collective_clone()),
        agreements(group.collective_clone()),
        notes(group.collective_clone()),
        meeting(meetings, "meeting of workers", values + record_values),
        agreement(agreements, "agreement on a stop", 2),
        sent(static_cast<std::size_t>(group.size()) + 1, MPI_REQUEST_NULL) {}

  bool alone() const { return notes.size() == 1; }
  MPI_Comm comm() const { return NativeHandle::of(notes); }
  void send_note(int to, MPI_Request& request) {
    check(MPI_Isend(nullptr, 0, MPI_BYTE, to, note_tag, comm(), &request), "MPI_Isend");
  }

  void receive_note() {
    check(MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, note_tag, comm(), MPI_STATUS_IGNORE), "MPI_Recv");
    ++received;
  }

  /// Receives a note if one has arrived, and forwards a request to stop.
  void look() {
    if (!alone()) {
      int waiting = 0;
      check(MPI_Iprobe(MPI_ANY_SOURCE, note_tag, comm(), &waiting, MPI_STATUS_IGNORE), "MPI_Iprobe");
      if (waiting != 0) {
        receive_note();
        stop_requested = true;
      }
    }
    if (!stop_requested || told) return;
    told = true;
    if (!notes.is_root()) {
      if (asked) send_note(0, sent[0]);
      return;
    }
    for (int rank = 1; rank < notes.size(); ++rank) send_note(rank, sent[static_cast<std::size_t>(rank)]);
  }

  void name(std::int64_t steps, double step_s) {
    agreement.mine()[0] = static_cast<double>(steps);
    agreement.mine()[1] = step_s;
    agreement.start(-1);
  }

  /// Collective, after the agreement: receives the notes that nothing has waited for; a root that has sent
  /// one has sent one to each worker, and a worker sends to the root only. MPI may give the next communicator
  /// the context of this one, where a note left behind would ask for a stop.
  void receive_rest() {
    const auto is_sent = [](MPI_Request request) { return request != MPI_REQUEST_NULL; };
    agreement.mine()[0] = std::ranges::any_of(sent, is_sent) ? 1.0 : 0.0;
    agreement.start(-1);
    wait_until([this] { return agreement.done(); }, Backoff(rendezvous_spins));
    int expected = 0;
    for (int rank = 0; rank < notes.size(); ++rank)
      if ((rank == 0) != notes.is_root() && agreement.all()[2 * static_cast<std::size_t>(rank)] > 0.0)
        ++expected;
    while (received < expected) receive_note();
  }

  /// The gather in which all ranks agree. A gather that all ranks reached before any knew of the request is
  /// over.
  std::int64_t agreed() const {
    double furthest = 0.0;
    for (std::size_t i = 0; i < agreement.all().size(); i += 2)
      furthest = std::max(furthest, agreement.all()[i]);
    const auto steps = static_cast<std::int64_t>(furthest);
    return steps == last_meeting ? steps + 1 : steps;
  }

  Communicator meetings;
  Communicator agreements;
  Communicator notes;
  Gathering meeting;
  Gathering agreement;
  std::vector<MPI_Request> sent;
  std::int64_t looked_ns = 0;
  bool asked = false;           ///< By this worker
  bool stop_requested = false;  ///< Some worker wants to stop
  bool told = false;            ///< This worker has forwarded the request
  int received = 0;             ///< Notes
  bool has_agreed = false;
  std::int64_t meet_at = 0;        ///< Once it has
  std::int64_t last_meeting = -1;  ///< Steps done at the last one
  int exceptions = std::uncaught_exceptions();
};

StopConsensus::StopConsensus(const Communicator& workers, std::size_t values)
    : impl_(std::make_unique<Impl>(workers, values)) {}

StopConsensus::~StopConsensus() {
  if (impl_->alone()) return;
  if (std::uncaught_exceptions() > impl_->exceptions) {
    static_cast<void>(impl_.release());  // MPI may still write into the memory of what was begun
    return;
  }
  // A collective that some ranks have begun must end on all; the result is not used.
  Gathering& agreement = impl_->agreement;
  if (!agreement.started()) impl_->name(0, 0.0);
  const WaitingScope waiting(agreement.log());
  wait_until([&agreement] { return agreement.done(); }, Backoff(rendezvous_spins));
  impl_->receive_rest();
  MPI_Waitall(static_cast<int>(impl_->sent.size()), impl_->sent.data(), MPI_STATUSES_IGNORE);
}

void StopConsensus::ask_to_stop() {
  impl_->asked = true;
  impl_->stop_requested = true;
}

bool StopConsensus::stop_requested() {
  Impl& own = *impl_;
  if (const std::int64_t now_ns = trace::now_ns(); own.asked || now_ns - own.looked_ns >= look_every_ns) {
    own.looked_ns = now_ns;
    own.look();
  }
  return own.stop_requested;
}

bool StopConsensus::must_gather(std::int64_t steps, double step_s) {
  Impl& own = *impl_;
  own.stop_requested = true;  // or it learned from those it steps with
  if (own.alone()) return true;
  own.look();
  if (!own.has_agreed) {
    if (!own.agreement.started()) own.name(steps, step_s);
    const WaitingScope waiting(own.agreement.log());
    wait_until(
        [&own] {
          own.look();
          return own.agreement.done();
        },
        Backoff(rendezvous_spins));
    own.has_agreed = true;
    own.meet_at = own.agreed();
  }
  require(own.meet_at >= steps, "the workers agreed to gather after step ", own.meet_at,
          ", this one has done ", steps);
  return own.meet_at == steps;
}

double StopConsensus::catch_up_s() const {
  const Impl& own = *impl_;
  double longest_s = 0.0;
  if (!own.has_agreed) return longest_s;
  for (std::size_t i = 0; i < own.agreement.all().size(); i += 2)
    longest_s = std::max(
        longest_s, (static_cast<double>(own.meet_at) - own.agreement.all()[i]) * own.agreement.all()[i + 1]);
  return longest_s;
}

bool StopConsensus::gather(std::int64_t steps, std::span<const double> mine, std::span<double> all,
                           std::source_location where) {
  Impl& own = *impl_;
  own.look();
  std::span<double> record = own.meeting.mine();
  require(mine.size() + record_values == record.size() &&
              all.size() == mine.size() * (own.meeting.all().size() / record.size()),
          "a meeting of other values than agreed on");
  record[record_stop] = own.stop_requested ? 1.0 : 0.0;
  record[record_steps] = static_cast<double>(steps);
  std::ranges::copy(mine, record.begin() + record_values);
  own.meeting.start(steps, where);
  const WaitingScope waiting(own.meeting.log());
  const auto met = [&own, steps] {
    if (own.meeting.done()) return true;
    own.look();
    // A worker may be at an earlier step and wait for this.
    if (own.stop_requested && !own.agreement.started() && !own.alone()) own.name(steps, 0.0);
    if (own.agreement.started()) own.agreement.done();  // moves it on
    return false;
  };
  wait_until(met, Backoff(rendezvous_spins));
  own.last_meeting = steps;
  bool stop = false;
  for (std::size_t rank = 0; rank * record.size() < own.meeting.all().size(); ++rank) {
    const auto theirs = own.meeting.all().subspan(rank * record.size(), record.size());
    require(theirs[record_steps] == static_cast<double>(steps), "worker ", own.notes.rank(),
            " meets after step ", steps, ", worker ", rank, " after step ", theirs[record_steps]);
    stop = stop || theirs[record_stop] > 0.0;
    std::ranges::copy(theirs.subspan(record_values),
                      all.begin() + static_cast<std::ptrdiff_t>(rank * mine.size()));
  }
  own.stop_requested = own.stop_requested || stop;
  return stop;
}

}  // namespace flotilla::mpi
