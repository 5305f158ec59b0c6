#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what Flotilla needs and this machine lacks, through apt (Debian 12 and 13, Ubuntu 24.04 and later).
#
#   scripts/setup.sh            what building, running and testing need
#   scripts/setup.sh --tools    and what only some checks need (Kokkos, formatter, naming check, h5dump, h5py, shellcheck, Slurm); a
#                               tool that the distribution lacks is left out, and its check skips itself
#   scripts/setup.sh --mpi mpich   MPICH instead of Open MPI; both may be installed side by side
#
# Run it as root or as a user with sudo, as often as you like. Exit codes: 0 everything is there; 2 something can't be had.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh

packages=(
  g++ cmake ninja-build        # the build
  libdnnl-dev ocl-icd-opencl-dev  # oneDNN: layers on CPUs; the one of Debian 12 is not found without OpenCL's headers
  libhdf5-dev                  # checkpoints
  libtomlplusplus-dev          # decks
  libcli11-dev                 # command line
  libspdlog-dev libfmt-dev     # logs
  nlohmann-json3-dev           # metrics.jsonl
  libxxhash-dev zlib1g-dev     # checksums, .gz data
  libjpeg-dev libpng-dev       # images; the former is libjpeg-turbo's
  libonnx-dev libprotobuf-dev  # ONNX models
  libgtest-dev libbenchmark-dev  # tests, micro-benchmarks
)
tools=(
  libtrilinos-kokkos-dev       # Kokkos: the loops of a GPU, which tests run on the host
  clang-format-14
  clang-tidy-19 libomp-19-dev  # the latter for its omp.h, that of GCC is not for clang
  hdf5-tools shellcheck
  python3 python3-h5py         # the checks of tests/style; scripts/rewrite_hdf5.py
  help2man                     # manual pages
  mold  # Links the tests in less time
  chromium libxml2-utils       # the page and the pictures of flotilla report
  iproute2 procps util-linux   # tests/hosts: hosts made of namespaces
  slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge  # and a Slurm over them
  qemu-user                    # an older processor than this one
)

usage() {
  sed -n '3,11s/^# \{0,1\}//p' scripts/setup.sh
}

with_tools=false
mpi=openmpi
while (($#)); do
  case $1 in
    --tools) with_tools=true ;;
    --mpi)
      (($# > 1)) || fail 2 "setup: --mpi needs openmpi or mpich"
      mpi=$2
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) fail 2 "setup: unknown argument '$1' (see scripts/setup.sh --help)" ;;
  esac
  shift
done
case $mpi in # MPI, mpirun
  openmpi) packages+=(openmpi-bin libopenmpi-dev) ;;
  mpich) packages+=(mpich libmpich-dev) ;;
  *) fail 2 "setup: --mpi takes openmpi or mpich, not '$mpi'" ;;
esac

# Without apt nothing is installed: what is needed, by the names that module systems and Spack use.
explain_without_apt() {
  cat >&2 <<'END'
flotilla: this system has no apt-get, so nothing was installed. Flotilla needs, from modules, Spack or by hand:
  what                          Spack                        usual module names
  C++20 compiler (GCC >= 12)    gcc@12:                      gcc
  CMake >= 3.25, Ninja          cmake@3.25: ninja            cmake ninja
  MPI 3.1 or later              openmpi                      openmpi
  oneDNN 2.6 to 3.x             onednn                       onednn, oneDNN, dnnl
  HDF5 >= 1.10 (C, serial)      hdf5~mpi                     hdf5
  toml++ 3.3 or later           tomlplusplus                 (headers)
  CLI11, spdlog, fmt, JSON      cli11 spdlog fmt nlohmann-json
  xxHash, zlib                  xxhash zlib                  zlib
  libjpeg-turbo, libpng         libjpeg-turbo libpng         libjpeg-turbo libpng
  ONNX >= 1.12, Protobuf        onnx protobuf                (only for `flotilla export model.onnx`)
  GoogleTest, Benchmark         googletest benchmark         (tests only: -DFLOTILLA_TESTS=OFF does without)
  Kokkos with CUDA, 4.7 or later  kokkos+cuda                kokkos (GPUs only: docs/gpu.md)
Then build as docs/install.md shows; scripts/quickstart.sh and scripts/test.sh take --no-setup.
END
  exit 2
}

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# For the test of the module file; the other implementation would have to go for it, and does as well.
is_installed lmod || tools+=(environment-modules)

is_offered() {
  local candidate
  candidate=$(LC_ALL=C apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ { print $2 }')
  [[ -n $candidate && $candidate != '(none)' ]]
}

as_root() {
  if (($(id -u) == 0)); then
    "$@"
  else
    sudo "$@"
  fi
}

# The oldest versions that can build Flotilla; an older distribution has the packages but not these.
check_versions() {
  local gcc cmake
  gcc=$("${CXX:-g++}" -dumpfullversion -dumpversion)
  cmake=$(cmake --version | awk 'NR == 1 { print $3 }')
  if ((${gcc%%.*} < 12)); then
    fail 2 "setup: g++ is $gcc, but Flotilla needs 12 or later (install g++-12 and set CXX=g++-12, or use Debian 12)"
  fi
  if [[ $(printf '%s\n' 3.25 "$cmake" | sort -V | head -n 1) != 3.25 ]]; then
    fail 2 "setup: cmake is $cmake, but Flotilla needs 3.25 or later (Debian 12, Ubuntu 24.04, or pip install cmake)"
  fi
}

command -v apt-get >/dev/null || explain_without_apt

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if $with_tools; then
  # If a tool is missing from package lists that were already read, they are not read again.
  lists_read=false
  is_offered g++ && lists_read=true
  for package in "${tools[@]}"; do
    if is_installed "$package"; then
      continue
    elif $lists_read && ! is_offered "$package"; then
      say "setup: $package is not offered here; what needs it will be skipped"
    else
      missing+=("$package")
    fi
  done
fi
if ((${#missing[@]} == 0)); then
  check_versions
  say "setup: everything that is needed is installed"
  exit 0
fi

if (($(id -u) != 0)) && ! command -v sudo >/dev/null; then
  fail 2 "setup: packages are missing and installing them needs root. Ask for: apt-get install ${missing[*]}"
fi

say "setup: reading the package lists (apt-get update)"
quiet_log=$(mktemp)
trap 'rm -f "$quiet_log"' EXIT
if ! as_root apt-get update >"$quiet_log" 2>&1; then
  cat "$quiet_log" >&2
  say "setup: the package lists could not be renewed; trying with those that are there" >&2
fi

wanted=()
unavailable=()
for package in "${missing[@]}"; do
  if is_offered "$package"; then
    wanted+=("$package")
  elif [[ " ${tools[*]} " == *" $package "* ]]; then
    say "setup: $package is not offered here; what needs it will be skipped"
  else
    unavailable+=("$package")
  fi
done
if ((${#unavailable[@]} > 0)); then
  fail 2 "setup: this system's package sources do not offer: ${unavailable[*]}." \
    "Nothing was installed. Needed is Debian 12 or later, or Ubuntu 24.04 or later with 'universe' enabled" \
    "(add-apt-repository universe); docs/install.md says how to build with libraries from elsewhere."
fi

if ((${#wanted[@]} > 0)); then
  say "setup: installing ${wanted[*]}"
  if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    -o DPkg::Lock::Timeout=120 "${wanted[@]}" >"$quiet_log" 2>&1; then
    tail -n 30 "$quiet_log" >&2
    failed=()
    for package in "${wanted[@]}"; do
      is_installed "$package" || failed+=("$package")
    done
    fail 2 "setup: could not install: ${failed[*]}. What apt-get said stands above; run this script again once it is solved."
  fi
fi
check_versions
say "setup: done, installed: ${#wanted[@]}"
