#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of README and the tutorial, and those on MNIST of pages that README leads to, in their order and with their folders, as
# a user types them. Arguments: source folder, folder of the executable. In the environment: MPIEXEC, mpirun.
set -euo pipefail
source=$1
build=$2
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

# The decks are cut down where they would take long: arguments behind those that the user types. The order and the folders stay.
make_programs() {
  mkdir bin
  ln -s "$MPIEXEC" bin/mpirun
  cat >bin/flotilla <<END
#!/usr/bin/env bash
case "\$*" in
  *' train.epochs=3 '*) less=(device.threads=1) ;;
  'train inputs/mnist_mlp.toml '*) less=(train.steps=30 device.threads=1) ;;
  'train inputs/resnet18_photos.toml '*) less=(train.steps=2 data.image_size=16 data.short_side=16 device.precision=float32 device.threads=1) ;;
  'compare inputs/plans/compare_digits.toml'*) less=(train.steps=10) ;;
  'bench all-reduce'*) less=(--bytes 4096) ;;
  'bench step '*) less=(--steps 5 device.threads=1) ;;
  *) less=() ;;
esac
exec "$build/flotilla" "\$@" "\${less[@]}"
END
  chmod +x bin/flotilla
  PATH=$work/bin:$PATH
}

make_files() {
  cp -r "$source/inputs" .
  ln -s "$source/scripts" "$source/jobscripts" .
  # The first of the plan's fourteen ways
  sed -i -e '/^seeds/s/3/1/' -e '/hierarchical/,$d' inputs/plans/compare_digits.toml
  sed -i '$d' inputs/plans/compare_digits.toml
  gzip -dc inputs/data/mnist/t10k-images-idx3-ubyte.gz >new-images-idx3-ubyte
  local class image
  for class in dress hat longsleeve outwear pants shirt shoes shorts skirt t-shirt; do
    mkdir -p "photos/$class"
    for image in 1 2 3 4 5; do image >"photos/$class/$image.png"; done
  done
  mkdir new
  image >new/0001.png
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

# run PAGE COMMAND: it ends with 0, or as the page says, and trains what it is about.
run() {
  local page=$1 command=$2 code=0 expected=0 said
  case $command in
    'export PATH='* | scripts/quickstart.sh* | scripts/test.sh*) return ;; # of the whole build
    'python3 scripts/torch_to_hdf5.py resnet18.pt '*) command='flotilla export runs/photos resnet18.h5' ;; # without PyTorch
    'python3 scripts/torch_to_hdf5.py --back '*) return ;;
    "grep '\"validation\"'"*) return ;; # goes on over lines
    *trian.txt*) expected=2 ;;
  esac
  commands=$((commands + 1))
  said=$(bash -c "$command" 2>&1 </dev/null) || code=$?
  ((code == expected)) || fail "$page: $command" "exit code $code" "$said"
  [[ $said != *'nothing left '* ]] || fail "$page: $command" 'trained nothing' "$said"
}

make_programs
make_files
for page in README.md docs/tutorial.md docs/local_sgd.md docs/measurements.md; do
  commands_of "$source/$page" >list
  [[ -s list ]] || fail "$page has no commands"
  while IFS= read -r command; do run "$page" "$command"; done <list
done
((commands >= 22)) || fail "only $commands commands were found"

# README says that its first run, started again, has nothing left to do.
first=$(commands_of "$source/README.md" | grep -m 1 ' train ')
said=$(bash -c "$first" 2>&1 </dev/null) || fail "$first" "$said"
[[ $said == 'nothing left '* ]] || fail "$first: again" "$said"

if ((failures > 0)); then
  echo "$failures failed"
  exit 1
fi
echo "all $commands commands did what their pages say"
