// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/stop_consensus.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <source_location>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "mpi/core/backoff.hpp"
#include "mpi/core/collective_checks.hpp"
#include "mpi/core/native.hpp"
#include "mpi/core/rank_tree.hpp"

namespace flotilla::mpi {

namespace {

constexpr int gathering_tag = 6;
constexpr int note_tag = 7;

/// What a note says.
constexpr char stop_note = 1;
constexpr char end_note = 0;

/// A worker's record of a meeting, in doubles: what comes before its values.
enum Record : std::size_t { record_stop, record_steps, record_values };
/// The result of a meeting: what comes before the sums.
enum MeetingResult : std::size_t { result_stop, result_sums };

enum Named : std::size_t { named_steps, named_step_s, named_values };
enum Agreement : std::size_t { agreed_steps, agreed_catch_up_s, agreed_values };

constexpr int rendezvous_spins = 200;
/// Time between two polls of a worker that steps alone: polling may yield the processor.
constexpr std::int64_t look_every_ns = 1'000'000;

/// Gathers a record of each worker, in rank order, on worker 0 and brings what that one computes from them to
/// all, along a tree: a worker sends one message to each of its neighbours. It moves on in done() only, which
/// a worker must call until the result has gone to its children. Memory is made once.
class Gathering {
 public:
  using Compute = std::function<void(std::span<const double> records, std::span<double> result)>;

  Gathering(const Communicator& workers, const char* kind, std::size_t values, std::size_t results,
            Compute compute)
      : comm_(NativeHandle::of(workers)),
        log_(NativeHandle::log(workers)),
        kind_(kind),
        rank_(workers.rank()),
        tree_(rank_, workers.size()),
        values_(values),
        records_(values * static_cast<std::size_t>(tree_.end - rank_)),
        result_(results),
        compute_(std::move(compute)) {
    requests_.reserve(tree_.children.size() + 2);
  }

  std::span<double> mine() { return std::span(records_).first(values_); }
  std::span<const double> result() const { return result_; }
  const RankTree& tree() const { return tree_; }
  CollectiveLog& log() { return log_; }
  bool started() const { return stage_ != Stage::idle; }
  /// Bytes that this worker sends for one result.
  std::size_t sent_bytes() const {
    return sizeof(double) *
           ((tree_.parent < 0 ? 0 : records_.size()) + tree_.children.size() * result_.size());
  }

  /// @param step −1: ranks may differ
  void start(std::int64_t step, std::source_location where = std::source_location::current()) {
    log_.begin(kind_, type_word<double>(), static_cast<std::int64_t>(values_), {step, where});
    for (std::size_t i = 0; i < tree_.children.size(); ++i) {
      const int child = tree_.children[i];
      const int end = i + 1 < tree_.children.size() ? tree_.children[i + 1] : tree_.end;
      receive(std::span(records_).subspan(static_cast<std::size_t>(child - rank_) * values_,
                                          static_cast<std::size_t>(end - child) * values_),
              child);
    }
    stage_ = Stage::records;
  }

  bool done() {
    while (stage_ != Stage::done) {
      int completed = 0;
      check(
          MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &completed, MPI_STATUSES_IGNORE),
          "MPI_Testall");
      if (completed == 0) return false;
      requests_.clear();
      advance();
    }
    return true;
  }

 private:
  /// What the requests under way bring.
  enum class Stage { idle, records, result, forwarded, done };

  void advance() {
    if (stage_ == Stage::records && tree_.parent >= 0) {
      send(records_, tree_.parent);
      receive(result_, tree_.parent);
      stage_ = Stage::result;
    } else if (stage_ == Stage::forwarded) {
      stage_ = Stage::done;
    } else {
      if (stage_ == Stage::records) compute_(records_, result_);
      for (const int child : tree_.children) send(result_, child);
      stage_ = Stage::forwarded;
    }
  }
  void send(std::span<const double> values, int to) {
    check(MPI_Isend(values.data(), static_cast<int>(values.size()), MPI_DOUBLE, to, gathering_tag, comm_,
                    &requests_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Isend");
  }
  void receive(std::span<double> values, int from) {
    check(MPI_Irecv(values.data(), static_cast<int>(values.size()), MPI_DOUBLE, from, gathering_tag, comm_,
                    &requests_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Irecv");
  }

  MPI_Comm comm_;
  CollectiveLog& log_;
  const char* kind_;
  int rank_;
  RankTree tree_;
  std::size_t values_;
  std::vector<double> records_;  ///< Of the workers of this one's subtree
  std::vector<double> result_;
  Compute compute_;
  std::vector<MPI_Request> requests_;
  Stage stage_ = Stage::idle;
};

void compute_meeting(std::size_t values, std::span<const double> records, std::span<double> result) {
  const std::size_t length = record_values + values;
  std::ranges::fill(result, 0.0);
  for (std::size_t rank = 0; rank * length < records.size(); ++rank) {
    const auto record = records.subspan(rank * length, length);
    require(record[record_steps] == records[record_steps], "worker 0 meets after step ",
            records[record_steps], ", worker ", rank, " after step ", record[record_steps]);
    result[result_stop] = std::max(result[result_stop], record[record_stop]);
    for (std::size_t i = 0; i < values; ++i) result[result_sums + i] += record[record_values + i];
  }
}

void compute_agreement(std::span<const double> named, std::span<double> agreed) {
  std::ranges::fill(agreed, 0.0);
  for (std::size_t i = 0; i < named.size(); i += named_values)
    agreed[agreed_steps] = std::max(agreed[agreed_steps], named[i + named_steps]);
  for (std::size_t i = 0; i < named.size(); i += named_values)
    agreed[agreed_catch_up_s] = std::max(
        agreed[agreed_catch_up_s], (agreed[agreed_steps] - named[i + named_steps]) * named[i + named_step_s]);
}

}  // namespace

struct StopConsensus::Impl {
  Impl(const Communicator& group, std::size_t values)
      : meetings(group.collective_clone()),
        notes(group.collective_clone()),
        meeting(meetings, "meeting of workers", record_values + values, result_sums + values,
                [values](std::span<const double> records, std::span<double> result) {
                  compute_meeting(values, records, result);
                }),
        agreement(notes, "agreement on a stop", named_values, agreed_values, compute_agreement) {}

  bool alone() const { return notes.size() == 1; }

  /// Sends a note to all neighbours in the tree, once: each gets one from each of its own.
  void tell(const char& note) {
    if (std::exchange(told, true)) return;
    const RankTree& tree = agreement.tree();
    const auto send = [&](int to) {
      check(MPI_Isend(&note, 1, MPI_CHAR, to, note_tag, NativeHandle::of(notes),
                      &sent.emplace_back(MPI_REQUEST_NULL)),
            "MPI_Isend");
    };
    if (tree.parent >= 0) send(tree.parent);
    for (const int child : tree.children) send(child);
  }

  void receive_note() {
    char note = end_note;
    check(MPI_Recv(&note, 1, MPI_CHAR, MPI_ANY_SOURCE, note_tag, NativeHandle::of(notes), MPI_STATUS_IGNORE),
          "MPI_Recv");
    ++received;
    stop_requested = stop_requested || note == stop_note;
  }

  /// Receives a note if one has arrived, and forwards a request to stop.
  void look() {
    if (!alone()) {
      int waiting = 0;
      check(MPI_Iprobe(MPI_ANY_SOURCE, note_tag, NativeHandle::of(notes), &waiting, MPI_STATUS_IGNORE),
            "MPI_Iprobe");
      if (waiting != 0) receive_note();
    }
    if (stop_requested) tell(stop_note);
  }

  void name(std::int64_t steps, double step_s) {
    agreement.mine()[named_steps] = static_cast<double>(steps);
    agreement.mine()[named_step_s] = step_s;
    agreement.start(-1);
  }

  /// Collective, after the agreement: receives the notes that nothing has waited for. MPI may give the next
  /// communicator the context of this one, where a note left behind would ask for a stop.
  void receive_rest() {
    tell(end_note);
    while (received < std::ssize(sent)) receive_note();
    check(MPI_Waitall(static_cast<int>(sent.size()), sent.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }

  /// The gather in which all ranks agree. A gather that all ranks reached before any knew of the request is
  /// over.
  std::int64_t agreed() const {
    const auto steps = static_cast<std::int64_t>(agreement.result()[agreed_steps]);
    return steps == last_meeting ? steps + 1 : steps;
  }

  Communicator meetings;
  Communicator notes;  ///< Space of notes and agreements
  Gathering meeting;
  Gathering agreement;
  std::vector<MPI_Request> sent{};  ///< Notes, to each neighbour
  std::int64_t looked_ns = 0;
  bool asked = false;           ///< By this worker
  bool stop_requested = false;  ///< Some worker wants to stop
  bool told = false;            ///< This worker has told its neighbours so, or that it is at the end
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
  return impl_->has_agreed ? impl_->agreement.result()[agreed_catch_up_s] : 0.0;
}

void StopConsensus::attend(std::int64_t steps, const std::function<bool()>& over) {
  Impl& own = *impl_;
  const auto is_over = [&own, &over, steps] {
    if (over()) return true;
    own.look();
    // A worker may be at an earlier step and wait for this.
    if (own.stop_requested && !own.agreement.started() && !own.alone()) own.name(steps, 0.0);
    if (own.agreement.started()) own.agreement.done();  // moves it on
    return false;
  };
  wait_until(is_over, Backoff(rendezvous_spins));
}

std::size_t StopConsensus::sent_bytes() const {
  return impl_->meeting.sent_bytes();
}

bool StopConsensus::gather(std::int64_t steps, std::span<const double> mine, std::span<double> sums,
                           std::source_location where) {
  Impl& own = *impl_;
  own.look();
  std::span<double> record = own.meeting.mine();
  require(mine.size() + record_values == record.size() && sums.size() == mine.size(),
          "a meeting of other values than agreed on");
  record[record_stop] = own.stop_requested ? 1.0 : 0.0;
  record[record_steps] = static_cast<double>(steps);
  std::ranges::copy(mine, record.begin() + record_values);
  own.meeting.start(steps, where);
  const WaitingScope waiting(own.meeting.log());
  attend(steps, [&own] { return own.meeting.done(); });
  own.last_meeting = steps;
  std::ranges::copy(own.meeting.result().subspan(result_sums), sums.begin());
  const bool stop = own.meeting.result()[result_stop] > 0.0;
  own.stop_requested = own.stop_requested || stop;
  return stop;
}

}  // namespace flotilla::mpi
