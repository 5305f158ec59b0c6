#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of pages of the documentation, in their order and with their folders and files, as a user types them. Arguments: source
# folder, folder of the executable, pages; none: README and all pages of docs/ but the guide. In the environment: MPIEXEC, mpirun.
set -euo pipefail
source=$1
build=$2
pages=("${@:3}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
commands=0
# shellcheck source=tests/scripts/commands_of.sh
. "$source/tests/scripts/commands_of.sh"

fail() {
  printf 'FAILED: %s\n' "$@"
  failures=$((failures + 1))
}

# Trainings and measurements are cut down where they would take long: arguments are appended to those that the user types. The
# order and the folders stay.
make_programs() {
  mkdir bin
  ln -s "$MPIEXEC" bin/mpirun
  ln -s "$source/jobscripts/flotilla_job.sh" bin
  cat >bin/flotilla <<END
#!/usr/bin/env bash
case "\$*" in
  *' --check'* | *' --ranks='*) less=() ;;
  'train inputs/mnist_mlp.toml train.epochs=3 '*) less=() ;;
  'train inputs/mnist_mlp.toml'*) less=(train.steps=30) ;;
  'train inputs/mlp_'* | 'train inputs/c'*) less=(train.steps=10) ;;
  'train inputs/borehole.toml'*) less=(train.steps=50) ;;
  'train inputs/res'*) less=(train.steps=2 data.image_size=16 data.short_side=16 device.precision=float32) ;;
  'compare inputs/plans/compare_photos'*) less=(train.steps=1 data.image_size=16 data.short_side=16) ;;
  'compare '*) less=(train.steps=10) ;;
  'make-data borehole '* | 'make-data criteo '*) set -- "\${@/%00000/00}" ;; # rows
  'bench all-reduce'*) less=(--bytes 4096) ;;
  'bench step '*) less=(--steps 5) ;;
  'bench input '*) less=(--seconds 0.1) ;;
  *) less=() ;;
esac
exec "$build/flotilla" "\$@" "\${less[@]}"
END
  chmod +x bin/flotilla
  PATH=$work/bin:$PATH
  mkdir tmp
  export TMPDIR=$work/tmp
}

# make_files FOLDER: what a user has there.
make_files() {
  mkdir "$1"
  cd "$1"
  cp -r "$source/inputs" .
  ln -s "$source/scripts" "$source/jobscripts" .
  # The first of the plans' fourteen ways
  sed -i -e '/^seeds/s/3/1/' -e '/hierarchical/,$d' inputs/plans/compare_{digits,photos}.toml
  sed -i '$d' inputs/plans/compare_{digits,photos}.toml
  gzip -dc inputs/data/mnist/t10k-images-idx3-ubyte.gz >new-images-idx3-ubyte
  awk 'BEGIN { print "id,age,city,income,buys"
    for (i = 1; i <= 120; ++i) print i "," 20 + i % 50 "," (i % 2 ? "oslo" : "rome") "," 20000 + i * 7919 % 60000 "," (i % 3 ? "no" : "yes") }' >people.csv
  local class number
  image >image.png
  for class in dress hat longsleeve outwear pants shirt shoes shorts skirt t-shirt; do
    mkdir -p "photos/$class"
    for number in {1..5}; do cp image.png "photos/$class/$number.png"; done
  done
  mkdir new
  mv image.png new/0001.png
  cd "$work"
}

# An image of 20 x 20 pixels.
image() {
  base64 -d <<'END'
iVBORw0KGgoAAAANSUhEUgAAABQAAAAUCAIAAAAC64paAAADSklEQVR42hXSIa+GIBSA4VOZjWAhuRGlYmQzUQg0Rz2V2QgWkhtRKkY2E8Vut/uP7nff/rYH
AKAD6AEGgBFgApgBDMACgAArwAawAxwAJ8AFcAM8AC/A9zuBkI6QnpCBkJGQiZCZEEPIQggSshKyEbITchByEnIRchPyEPIS8hECQGlHaU/pQOlI6UTpTKmh
dKEUKV0p3SjdKT0oPSm9KL0pfSh9Kf0oBWCsY6xnbGBsZGxibGbMMLYwhoytjG2M7YwdjJ2MXYzdjD2MvYx9jAFw3nHecz5wPnI+cT5zbjhfOEfOV843znfO
D85Pzi/Ob84fzl/OP84BhOiE6IUYhBiFmISYhTBCLEKgEKsQmxC7EIcQpxCXELcQjxCvEJ8QAFJ2UvZSDlKOUk5SzlIaKRcpUcpVyk3KXcpDylPKS8pbykfK
V8pPSgClOqV6pQalRqUmpWaljFKLUqjUqtSm1K7UodSp1KXUrdSj1KvUpxSA1p3WvdaD1qPWk9az1kbrRWvUetV603rX+tD61PrS+tb60frV+tMawNrO2t7a
wdrR2sna2Vpj7WItWrtau1m7W3tYe1p7WXtb+1j7WvtZC+Bc51zv3ODc6Nzk3OyccW5xDp1bnduc2507nDudu5y7nXuce537nPshxA6xRxwQR8QJcUY0iAv+
tyJuiDvigXgiXog34oP4In744+t9533v/eD96P3k/ey98X7xHr1fvd+8370/vD+9v7y/vX+8f73/vAcIoQuhD2EIYQxhCmEOwYSwhIAhrCFsIewhHCGcIVwh
3CE8IbwhfCEAxNjF2Mc4xDjGOMU4x2hiXGLEGNcYtxj3GI8YzxivGO8YnxjfGL8YAVLqUupTGlIaU5pSmlMyKS0pYUprSltKe0pHSmdKV0p3Sk9Kb0pfSgA5
dzn3OQ85jzlPOc85m5yXnDHnNect5z3nI+cz5yvnO+cn5zfnL2eAUrpS+lKGUsZSplLmUkwpSylYylrKVspeylHKWcpVyl3KU8pbylcKQK1drX2tQ61jrVOt
c62m1qVWrHWtdat1r/Wo9az1qvWu9an1rfWrFaC1rrW+taG1sbWptbk109rSGra2tra1trd2tHa2drV2t/a09rb2tfYHhAyuiOKgkg0AAAAASUVORK5CYII=
END
}

# elsewhere COMMAND: whether it is not run here: it needs Slurm, a GPU, Python or files of other people, builds, takes hours, or
# another test runs it.
elsewhere() {
  case $1 in
    'export PATH='* | scripts/quickstart.sh* | scripts/test*.sh* | scripts/setup.sh* | cmake\ * | ctest\ *) ;; # the whole build
    scripts/bundle.sh* | build/* | mpiexec.mpich\ *) ;; # other builds: tests/install/
    tests/hosts/*) ;; # hosts made of namespaces: tests/hosts/
    sbatch\ * | squeue* | tail\ * | module\ *) ;; # Slurm, modules: tests/hosts/test_cluster_page.sh, tests/install/
    *device.kind=cuda* | *'--device cuda'* | *nvidia-smi*) ;; # a GPU
    python3\ *) ;; # Python's packages
  *) return 1 ;;
  esac
}

# run PAGE COMMAND: runs the command, which must end with 0 or as the page says, and have something to train.
run() {
  local page=$1 command=$2 code=0 expected=0 began=$SECONDS said
  if elsewhere "$command"; then
    echo "$page, not run here: $command"
    return
  fi
  [[ ! $command =~ '# exit code '([0-9]+) ]] || expected=${BASH_REMATCH[1]}
  commands=$((commands + 1))
  said=$(bash -c "$command" 2>&1 </dev/null) || code=$?
  ((code == expected)) || fail "$page: $command" "exit code $code" "$said"
  echo "$page, $((SECONDS - began)) s: $command"
  [[ $said != *'nothing left '* ]] || fail "$page: $command" 'trained nothing' "$said"
}

# run_page PAGE: in a folder of its own.
run_page() {
  local page=$1 command folder
  folder=$work/$(basename "$page" .md)
  commands_of "$source/$page" >list
  [[ -s list ]] || return 0
  make_files "$folder"
  cd "$folder"
  files_of "$source/$page"
  while IFS= read -r command <&3; do run "$page" "$command"; done 3<"$work/list"
  cd "$work"
}

make_programs
if ((${#pages[@]} == 0)); then
  pages=(README.md)
  for page in "$source"/docs/*.md "$source"/docs/appendix/*.md; do
    [[ $page == */guide.md || $page == */cluster.md ]] || pages+=("${page#"$source/"}")
  done
fi
for page in "${pages[@]}"; do run_page "$page"; done
((commands >= 40)) || fail "only $commands commands were found"

if ((failures > 0)); then
  echo "$failures failed"
  exit 1
fi
echo "all $commands commands did what their pages say"
