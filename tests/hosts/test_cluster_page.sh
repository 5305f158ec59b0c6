#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of docs/cluster.md under a real Slurm (slurm.sh), in their order, as a user types them; those for PBS and LSF are in
# tests/scripts/test_job_scripts.sh.
#   tests/hosts/test_cluster_page.sh build/cpu
set -euo pipefail
# shellcheck source=tests/hosts/needs.sh
. "$(dirname "$(readlink -f "$0")")/needs.sh"
begin slurm "$@"
# shellcheck source=tests/scripts/commands_of.sh
. "$source/tests/scripts/commands_of.sh"
page=$source/docs/cluster.md
cp -r "$source/inputs" .
ln -s "$source"/{jobscripts,tests} .

# Trainings and measurements are cut down where they would take long; the arguments that a user types stay.
mkdir bin
cat > bin/flotilla << END
#!/usr/bin/env bash
slow=(train.steps=40 run.log_every=1 run.emulate_straggler.rank=0 run.emulate_straggler.pause_s=0.15)
case "\$*" in
  *--check* | --version) less=() ;;
  'train '*' run.output=runs/'*) less=("\${slow[@]}") ;;
  'train '*) less=(train.steps=5) ;;
  *) less=() ;;
esac
case "\$*" in
  make-data*) set -- "\${@/%0000/00}" ;; # rows
  'bench all-reduce'*) set -- "\${@/#16M/4K}" ;;
  'bench input'*) set -- "\${@/#3/0.1}" ;; # seconds
  'bench step'*) set -- "\${@/#100/5}" ;; # steps
esac
exec "$build/flotilla" "\$@" "\${less[@]}"
END
chmod +x bin/flotilla
export PATH=$work/bin:$PATH

commands=0
first=  # the first job of a section, of which flotilla-1.out speaks
jobs=() # that are to be done at its end

# run COMMAND [CODE]: where jobs are submitted. It must end with the code; sets said, and job where it submits one.
run() {
  local code=0
  commands=$((commands + 1))
  said=$("$slurm" run bash -c "${1//flotilla-1.out/flotilla-$first.out}" 2>&1) || code=$?
  [ "$code" = "${2:-0}" ] || fail "$1: exit code $code: $said"
  [[ ! $said =~ ^"Submitted batch job "([0-9]+) ]] || job=${BASH_REMATCH[1]}
}

# submit COMMAND: a job that is to be done at the end of the section.
submit() {
  run "$1"
  [[ $said == "Submitted batch job "* ]] || fail "$1: $said"
  jobs+=("$job")
  [ -n "$first" ] || first=$job
}

# stopped RUN TIMES: until the run has stopped so often.
stopped() {
  local began=$SECONDS
  until [ "$(has "$1" end reason | grep -o stopped | wc -l)" = "$2" ]; do
    ((SECONDS - began < 200)) || fail "$1 has not stopped: $(has "$1" end reason)"
    sleep 0.1
  done
}

# done_all: all jobs of the section have ended well, and none had nothing to do.
done_all() {
  local each
  for each in "${jobs[@]}"; do follow "$each"; done
  ! grep -H '^nothing left' ./*.out || fail "a job trained nothing"
  first=
  jobs=()
}

# section HEADING HANDLER: the handler gets each command in that section.
section() {
  local command
  commands_of "$page" "$1" > list
  [ -s list ] || fail "no commands below $1"
  while IFS= read -r command <&3; do "$2" "$command"; done 3< list
  echo "== $1"
}

job_scripts() {
  case $1 in
    'module load flotilla') ;; # tests/install/test_module.sh
    'tail -f '*)
      follow "$first" runs/mnist 5
      run "timeout 1 $1" 124
      ;;
    sbatch*) submit "$1" ;;
    *) run "$1" ;;
  esac
}

preempted() {
  case $1 in
    *--partition=high*)
      follow "$first" runs/show1 5
      run "$1"
      stopped runs/show1 1
      ;;
    cat*)
      follow "$first" runs/show1 25
      "$slurm" run scancel "$job"
      follow "$first"
      run "$1"
      # This is usually h[1-2]: the other job takes the host that is free first.
      [[ $said == *'run 2, on h['???']: 2 ranks a node'* && $said == *'done after step 40 '* ]] || fail "$1: $said"
      ;;
    sbatch*) submit "$1" ;;
    *) run "$1" ;;
  esac
}

# The commands of the page's text, on the job that its example submits.
before_the_limit() {
  case $1 in
    sbatch*)
      submit "$1"
      follow "$first" runs/show2 5
      inline 'scancel --signal=USR1 JOB'
      stopped runs/show2 1
      until [[ $("$slurm" run squeue -h -j "$first" -o %T) == PENDING ]]; do sleep 0.1; done
      inline 'scontrol update JobId=N NumTasks=4'
      sleep 3 # as in follow
      inline 'scontrol update JobId=N StartTime=now'
      follow "$first" runs/show2 20
      inline 'scontrol requeue JOB'
      follow "$first"
      ;;
    *)
      run "$1"
      [[ $said == *'done after step 40 '* ]] || fail "$1: $said"
      ;;
  esac
}

# inline COMMAND [AS]: one that the page has in a line of text, on the job; AS is what is run in its place.
inline() {
  local command=${2:-$1}
  grep -qF -- "\`$1\`" "$page" || fail "docs/cluster.md does not say $1"
  command=${command/%JOB/$first}
  run "${command/JobId=N/JobId=$first}"
  grep -vxF -- "$1" unseen > left || true
  mv left unseen
}

sweeps() {
  # Three hosts are there. An all-reduce over them takes half a minute for each size (test_slurm.sh scaling).
  case $1 in
    *scaling_study*) submit "${1/--nodes=4/--nodes=1}" ;;
    sbatch*) submit "${1/--nodes=4/--nodes=3}" ;;
    *) run "$1" ;;
  esac
}

developers() {
  case $1 in
    *' crash h2') stopped runs/hosts 1 ;;
  esac
  commands=$((commands + 1))
  bash -c "$1" > said 2>&1 || fail "$1: $(cat said)"
  case $1 in
    *slurm_cpu.sbatch*) follow "$(awk '{ print $4 }' said)" runs/hosts 5 ;;
  esac
}
up() { [[ $1 != *' up 3' ]] || developers "$1"; }
not_up() { [[ $1 == *' up 3' ]] || developers "$1"; }

# Commands in lines of text, but for those that are named elsewhere: with what stands for "…", and those of other tests.
# shellcheck disable=SC2016 # these backticks are the page's
sed '/^```/,/^```/d' "$page" | grep -oE '`(export|flotilla|sbatch|scancel|scontrol|setsid|srun|SLURM_[A-Z_]*=[a-z_0-9]* sbatch) [^`]*`' |
  tr -d '`' | sort -u | grep -vxE 'flotilla (rescue|train)|scontrol requeue|sbatch --signal=USR1@60|srun --mpi' > unseen

emulated='## For developers: several hosts and Slurm on one machine'
section "$emulated" up
section '## Job scripts' job_scripts
done_all
section '## Stopping and going on' preempted
done_all
section '### Before the time limit' before_the_limit
done_all
inline 'flotilla --version'
[[ $said == *'Open MPI '* ]] || fail "flotilla --version: $said"
inline 'srun --mpi=list'
pmix=$(grep -o -m 1 'pmix_v[0-9]*' <<< "$said") || fail "srun --mpi=list: $said"
inline 'SLURM_MPI_TYPE=pmix_v4 sbatch …' \
  "SLURM_MPI_TYPE=$pmix sbatch --nodes=2 jobscripts/slurm_cpu.sbatch inputs/mnist_mlp.toml run.output=chosen"
jobs+=("$job")
inline 'export SLURM_PMIX_FENCE=ring' \
  'export SLURM_PMIX_FENCE=ring; srun --nodes=2 --ntasks=2 flotilla train inputs/mnist_mlp.toml run.output=fence'
[[ $said == *'done after step 5 '* ]] || fail "srun with SLURM_PMIX_FENCE=ring: $said"
inline 'setsid mpirun … < /dev/null > log 2>&1 &' \
  'setsid mpirun -n 1 flotilla train inputs/mnist_mlp.toml run.output=detached < /dev/null > log 2>&1 &'
section '## Sweeps, servers, benchmarks' sweeps
done_all
grep -q 'done after step 5 ' log || fail "mpirun in a session of its own: $(cat log)"
section "$emulated" not_up
trap 'rm -rf "$work"' EXIT # the hosts are down
[ ! -s unseen ] || fail "commands of docs/cluster.md that no test runs: $(cat unseen)"
((commands >= 30)) || fail "only $commands commands were found"
echo "all $commands commands did what docs/cluster.md says"
