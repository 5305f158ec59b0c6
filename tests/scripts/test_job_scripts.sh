#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The job scripts without their queues: what they say where something is missing, and those for PBS and LSF with the variables,
# the answers and the signals that these give. Under a real Slurm: tests/hosts/test_slurm.sh. Arguments: source folder, folder of
# the executable. In the environment: MPIEXEC, mpirun.
set -euo pipefail
source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0

# expect <what> <expected> <found>
expect() {
  if [[ $2 != "$3" ]]; then
    printf 'FAILED: %s\n  expected: %s\n  found:    %s\n' "$1" "$2" "$3"
    failures=$((failures + 1))
  fi
}

# expect_part <what> <part> <text>
expect_part() { [[ $3 == *"$2"* ]] || expect "$1" "… $2 …" "$3"; }

# refused SCRIPT PART ARGUMENT…: the script ends with exit code 2, saying so, before it starts anything.
refused() {
  local script=$1 part=$2 code=0 said
  shift 2
  said=$(bash "$source/jobscripts/$script" "$@" 2>&1) || code=$?
  expect "$script: exit code" 2 "$code"
  expect_part "$script" "flotilla: $script: $part" "$said"
}

nothing_found() {
  local script
  for script in slurm_cpu slurm_gpu slurm_parameter_server scaling_study; do
    refused "$script.sbatch" 'which deck?'
    PATH=/usr/bin:/bin refused "$script.sbatch" 'no flotilla on PATH' deck.toml
  done
  PATH=/usr/bin:/bin refused slurm_array_sweep.sbatch 'no flotilla on PATH' train.steps "1 2" deck.toml
  for script in pbs_cpu.pbs lsf_cpu.lsf; do
    refused "$script" 'which deck?'
    ARGUMENTS=deck.toml PATH=/usr/bin:/bin refused "$script" 'no flotilla on PATH'
  done
}

# Every script asks for what a site may demand, and has lines for it.
lines_of_all() {
  local script
  for script in "$source"/jobscripts/*.{sbatch,pbs,lsf}; do
    for line in '^#module load flotilla' '^##\(SBATCH --account=\|PBS -A \|BSUB -P \)' 'mem=\|BSUB -M'; do
      expect "${script##*/}: $line" 1 "$(grep -c -m 1 "$line" "$script")"
    done
  done
}

# DRY_RUN=1 on a login node: the command, with what the script asks for, and what follows; nothing is started or written.
dry_runs() {
  local script said command
  mkdir dry
  cd dry
  for script in slurm_{cpu,gpu,parameter_server,array_sweep}.sbatch pbs_cpu.pbs lsf_cpu.lsf; do
    command=("$source/jobscripts/$script")
    case $script in
      slurm_array*) command+=(train.epochs "1 2") ;;
    esac
    said=$(DRY_RUN=1 ARGUMENTS="$source/inputs/mnist_mlp.toml" bash "${command[@]}" "$source/inputs/mnist_mlp.toml" 2>&1) ||
      expect "$script: a dry run's exit code" 0 $?
    expect_part "$script: the dry run's limit" "$([[ $script == lsf* ]] && echo '-W 60' || echo ':00:00')" "$said"
    expect_part "$script: the dry run's command" " flotilla train $source/inputs/mnist_mlp.toml " "$said"
    expect_part "$script: what follows" 'process lost  launched again on the same nodes, most_relaunches=3' "$said"
  done
  said=$(DRY_RUN=1 bash "$source/jobscripts/slurm_cpu.sbatch" "$source/inputs/mnist_mlp.toml" run.output=/a 'run.output=$HOME/b')
  expect_part 'the run that is looked at' "run           $HOME/b, step 0 reached" "$said"
  expect_part 'where the deck names it' 'run           runs/mnist, step 0 reached' \
    "$(DRY_RUN=1 bash "$source/jobscripts/slurm_cpu.sbatch" "$source/inputs/mnist_mlp.toml")"
  said=$(DRY_RUN=1 bash "$source/jobscripts/scaling_study.sbatch" "$source/inputs/resnet50_synthetic.toml")
  # Nodes and what is set of the batch, in the first launch; then by a deck that gives the global batch.
  expect 'a dry run of the study' '1, 1 train.accumulate_steps=6, 2, 2 train.accumulate_steps=3, 3, 3 train.accumulate_steps=2' \
    "$(steps_of_study <<< "$said")"
  expect 'its launches' 30 "$(grep -c ' bench step ' <<< "$said")"
  said=$(DRY_RUN=1 bash "$source/jobscripts/scaling_study.sbatch" "$source/inputs/cnn_mnist.toml" train.global_batch_size=32)
  expect_part 'the global batch of a study' ', 2 train.global_batch_size=64, 2 train.accumulate_steps=3 train.global_batch_size=192' \
    "$(steps_of_study <<< "$said")"
  expect 'files that dry runs have written' '' "$(ls)"
  cd ..
}

# steps_of_study: of what a dry run says, the nodes and the batch of each step in the first launch.
steps_of_study() {
  sed -n 's/.*--nodes=\([0-9]*\) .* bench step .* device.threads=[0-9]* \(.*\)--steps .*/\1 \2/p' | head -n 6 | sed 's/ $//' | paste -sd , | sed 's/,/, /g'
}

# fake NAME: a command of the queue, from standard input.
fake() {
  { echo '#!/usr/bin/env bash' && cat; } > "bin/$1"
  chmod +x "bin/$1"
}

mkdir bin
ln -s /bin/true bin/blaunch # Open MPI looks for it, and needs it for other nodes only
# All ranks on this machine, whatever its cores.
fake mpirun <<END
echo "\$*" >> "$work/called"
while [[ \$1 != flotilla ]]; do shift; done
exec "$MPIEXEC" --oversubscribe -n 2 "\$@" \${SHORTER:-}
END
export PATH=$work/bin:$build:$PATH
# Two ranks on one node, which need 3 s for it.
arguments="$source/inputs/mnist_mlp.toml model.widths=[8] train.steps=20 run.log_every=1 run.emulate_straggler.rank=0 \
run.emulate_straggler.pause_s=0.15"
hostname > one
cat one one > nodes

reasons() { sed -n 's/.*"event":"end".*"reason":"\([^"]*\)".*/\1/p' "$1/metrics.jsonl" | paste -sd ' '; }

# The limit, a minute of which is kept free, leaves less than the 3 s that the training takes; the next job has an hour.
pbs() {
  local code limit
  for limit in 00:01:03 01:00:00; do
    fake qstat <<< "printf 'Job Id: %s\n    Resource_List.select = 1\n    Resource_List.walltime = $limit\n' \"\$2\""
    code=0
    ARGUMENTS="$arguments run.output=pbs" PBS_JOBID=7.server PBS_O_WORKDIR=$work PBS_NODEFILE=nodes \
      bash "$source/jobscripts/pbs_cpu.pbs" >> pbs.out 2>&1 || code=$?
    expect "PBS: exit code with a limit of $limit" "$([[ $limit == 01* ]] && echo 0 || echo 75)" "$code"
  done
  expect 'PBS: stopped in time, then done' 'time limit done' "$(reasons pbs)"
  expect_part 'PBS: how mpirun is called' '--hostfile nodes -n 2 --map-by ppr:2:node:PE=2 -x PATH' "$(head -n 1 called)"
  expect_part 'PBS: threads' ' device.threads=2 run.time_limit_s=' "$(head -n 1 called)"
}

# LSF warns all processes of the job, and puts it back because of exit code 75.
lsf() {
  local code job
  : > called
  for run in 1 2; do
    code=0
    ARGUMENTS="$arguments run.output=lsf" LSB_JOBID=8 LSB_DJOB_HOSTFILE=nodes \
      setsid bash "$source/jobscripts/lsf_cpu.lsf" >> lsf.out 2>&1 &
    job=$!
    if ((run == 1)); then
      until grep -q '"event":"step"' lsf/metrics.jsonl 2> /dev/null || ! kill -0 "$job" 2> /dev/null; do sleep 0.1; done
      kill -USR1 -- "-$job" || true
    fi
    wait "$job" || code=$?
    expect "LSF: exit code of run $run" "$((run == 1 ? 75 : 0))" "$code"
  done
  expect 'LSF: stopped when warned, then done' 'stopped done' "$(reasons lsf)"
  expect_part 'LSF: how mpirun is called' '--hostfile nodes -n 2 --map-by ppr:2:node:PE=2 -x PATH' "$(head -n 1 called)"
}

# event NAME: the line of metrics.jsonl; of an end by its reason.
event() {
  case $1 in
    none) ;;
    start) echo '{"event":"start","time":1}' ;;
    *) echo "{\"event\":\"end\",\"time\":2,\"reason\":\"${1//_/ }\",\"step\":3}" ;;
  esac
}

# Launchers end with 0 in runs that have lost a node, and with 137 though all was saved: the run's own end counts.
judges_by_the_end() {
  local code before after expected
  # shellcheck source=jobscripts/flotilla_job.sh
  . flotilla_job.sh
  while read -r code before after expected; do
    expect "launcher $code, last event $after after $before" "$expected" "$(final_code "$code" "$(event "$before")" "$(event "$after")")"
  done << 'END'
0 start start 1
0 none start 1
0 stopped stopped 1
0 start done 0
0 start target_reached 0
0 none none 0
0 start stopped 75
137 start stopped 75
137 start time_limit 75
137 start diverged 2
137 start done 0
137 stopped stopped 137
137 none start 137
3 start start 3
75 start start 75
2 start done 2
END
}

# The words of Slurm, Open MPI 4 and 5, and of ranks that end as they should or by themselves.
names_the_lost_rank() {
  # shellcheck source=jobscripts/flotilla_job.sh
  . flotilla_job.sh
  named() { cat > "$words" && expect "the lost rank" "$1" "$(lost_rank)"; }
  named 'rank 3 on h1: Killed' <<< $'srun: error: h0: tasks 0-1: Exited with exit code 75\nsrun: error: h1: task 3: Killed\nsrun: error: h1: task 2: Killed'
  named 'ranks 0,4-5 on h0: Out Of Memory' <<< 'srun: error: h0: tasks 0,4-5: Out Of Memory'
  named 'rank 0 on h0: Exited with exit code 3' <<< 'srun: error: h0: task 0: Exited with exit code 3'
  named 'rank 1 on a.b: signal 9 (Killed)' <<< 'mpirun noticed that process rank 1 with PID 7 on node a.b exited on signal 9 (Killed).'
  named 'rank 1 on a.b: signal 11 (Segmentation fault)' <<< \
    $'prterun noticed that process rank 1 with PID 7 on node a.b exited on\nsignal 11 (Segmentation fault).'
  named '' <<< 'flotilla: rank 0 on node1, step 219: rank 1 on node7 does not answer'
}

# A rank is killed: launched again in the same job. A mistake of the user's is not.
lost_rank() {
  local said code=0
  : > called
  fake flotilla << END
if [[ \$1 == train && \${OMPI_COMM_WORLD_RANK:-} == 1 && ! -e $work/killed ]]; then
  touch $work/killed
  (until grep -q '"step":5,' $work/again/metrics.jsonl; do sleep 0.1; done; kill -9 \$\$) 2> /dev/null &
fi
exec "$build/flotilla" "\$@"
END
  said=$(ARGUMENTS="$arguments run.output=again checkpoint.every=4" LSB_JOBID=9 LSB_DJOB_HOSTFILE=nodes \
    bash "$source/jobscripts/lsf_cpu.lsf" 2>&1) || code=$?
  rm bin/flotilla
  expect 'a killed rank: exit code' 0 "$code"
  expect 'a killed rank: launches' 2 "$(wc -l < called)"
  expect_part 'a killed rank: which' "flotilla: job 9: lost rank 1 on $(hostname): signal 9 (Killed); exit code 137, step " "$said"
  expect_part 'a killed rank: what follows' 'launching the training again on the same nodes, 1 of at most 3 times' "$said"
  expect 'a killed rank: it ends' 'done' "$(reasons again)"
  : > called
  code=0
  said=$(ARGUMENTS="$arguments run.output=mistaken train.steps=-1" PBS_JOBID=9 PBS_O_WORKDIR=$work PBS_NODEFILE=nodes \
    bash "$source/jobscripts/pbs_cpu.pbs" 2>&1) || code=$?
  expect 'a mistake: exit code and launches' '2 1' "$code $(wc -l < called)"
}

# A job whose node was lost, or that its queue ends, launches nothing again.
leaves_the_job() {
  local job code=0 said
  mkdir launchers
  # One that has lost a node, then one that the queue's signal ends.
  cat > launchers/mpirun << END
#!/usr/bin/env bash
trap 'exit 1' TERM
echo >> "$work/called"
if [[ -e $work/running ]]; then sleep 1000 & wait; fi
echo 'ORTE has lost communication with a remote daemon.' >&2
exit 205
END
  chmod +x launchers/mpirun
  : > called
  said=$(PATH=$work/launchers:$PATH ARGUMENTS="$arguments run.output=left" LSB_JOBID=9 LSB_DJOB_HOSTFILE=nodes \
    bash "$source/jobscripts/lsf_cpu.lsf" 2>&1) || code=$?
  expect 'a lost node: exit code and launches' '205 1' "$code $(wc -l < called)"
  expect_part 'a lost node: the line' 'flotilla: job 9: a node was lost: lost communication with a remote daemon' "$said"
  touch running
  : > called
  code=0
  PATH=$work/launchers:$PATH ARGUMENTS="$arguments run.output=left" PBS_JOBID=9 PBS_O_WORKDIR=$work PBS_NODEFILE=nodes \
    setsid bash "$source/jobscripts/pbs_cpu.pbs" > ended.out 2>&1 &
  job=$!
  until [[ -s called ]] || ! kill -0 "$job" 2> /dev/null; do sleep 0.1; done
  kill -TERM -- "-$job"
  wait "$job" || code=$?
  expect 'a job that is ended: exit code and launches' '1 1' "$code $(wc -l < called)"
}

# Slurm takes a job back because of a lost node: the ranks, which hang, are killed, and the state is saved within KillWait.
saves_within_kill_wait() {
  local job code=0
  mkdir slurm
  cat > slurm/flotilla << END
#!/bin/bash
# This way its process is called flotilla.
case \$1 in
  --help) printf 'Subcommands:\n  rescue  Save\n' ;;
  rescue) echo "\$2" > "$work/rescued" ;;
  *) trap '' TERM; echo \$\$ > "$work/training"; while :; do sleep 0.1; done ;;
esac
END
  cat > slurm/srun << 'END'
#!/usr/bin/env bash
trap '' TERM
while [[ $1 != flotilla ]]; do shift; done
"$@" &
echo 'srun: error: Node failure on h2' >&2
wait
END
  chmod +x slurm/*
  PATH=$work/slurm:$PATH SLURM_JOB_ID=10 SLURM_JOB_NODELIST='h[1-2]' SLURM_CPUS_ON_NODE=2 \
    setsid bash "$source/jobscripts/slurm_cpu.sbatch" "$source/inputs/mnist_mlp.toml" run.output=held > held.out 2>&1 &
  job=$!
  until [[ -s training ]] || ! kill -0 "$job" 2> /dev/null; do sleep 0.1; done
  kill -TERM -- "-$job"
  wait "$job" || code=$?
  expect 'a job that lost a node: exit code, the run that is saved' '1 held' "$code $(cat rescued)"
  for _ in {1..100}; do
    if kill -0 "$(cat training)" 2> /dev/null; then sleep 0.1; fi
  done
  if kill -9 "$(cat training)" 2> /dev/null; then expect 'the rank' killed 'still there'; fi
}

# The commands of docs/cluster.md, as a user types them: qsub and bsub run the script at once.
page() {
  local queue commands
  # shellcheck source=tests/scripts/commands_of.sh
  . "$source/tests/scripts/commands_of.sh"
  commands=$(commands_of "$source/docs/cluster.md" '### PBS and LSF')
  expect 'the page: commands' '2 qsub 1 bsub' "$(grep -c qsub <<< "$commands") qsub $(grep -c bsub <<< "$commands") bsub"
  fake qsub << 'END'
while (($# > 1)); do
  case $1 in
    -v) export "$2" ;;
    -W) [[ $2 == depend=afternotok:7.server ]] && echo 8.server && exit ;; # job 7 has ended well
    *) exit 1 ;;
  esac
  shift 2
done
PBS_JOBID=7.server PBS_O_WORKDIR=$PWD PBS_NODEFILE=nodes bash "$1" > job.out 2>&1 || exit
echo 7.server
END
  fake bsub << 'END'
[[ $1 == -W ]] || exit 1
cat > spooled
LSB_JOBID=8 LSB_DJOB_HOSTFILE=nodes bash spooled > job.out 2>&1
END
  for queue in qsub bsub; do
    mkdir "page_$queue"
    ln -s "$source"/{inputs,jobscripts} "$work/nodes" "page_$queue"
    (cd "page_$queue" && SHORTER=train.steps=4 bash -euo pipefail -c "$(grep "$queue" <<< "$commands")" > said 2>&1) ||
      expect "the page: $queue" 'exit code 0' "$(cat "page_$queue"/{said,job.out})"
    expect_part "the page: $queue" 'done after step 4 ' "$(cat "page_$queue/job.out")"
  done
  expect 'the page: the job after the first one' 8.server "$(cat page_qsub/said)"
}

nothing_found
lines_of_all
dry_runs
pbs
lsf
(judges_by_the_end && names_the_lost_rank; exit "$failures") || failures=$((failures + 1))
lost_rank
leaves_the_job
saves_within_kill_wait
page
if ((failures > 0)); then
  tail -n 40 pbs.out lsf.out
  echo "$failures failed"
  exit 1
fi
echo "all passed"
