#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The job scripts under a real Slurm (slurm.sh) on three hosts: jobs that are preempted, warned, put back while they save and
# lose a host must go on by themselves and end as an undisturbed run does, each sample taken once and in its order.
#   tests/hosts/test_slurm.sh build/cpu [barrier preemption warnings saving array servers scaling no_environment no_start lost_rank rescue node_failure spare …]
set -euo pipefail
# shellcheck source=tests/hosts/needs.sh
. "$(dirname "$(readlink -f "$0")")/needs.sh"
begin slurm "$@"
shift

steps=60
# A small network whose steps take long enough to be disturbed in their middle.
common=("$source/inputs/mnist_mlp.toml" "model.widths=[32]" train.global_batch_size=48 "train.steps=$steps" run.log_every=1
  run.emulate_straggler.rank=0 run.emulate_straggler.pause_s=0.15)

# submit [option …] SCRIPT ARGUMENTS…: prints the job's number. Its output: NUMBER.out
submit() { "$slurm" run sbatch --parsable --output=%j.out "$@"; }
slurm_cpu() { submit "${@:2}" "$source/jobscripts/slurm_cpu.sbatch" "${common[@]}" "run.output=$work/$1" "${more[@]}"; }
more=()

# in_place_of COMMAND FOLDER: makes a script of that name in FOLDER, to be put before PATH, of the commands on standard input.
in_place_of() {
  mkdir -p "$2"
  { echo "#!/bin/sh" && cat; } > "$2/$1"
  chmod +x "$2/$1"
}

# says JOB TEXT: whether its script has said so.
says() { grep -qF "flotilla: job $1: $2" "$1.out" || fail "job $1 does not say: $2"; }

losses() { sed -n 's/.*"event":"step".*"step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }

# as_undisturbed FOLDER: every step once, with the loss of the undisturbed run to rounding (so the same samples), and the
# same validation.
as_undisturbed() {
  [ "$(losses "$1" | wc -l)" = "$steps" ] || fail "$1 has $(losses "$1" | wc -l) steps, not $steps"
  # The bound is for 64 samples and some ten steps of Adam; see tests/support/within.hpp for the shares.
  paste -d ' ' <(losses "$work/whole") <(losses "$1") | awk -v shares="${FLOTILLA_BOUND_SHARES:-/dev/null}" '
    function size(x) { return x < 0 ? -x : x }
    { share = size($2 - $4) / (1e-3 * (1 + size($2))); if (share > most) most = share }
    $1 != $3 || share > 1 { print "step " $3 ": loss " $4 ", undisturbed " $2; bad = 1 }
    END { print "tests/hosts/test_slurm.sh:as_undisturbed " most + 0 >> shares; exit bad }' || fail "$1 has other losses"
  awk -v a="$(has "$1" validation accuracy_top1 | awk '{ print $NF }')" -v b="$(has "$work/whole" validation accuracy_top1)" '
    BEGIN { exit a - b > 0.002 || b - a > 0.002 }' || fail "$1 has another accuracy"
  "$build/flotilla" inspect "$1" > /dev/null || fail "the last checkpoint of $1 is damaged"
  if find "$1/checkpoints" -type f ! -name 'step-*.h5' | grep .; then fail "$1 has files left over"; fi
}

# From 24.05 on Slurm runs a job that was preempted and put back by its script once more after it is done (docs/cluster.md).
once='^stopped done( done)?$'

preemption() {
  local job high
  job=$(slurm_cpu preempted --nodes=2-3)
  follow "$job" preempted 10
  high=$(submit --partition=high --nodes=1 --exclusive --wrap "sleep 1000")
  follow "$job"
  "$slurm" run scancel "$high"
  as_undisturbed "$work/preempted"
  [[ $(has preempted start workers) =~ ^"6 4"( 4)?$ ]] || fail "workers: $(has preempted start workers)"
  [[ $(has preempted end reason) =~ $once ]] || fail "ended: $(has preempted end reason)"
}

# MPI's barriers at the begin and end of a job span its nodes: ranks on h0 wait for those on h1.
barrier() {
  local job
  in_place_of flotilla late << END
exec "$build/tests/support/late_finalize" h1
END
  job=$(PATH=$work/late:$PATH slurm_cpu barrier --nodes=2)
  follow "$job"
  awk '/^h0: .* in MPI_Finalize/ { ranks++; if ($2 < 1000) early++ } END { exit ranks != 2 || early }' "$job.out" ||
    fail "ranks on h0 did not wait for those on h1"
}

# warnings: signals the job as --signal=USR1@60 does, three times.
warnings() {
  local job i
  job=$(slurm_cpu warned --nodes=2)
  for i in 1 2 3; do
    follow "$job" warned $((15 * i))
    "$slurm" run scancel --signal=USR1 "$job"
    until [ "$(has warned end reason | wc -w)" = "$i" ]; do sleep 0.1; done
  done
  follow "$job"
  as_undisturbed "$work/warned"
  [ "$(has warned end reason)" = "stopped stopped stopped done" ] || fail "ended: $(has warned end reason)"
}

# An administrator's requeue, while a checkpoint is being written; on a busy machine a whole run may pass without being seen
# to save.
saving() {
  local job try
  for try in 1 2 3 4 5; do
    more=(checkpoint.every=1)
    job=$(slurm_cpu "saving$try" --nodes=2)
    more=()
    follow "$job" "saving$try" 5
    until [ -n "$(has "saving$try" end reason)" ]; do
      [[ -n $(find "saving$try/checkpoints" -type f ! -name 'step-*.h5' 2> /dev/null) ]] || continue
      "$slurm" run scontrol requeue "$job"
      follow "$job"
      as_undisturbed "$work/saving$try"
      [[ $(has "saving$try" end reason) =~ $once ]] || fail "ended: $(has "saving$try" end reason)"
      return
    done
  done
  fail "no run was seen to save"
}

array() {
  local job rate
  job=$(submit --array=0-1 --job-name=rates "$source/jobscripts/slurm_array_sweep.sbatch" schedule.learning_rate "0.001 0.01" \
    "${common[@]}" train.steps=10)
  follow "${job}_0"
  follow "${job}_1"
  for rate in 0.001 0.01; do
    [ "$(has "runs/rates/schedule.learning_rate=$rate" end reason)" = "done" ] || fail "no run with rate $rate"
    grep -q "^learning_rate = $rate " "runs/rates/schedule.learning_rate=$rate/deck.toml" ||
      grep -q "^learning_rate = $rate\$" "runs/rates/schedule.learning_rate=$rate/deck.toml" || fail "not with rate $rate"
  done
}

servers() {
  local job
  job=$(submit --nodes=2 "$source/jobscripts/slurm_parameter_server.sbatch" "${common[@]}" "run.output=$work/servers")
  follow "$job" servers 10
  "$slurm" run scancel --signal=USR1 "$job"
  follow "$job"
  as_undisturbed "$work/servers"
  [ "$(has servers start workers)" = "2 2" ] || fail "workers: $(has servers start workers)"
}

# scaling: a study of three nodes; then one in which a node takes other samples than the others do.
scaling() {
  local job study
  sed 's/^launches=5 /launches=2 /; s/^steps=100 /steps=30 /; s/^input_s=3 /input_s=0.5 /' "$source/jobscripts/scaling_study.sbatch" > study.sbatch
  job=$(submit --nodes=3 study.sbatch "${common[0]}" "model.widths=[32]")
  follow "$job"
  study=scaling/$job
  [ "$(wc -l < "$study/scaling.csv")" = 13 ] || fail "not 2 launches of 6 steps: $(cat "$study/scaling.csv")"
  awk '$1 ~ /weak|strong/ && $2 ~ /^[123]$/ && NF == 12 && $5 <= $4 && $4 <= $6 && $12 ~ /^h[012]$/ { rows++ } END { exit rows != 6 }' \
    "$study/table" || fail "no table: $(cat "$study/table")"
  grep -q '^valid: yes (losses' "$job.out" || fail "not valid"
  grep -q '<svg.*</svg>' <(tr -d '\n' < "$study/scaling.html") || fail "no page"
  in_place_of flotilla other_seed << END
case "\$SLURM_JOB_NUM_NODES,\$SLURM_NNODES \$*" in
  *"2 bench step"*) exec "$build/flotilla" "\$@" run.seed=2 ;;
esac
exec "$build/flotilla" "\$@"
END
  sed -i 's/^launches=2 /launches=1 /' study.sbatch
  job=$(PATH=$work/other_seed:$PATH submit --nodes=2 study.sbatch "${common[0]}" "model.widths=[32]")
  follow "$job"
  grep -q '^valid: no: the loss of the same global batch is .* on 2 nodes and .* on 1 ' "$job.out" || fail "said to be valid"
}

# no_environment: a job at a site whose jobs get no environment. The line with module load, which here sets the shell's variables,
# must take effect for the ranks on all nodes too; the line that stages data is in use.
no_environment() {
  local job
  { declare -px PATH OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM && echo "export TMPDIR=$work"; } > load
  sed "s|^#module load .*|. $work/load|; s|^#stage_to=|stage_to=|" "$source/jobscripts/slurm_cpu.sbatch" > bare.sbatch
  job=$(submit --export=NONE --nodes=2 bare.sbatch "${common[@]}" train.steps=5 "run.output=$work/bare")
  follow "$job"
  [ "$(has bare end reason)" = "done" ] || fail "ended: $(has bare end reason)"
  compgen -G "$work/data/flotilla-*" > /dev/null || fail "nothing was staged"
}

# A node on which the program does not start, listed after nodes on which it does: srun waits for these no longer than SLURM_WAIT.
no_start() {
  local job state
  in_place_of flotilla broken << END
[ "\$SLURMD_NODENAME" = h1 ] && exit 127
exec "$build/flotilla" "\$@"
END
  job=$(SLURM_WAIT=3 PATH=$work/broken:$PATH slurm_cpu no_start --nodes=2)
  state=$("$slurm" wait "$job" FAILED COMPLETED TIMEOUT)
  [[ $state == FAILED ]] || fail "job $job is $state"
  grep -q "Exited with exit code 127" "$job.out" || fail "it does not say which rank ended"
  [ ! -e no_start ] || fail "a run began"
}

# A rank is killed, and srun even ends with 0: the training is launched again in the same job, without the queue.
lost_rank() {
  local job
  in_place_of srun zero << END
"$(command -v srun)" "\$@" || true
END
  more=(checkpoint.every=5 train.steps=20)
  job=$(SLURM_WAIT=3 PATH=$work/zero:$PATH slurm_cpu killed --nodes=2)
  more=()
  follow "$job" killed 10
  "$hosts" exec h1 pkill -9 --newest -x flotilla
  follow "$job"
  grep -qE "^flotilla: job $job: lost ranks? [23][-23]* on h1: Killed; exit code 0, step [0-9]+ of $work/killed\$" "$job.out" ||
    fail "it does not say which rank was lost"
  says "$job" "launching the training again on the same nodes, 1 of at most 3 times without progress"
  [ "$(grep -c "^flotilla: job $job, run" "$job.out")" = 1 ] || fail "it was put back"
  [ "$(has killed end reason)" = "done" ] || fail "ended: $(has killed end reason)"
  [ "$(losses killed | wc -l)" = 20 ] || fail "it has $(losses killed | wc -l) steps"
  awk '{ exit !($2 >= 5) }' <<< "$(has killed start first_step)" || fail "began at $(has killed start first_step)"
}

# A process that is killed at each start, and a mistake of the user's, end the job.
no_progress() {
  local job
  in_place_of flotilla killed_at_start << END
[ "\$1" = train ] && kill -9 \$\$
exec "$build/flotilla" "\$@"
END
  job=$(PATH=$work/killed_at_start:$PATH slurm_cpu no_progress --nodes=2)
  [[ $("$slurm" wait "$job" FAILED COMPLETED) == FAILED ]] || fail "job $job has not failed"
  says "$job" "launched 4 times without getting beyond step 0: ends, because most_relaunches=3"
  [ "$(grep -c ": lost ranks 0-1 on h[01]: Killed; exit code 137, step 0 of \|: lost ranks 2-3" "$job.out")" = 4 ] || fail "it was not launched 4 times"
  more=(train.steps=-1)
  job=$(slurm_cpu mistake --nodes=1)
  more=()
  [[ $("$slurm" wait "$job" FAILED COMPLETED) == FAILED ]] || fail "job $job has not failed"
  grep -q '^flotilla: .*train.steps' "$job.out" || fail "the mistake is not named"
  if grep -q 'launching' "$job.out"; then fail "a mistake is launched again"; fi
}

# down_after SECONDS: when Slurm notices that a host is gone.
down_after() {
  sed -i "s/^SlurmdTimeout=.*/SlurmdTimeout=$1/" "$SLURM_CONF"
  "$slurm" run scontrol reconfigure
}

# A host is gone, which Slurm would notice after minutes, and so is the run on the others: these save what they hold, and the job
# goes back into the queue.
rescue() {
  local job
  more=(checkpoint.every=0 checkpoint.every_s=0 train.steps=40)
  job=$(SLURM_WAIT=3 slurm_cpu saved --nodes=2-3)
  more=()
  down_after 300
  follow "$job" saved 20
  "$hosts" crash h2
  "$hosts" exec h1 pkill -9 --newest -x flotilla
  until [[ $("$slurm" run squeue -h -j "$job" -o %T) != RUNNING ]]; do sleep 0.1; done
  says "$job" "a node was lost: h2"
  grep -qE "^the state of step [0-9]+ in the memory of h[01] was saved as " "$job.out" || fail "no state was saved"
  "$slurm" run scontrol update nodename=h2 state=down reason=lost
  follow "$job"
  down_after 5
  [ "$(has saved start workers)" = "6 4" ] || fail "workers: $(has saved start workers)"
  awk '{ exit !($2 > 0) }' <<< "$(has saved start first_step)" || fail "began at $(has saved start first_step)"
  [ "$(losses saved | wc -l)" = 40 ] || fail "it has $(losses saved | wc -l) steps"
}

# A job with --no-kill and a node in reserve loses one and goes on in the same job with the global batch that it had. Then it loses
# its first node, and its script with it: the guard on another puts the job back.
spare() {
  local job
  "$slurm" down
  rm -f [0-9]*.out # jobs are numbered from 1 again
  "$slurm" up 4
  sed 's|^spares=|spares=1|' "$source/jobscripts/slurm_cpu.sbatch" > spare.sbatch
  job=$(submit --no-kill --nodes=2-4 spare.sbatch "${common[@]}" checkpoint.every=5 "run.output=$work/spared")
  follow "$job" spared 10
  "$hosts" crash h1
  follow "$job" spared 30
  says "$job" "a node was lost: h1"
  says "$job" "going on with a global batch of 48 on h0,h2,h3"
  [ "$(grep -c "^flotilla: job $job, run" "$job.out")" = 1 ] || fail "it was put back"
  "$hosts" crash h0
  follow "$job"
  as_undisturbed "$work/spared"
  [ "$(has spared start workers)" = "6 6 2" ] || fail "workers: $(has spared start workers)"
}

# A host is gone at once, and the job's script with it; Slurm notices after SlurmdTimeout.
node_failure() {
  local job
  more=(checkpoint.every=5)
  job=$(slurm_cpu lost --nodes=1-2)
  more=()
  follow "$job" lost 20
  "$hosts" crash h0
  follow "$job"
  as_undisturbed "$work/lost"
  [ "$(has lost start workers)" = "4 2" ] || fail "workers: $(has lost start workers)"
}

mpirun -n 1 flotilla train "${common[@]}" "run.output=$work/whole" run.emulate_straggler.pause_s=1e-6 > whole.out
"$slurm" up 3
cases=("$@")
[ $# -gt 0 ] || cases=(barrier preemption warnings saving array servers no_environment no_start lost_rank no_progress rescue node_failure spare)
for case in "${cases[@]}"; do
  began=$SECONDS
  "$case"
  echo "== $case: $((SECONDS - began)) s"
done
echo "all passed"
