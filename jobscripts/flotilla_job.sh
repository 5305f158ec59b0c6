# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154,SC2317
# What the job scripts share; it is installed next to flotilla, where `. flotilla_job.sh` finds it on PATH. A script sets
# most_relaunches (and most_runs under Slurm), defines launch, which starts the training once, and calls run_job:
#
#   exit code 0, 2, 4, 65   the job ends with it
#   exit code 75            saved, there is more to do: the job goes back into the queue
#   a process was lost      the training is launched again on the same nodes and resumes
#   a node was lost         the others save what they keep in memory (flotilla rescue); the job goes back into the queue, or, where
#                           a script sets spares, on without that node
#
# With DRY_RUN=1 nothing is started: run_job prints the command, the resources and what follows each exit code.

words=$(mktemp)
trap 'rm -f "$words"' EXIT
say() { echo "flotilla: job $job: $*" >&2; }

# Outside of a job, for a dry run: what the queue would set, from the lines of the script that ask for it.
asks() { sed -n "s/^#[A-Z][A-Z]* .*$1\([0-9]*\).*/\1/p" "$0" | head -n 1; }
hosts() { for ((i = 0; i < $1 * $2; i++)); do echo "node$((i / $2 + 1))"; done > "$words"; }
if [[ ${DRY_RUN:-} == 1 && -z ${SLURM_JOB_ID:-}${PBS_JOBID:-}${LSB_JOBID:-} ]]; then
  case $0 in
    *.pbs) hosts "$(asks select=)" "$(asks mpiprocs=)" && PBS_JOBID=0 PBS_O_WORKDIR=$PWD PBS_NODEFILE=$words ;;
    *.lsf) hosts "$(($(asks '-n ') / $(asks ptile=)))" "$(asks ptile=)" && LSB_JOBID=0 LSB_DJOB_HOSTFILE=$words ;;
    *)
      SLURM_JOB_ID=0 SLURM_ARRAY_TASK_ID=0 SLURM_JOB_NAME=NAME SLURM_JOB_NUM_NODES=$(asks --nodes=)
      SLURM_CPUS_ON_NODE=$(asks --mincpus=) SLURM_GPUS_PER_NODE=$(asks --gpus-per-node=)
      ;;
  esac
fi
job=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-}}}
nodes=${SLURM_JOB_NODELIST:-$(sort -u "${PBS_NODEFILE:-${LSB_DJOB_HOSTFILE:-/dev/null}}" | paste -sd ' ')}
run=$((${SLURM_RESTART_COUNT:-0} + 1))
asked=''    # "yes" once the queue has asked this shell to end
on_nodes=() # srun's options for a launch that is not on all nodes of the job

# Environment variables: docs/cluster.md explains each.
if [[ -n ${SLURM_JOB_ID:-} ]]; then
  # If the job was submitted without an environment, srun would not pass one on either.
  export SLURM_EXPORT_ENV=ALL
  # The way in which ranks find each other. `srun --mpi=list` shows the choices: a cluster may have pmix_v4 only, another MPI
  # needs pmi2.
  export SLURM_MPI_TYPE=${SLURM_MPI_TYPE:-pmix}
  # Slurm's own choice of barrier spans no nodes in jobs of fewer nodes than TreeWidth: a rank may then crash in MPI_Init.
  export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring}
  # If a rank ends before MPI starts (its node lacks a library), the others wait for it in MPI_Init: srun ends them after 60 s.
  export SLURM_WAIT=${SLURM_WAIT:-60}
fi
# A rank that waits gives its core away to reading ahead and to communication; at no cost where no thread needs it.
export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}

# count_cores: cores of this node that the job may use. Slurm counts hardware threads on some clusters, cores on others.
count_cores() {
  local range cpu cores
  if [[ $job == 0 ]]; then echo "$SLURM_CPUS_ON_NODE" && return; fi # a dry run elsewhere
  cores=$(for range in $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr ',' ' '); do
    for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do
      cat "/sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list"
    done
  done | sort -u | wc -l)
  echo $((cores < 1 || cores > SLURM_CPUS_ON_NODE ? SLURM_CPUS_ON_NODE : cores))
}

# run_folder DECK [key.path=value …]: run.output, the last one given, otherwise the deck's, otherwise runs/NAME-OF-DECK.
run_folder() {
  local argument folder
  folder=$(awk -F "[\"']" '/^ *\[/ { inside = /^ *\[ *run *\]/ } inside && /^ *output *=/ { print $2; exit }' "$1" || true)
  folder=${folder:-runs/$(basename "$1" .toml)}
  for argument in "${@:2}"; do
    if [[ $argument == run.output=* ]]; then folder=${argument#*=}; fi
  done
  folder=${folder//[\"\']/}
  if [[ $folder == '~'* ]]; then folder=$HOME${folder:1}; fi
  while [[ $folder =~ \$\{?([A-Za-z_][A-Za-z_0-9]*)\}? ]]; do
    argument=${BASH_REMATCH[1]}
    folder=${folder/"${BASH_REMATCH[0]}"/${!argument:-}}
  done
  echo "$folder"
}

last_event() { tail -n 1 "$1/metrics.jsonl" 2> /dev/null || true; }

# steps_reached FOLDER: the newest checkpoint's step or the last reported one, whichever is later.
steps_reached() {
  {
    printf '%s\n' "$1"/checkpoints/step-*.h5 | sed -n 's/.*step-0*\([0-9][0-9]*\)[.]h5$/\1/p'
    tail -n 1000 "$1/metrics.jsonl" 2> /dev/null | sed -n 's/^{"event":"step".*"step":\([0-9]*\).*/\1/p'
    echo 0
  } | sort -n | tail -n 1
}

# final_code CODE BEFORE AFTER: the exit code that counts. Launchers end with 0 though a node was lost, and with 137 though all was
# saved: where the launch has ended the run, its reason decides. BEFORE and AFTER are last events around the launch.
final_code() {
  case $1 in 2 | 4 | 65 | 75) echo "$1" && return ;; esac
  case $([[ $3 == "$2" ]] || echo "$3") in
    '{"event":"end"'*'"reason":"stopped"'* | '{"event":"end"'*'"reason":"time limit"'*) echo 75 ;;
    '{"event":"end"'*'"reason":"diverged"'*) echo 2 ;;
    '{"event":"end"'*) echo 0 ;;
    *) echo $(($1 == 0 && ${#3} > 0 ? 1 : $1)) ;;
  esac
}

# lost_rank: the first process that ended badly, in the launcher's words: "rank 3 on h1: Killed".
lost_rank() {
  sed -n -e 's/^srun: error: \([^: ]*\): task\(s*\) \([-0-9,]*\): \(.*\)/rank\2 \3 on \1: \4/p' \
    -e '/noticed that process rank/ { $!N; s/\n/ /; s/.* rank \([0-9]*\) with .* node \([^ ]*\) exited on \([^.]*\).*/rank \1 on \2: \3/p; }' "$words" |
    grep -m 1 -v ': Exited with exit code \(0\|75\)$' || true
}

# choose_nodes: the next launch is on the first nodes of $alive, as many as the job has besides its spares.
choose_nodes() {
  local chosen count
  chosen=$(head -n "$most_nodes" <<< "$alive")
  count=$(wc -l <<< "$chosen")
  on_nodes=(--overlap --nodes="$count" --ntasks=$((count * ranks_per_node)) --nodelist="$(paste -sd , <<< "$chosen")")
}

# go_on FOLDER: the next launch is on the nodes that are left, with the global batch that the run began with. 1: that cannot be.
go_on() {
  local batch
  batch=$(sed -n 's/^{"event":"start".*"global_batch_size":\([0-9]*\).*/\1/p' "$1/metrics.jsonl" | head -n 1)
  choose_nodes
  if ((batch == 0 || batch % (${on_nodes[2]#*=}) != 0)); then
    say "a global batch of ${batch:-unknown size} is no multiple of the ${on_nodes[2]#*=} ranks that are left"
    return 1
  fi
  same_batch=train.global_batch_size=$batch
  guard_first_node
  say "going on with a global batch of $batch on ${on_nodes[3]#*=}"
}

# once_on NODES COMMAND…: runs the command once on each of these nodes, within $limit seconds if that is set. Number and names of the
# nodes are given: srun would otherwise ask for those of the job, including the lost ones.
once_on() {
  local count
  count=$(wc -l <<< "$1")
  ${limit:+timeout -k 5 "$limit"} srun --overlap --nodes="$count" --ntasks="$count" --nodelist="$(paste -sd , <<< "$1")" --mpi=none "${@:2}"
}

# guard_first_node: a job with --no-kill that loses its first node, and with it this shell, would stay and run nothing. A process
# on the next node puts it back into the queue then.
guard_first_node() {
  local first second
  { read -r first && read -r second; } <<< "$alive" || return 0
  # shellcheck disable=SC2016 # for that shell
  once_on "$second" bash -c '
    until [[ $(scontrol show node "$1" -o) == *State=DOWN* ]]; do sleep 5; done
    scontrol requeue "$SLURM_JOB_ID"' guard "$first" &> /dev/null &
}

# find_lost_nodes: sets live and lost, the nodes of $alive that give a sign of life and those that do not. Slurm itself notices
# after SlurmdTimeout, and then ends what still runs in the job; with --no-kill it takes the node out of the job.
find_lost_nodes() {
  local present
  live='' lost=''
  if [[ -z ${SLURM_JOB_ID:-} ]]; then
    lost=$(grep -o -m 1 'lost communication with a remote daemon' "$words" || true)
    return
  fi
  alive=${alive:-$(scontrol show hostnames "$SLURM_JOB_NODELIST")}
  present=$(scontrol show hostnames "$(squeue -h -j "$SLURM_JOB_ID" -o %N)" | grep -xF "$alive" || true)
  live=$(limit=60 once_on "$present" printenv SLURMD_NODENAME 2> /dev/null | sort -u || true)
  if [[ -n $live ]]; then lost=$(grep -vxF "$live" <<< "$alive" | paste -sd ' ' || true); fi
}

# rescue FOLDER [NODES]: makes a checkpoint of the state that this host, or each of the nodes, keeps in memory.
rescue() {
  if [[ $(flotilla --help) != *$'\n  rescue '* ]]; then return; fi
  if [[ -z ${2:-} ]]; then
    flotilla rescue "$1" || true
  else
    once_on "$2" flotilla rescue "$1" || true
  fi
}

# job_state: Slurm's word for it; RUNNING where Slurm does not answer, and under the other queues.
job_state() {
  local state=''
  if [[ -n ${SLURM_JOB_ID:-} ]]; then state=$(squeue -h -j "$SLURM_JOB_ID" -o %T 2> /dev/null || true); fi
  echo "${state:-RUNNING}"
}

# put_back: into Slurm's queue. With RequeueExit=75 in slurm.conf the exit code alone would do, as under LSF -Q 75 does.
put_back() {
  if [[ -z ${SLURM_JOB_ID:-} ]]; then return; fi
  if ((run >= most_runs)); then
    say "not done after $run runs, which is most_runs: not put back"
    exit 1
  fi
  # Preemption and administrators have put it back already: asked twice, Slurm would run it once more when it is done.
  if [[ $(job_state) == RUNNING ]]; then scontrol requeue "$SLURM_JOB_ID" || true; fi
}

# launch_and_listen DECK [key.path=value …]: keeps what the launcher says on stderr in $words too. The queue signals all processes
# of a job: the launcher ends by itself, and these shells and tee stay until then.
launch_and_listen() {
  trap : TERM INT USR1
  # What says how large the job is would count more than the options.
  if ((${#on_nodes[@]} > 0)); then unset SLURM_JOB_NUM_NODES SLURM_NNODES SLURM_TASKS_PER_NODE SLURM_JOB_NODELIST SLURM_NODELIST; fi
  { trap : TERM INT USR1 && launch "$@"; } 2>&1 >&3 | (trap '' HUP TERM INT USR1 && exec tee "$words" >&2)
}

# leave_lost_node FOLDER: where Slurm has taken the job back because of a lost node, its ranks cannot save any more. KillWait (30 s)
# is left to do it without them; Slurm starts nothing on other nodes now.
leave_lost_node() {
  local pid
  sleep 1
  if ! grep -q '^srun: error: Node failure' "$words"; then return; fi
  for pid in $(pgrep -u "$UID" -x flotilla); do
    if grep -qzxF "SLURM_JOB_ID=$SLURM_JOB_ID" "/proc/$pid/environ"; then kill -KILL "$pid" || true; fi
  done
  rescue "$1"
  exit 1
}

# run_job TEXT DECK [key.path=value …]: launches the training until it is done or must leave the job. Ends the script.
run_job() {
  local text=$1 folder launched code before reached now relaunches=0 rank live lost same_batch='' alive='' most_nodes
  shift
  folder=$(run_folder "$@")
  if [[ -n ${spares:-} ]]; then
    alive=$(if [[ $job == 0 ]]; then seq -f node%g "$SLURM_JOB_NUM_NODES"; else scontrol show hostnames "$SLURM_JOB_NODELIST"; fi)
    most_nodes=$(($(wc -l <<< "$alive") - spares))
    most_nodes=$((most_nodes < 1 ? 1 : most_nodes))
    choose_nodes
  fi
  reached=$(steps_reached "$folder")
  if [[ ${DRY_RUN:-} == 1 ]]; then plan "$text" "$folder, step $reached reached" "$@"; fi
  echo "flotilla: job $job${SLURM_JOB_ID:+, run $run,} on $nodes: $text"
  if [[ -n ${spares:-} ]]; then guard_first_node; fi
  # The queue asks this shell to end as well: it stays until the ranks have saved.
  trap 'asked=yes' TERM INT USR1
  while :; do
    before=$(last_event "$folder")
    launch_and_listen "$@" ${same_batch:+"$same_batch"} 3>&1 &
    while :; do
      launched=0
      wait $! || launched=$?
      if ! kill -0 $! 2> /dev/null; then break; fi
      leave_lost_node "$folder" # a signal has ended the wait
    done
    code=$(final_code "$launched" "$before" "$(last_event "$folder")")
    if ((code == 75)); then put_back; fi
    case $code in 0 | 2 | 4 | 65 | 75 | 126 | 127) exit "$code" ;; esac

    now=$(steps_reached "$folder")
    rank=$(lost_rank)
    say "lost ${rank:-a process that the launcher does not name}; exit code $launched, step $now of $folder"
    if [[ -n $asked || $(job_state) != RUNNING ]]; then break; fi
    find_lost_nodes
    if [[ -n $lost ]]; then
      say "a node was lost: $lost"
      rescue "$folder" "$live"
      alive=$live
      if [[ -n ${spares:-} && -n $live ]] && go_on "$folder"; then continue; fi
      put_back
      exit "$code"
    fi
    if ((now > reached)); then relaunches=0 reached=$now; fi
    if ((relaunches >= most_relaunches)); then
      say "launched $((relaunches + 1)) times without getting beyond step $reached: ends, because most_relaunches=$most_relaunches"
      break
    fi
    relaunches=$((relaunches + 1))
    say "launching the training again on the same nodes, $relaunches of at most $most_relaunches times without progress"
  done
  rescue "$folder"
  exit "$code"
}

# plan TEXT RUN DECK [key.path=value …]: what run_job would do. Ends the script.
plan() {
  local back='ends with it; the next job goes on (-W depend=afternotok:JOB)' node='flotilla rescue on this node, ends'
  if [[ -n ${SLURM_JOB_ID:-} ]]; then
    back="goes back into the queue, most_runs=$most_runs" node="flotilla rescue on the live nodes, goes back into the queue"
    if [[ -n ${spares:-} ]]; then node="flotilla rescue on the live nodes, launches again without them, spares=$spares (needs --no-kill)"; fi
  elif [[ -n ${LSB_JOBID:-} ]]; then
    back='goes back into the queue by -Q 75'
  fi
  srun() { printf ' %q' srun "$@"; }
  mpirun() { printf ' %q' mpirun "$@"; }
  sed -n 's/^#\(SBATCH\|PBS\|BSUB\) \([^#]*[^# ]\).*/resources     \2/p' "$0"
  cat << END
$1
command      $(launch "${@:3}")
run           $2
0, 2, 4, 65   ends with the exit code
75            $back
process lost  launched again on the same nodes, most_relaunches=$most_relaunches without progress
node lost     $node
DRY_RUN=1: nothing was started
END
  exit 0
}

command -v flotilla > /dev/null
