#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collects Flotilla and the libraries it needs into one folder that runs where nothing can be installed: copy it anywhere.
#
#   scripts/bundle.sh [--build build/cpu] [--mpi carried|site] [--cuda carried|site] [--gpu-check] OUTPUT
#
# OUTPUT/bin/flotilla starts it, decks and job scripts lie next to it; an OUTPUT that ends in .tar.xz is that folder packed.
# What stays the machine's: Linux, a glibc as new as the one here, and a GPU's driver. "carried", the default, brings
# Open MPI 4 with bin/mpirun for one host and for TCP; "site" leaves MPI out, for a cluster whose own Open MPI has the same
# libmpi.so and knows its network. "--cuda site" leaves out cuDNN, cuBLAS, NCCL and nvrtc: bin/* take those of the folders in
# FLOTILLA_CUDA_LIBS, separated by colons, otherwise those of python3's packages (PyTorch brings them), otherwise the loader's.
# "--gpu-check" adds scripts/check_gpu.sh and the tests that it runs, from a build with CUDA and tests (target gpu_tests).
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/common.sh
. "$here/scripts/common.sh"

usage() {
  sed -n '5,12s/^# \{0,1\}//p' "$here/scripts/bundle.sh"
}

build=$here/build/cpu
mpi=carried
cuda=carried
gpu_check=false
output=
while (($# > 0)); do
  case $1 in
    --build | --mpi | --cuda)
      (($# > 1)) || fail 2 "bundle: $1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift
      ;;
    --gpu-check) gpu_check=true ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*) fail 2 "bundle: unknown option '$1' (see scripts/bundle.sh --help)" ;;
    *)
      [[ -z $output ]] || fail 2 "bundle: one output folder, got '$output' and '$1'"
      output=$1
      ;;
  esac
  shift
done
[[ $mpi == carried || $mpi == site ]] || fail 2 "bundle: --mpi must be carried or site, got '$mpi'"
[[ $cuda == carried || $cuda == site ]] || fail 2 "bundle: --cuda must be carried or site, got '$cuda'"
[[ -n $output ]] || fail 2 "bundle: name the folder to make (see scripts/bundle.sh --help)"
[[ ! -e $output ]] || fail 2 "bundle: $output is there already; name another folder, or remove it"
[[ -x $build/flotilla ]] || fail 2 "bundle: no executable $build/flotilla; build it, or name its folder with --build"
tests=()
if $gpu_check; then
  mapfile -t tests < <(compgen -G "$build/tests/cuda/test_*_really")
  ((${#tests[@]})) || fail 2 "bundle: $build holds no tests for a GPU; configure it with CUDA and tests, and build gpu_tests"
fi

if [[ $mpi == carried ]]; then
  version=$(ompi_info --version 2>/dev/null | sed -n 's/^Open MPI v//p' || true)
  [[ $version == 4.* ]] ||
    fail 2 "bundle: only Open MPI 4 can be carried, here is ${version:-another MPI}; use --mpi site"
fi

if [[ $cuda == site && $(ldd "$build/flotilla") != *libcudart.so* ]]; then
  fail 2 "bundle: $build/flotilla was built without CUDA, so --cuda site has nothing to leave out; name a build with it: --build build/cuda"
fi

# Part of every Linux, and tied to its kernel and loader: never carried. Nor is a driver, which fits the machine's own GPU.
core='^(linux-vdso|ld-linux|libc|libm|libdl|librt|libpthread|libresolv|libutil|libnsl|libanl|libBrokenLocale)([.-]|$)'
driver='^(libcuda|libnvidia-[a-z0-9-]+)[.]so'
site_cuda='^lib(cudnn|cublas|nccl|nvrtc|nvJitLink)[^.]*[.]so'
site_mpi='^(libmpi|libopen-(rte|pal)|libpmix)[.]so'

# left_out <name>: whether the library of that name is never carried.
left_out() {
  [[ $1 =~ $core || $1 =~ $driver || ($cuda == site && $1 =~ $site_cuda) ]]
}

# needed_by <file>...: the paths of the libraries that the loader finds for them; fails if it misses one.
needed_by() {
  local file lines missing
  for file in "$@"; do
    lines=$(ldd "$file")
    missing=$(awk '/not found/ { print $1 }' <<<"$lines" | grep -vE "$driver" || true)
    [[ -z $missing ]] || fail 3 "bundle: $file needs $missing, which the loader does not find here"
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' <<<"$lines"
  done | sort -u
}

# carry_needed <folder> <file>...: copies what the files need into the folder.
carry_needed() {
  local into=$1 path name
  shift
  while read -r path; do
    name=${path##*/}
    if left_out "$name"; then continue; fi
    if [[ ! -e $into/$name ]]; then cp -L "$path" "$into/$name"; fi
  done < <(needed_by "$@")
}

# carry_program <file>: as carry_needed; with the site's MPI less that, and less what is there for its sake only.
carry_program() {
  local name path
  if [[ $mpi == carried ]]; then
    carry_needed "$output/lib" "$1"
    return
  fi
  while read -r name; do
    if [[ $name =~ $site_mpi ]] || left_out "$name"; then continue; fi
    path=$(ldd "$1" | awk -v name="$name" '$1 == name { print $3 }')
    cp -L "$path" "$output/lib/$name"
    carry_needed "$output/lib" "$path"
  done < <(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }')
}

# carry_plugins <from> <into> <pattern>: plugins, less those for network hardware, whose drivers a bundle cannot bring.
carry_plugins() {
  local plugin needs
  mkdir -p "$2"
  for plugin in "$1"/$3; do
    needs=$(ldd "$plugin")  # not in a pipe, which fails when grep exits early
    if grep -qE 'lib(ibverbs|rdmacm|fabric|psm2|psm_infinipath|ucp|uct|portals|lustreapi|flux)|not found' <<<"$needs"; then continue; fi
    cp -L "$plugin" "$2/"
    carry_needed "$output/lib" "$plugin"
  done
}

# installed <name>: a folder of Open MPI here, as ompi_info prints it
installed() {
  ompi_info --parsable --path "$1" | sed -n "s/^path:$1://p" | head -n 1
}

carry_open_mpi() {
  local program pmix
  for program in mpirun orted; do
    cp -L "$(installed bindir)/$program" "$output/libexec/$program"
    carry_needed "$output/lib" "$output/libexec/$program"
    install_launcher "$program"
  done
  carry_plugins "$(installed pkglibdir)" "$output/lib/openmpi" 'mca_*.so'
  mkdir -p "$output/share" "$output/etc/openmpi"
  cp -rL "$(installed pkgdatadir)" "$output/share/openmpi"
  # If Open MPI uses a PMIx from a package of its own, that has plugins too.
  if [[ -e $output/lib/libpmix.so.2 ]]; then
    pmix=$(dirname "$(readlink -f "$(ldconfig -p | awk '/libpmix[.]so[.]2 / { print $NF; exit }')")")
    carry_plugins "$pmix/pmix" "$output/lib/pmix" '*.so'
    if [[ -d $pmix/../share/pmix ]]; then cp -rL "$pmix/../share/pmix" "$output/share/pmix"; fi
  fi
}

# install_launcher <program>: bin/<program> starts libexec/<program> among the bundle's libraries.
install_launcher() {
  cat >"$output/bin/$1" <<'LAUNCHER'
#!/bin/sh
# Runs the program of this name in ../libexec with the libraries of this folder, wherever that lies.
here=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
. "$here/env.sh"
exec "$here/libexec/$(basename "$0")" "$@"
LAUNCHER
  chmod +x "$output/bin/$1"
}

# Writes the search for the folders with CUDA's libraries on the machine. Python runs before LD_LIBRARY_PATH names the bundle's,
# which are not Python's.
write_search_for_cuda() {
  cat >>"$output/env.sh" <<'ENVIRONMENT'
if [ -z "${FLOTILLA_CUDA_LIBS+set}" ]; then
  FLOTILLA_CUDA_LIBS=$(python3 2>/dev/null -c '
import glob, sys
print(":".join(sorted({lib for path in sys.path for lib in glob.glob(path + "/nvidia/*/lib")})))')
fi
export FLOTILLA_CUDA_LIBS
ENVIRONMENT
}

write_check_for_cuda() {
  cat >>"$output/env.sh" <<'ENVIRONMENT'
missing=$(ldd "$here/libexec/flotilla" | awk '/lib(cudnn|cublas|nccl).* => not found/ { printf " %s", $1 }')
if [ -n "$missing" ]; then
  echo "flotilla: this machine has no$missing, which this bundle leaves to it: name the folders that hold them in FLOTILLA_CUDA_LIBS," \
    "separated by colons, or put a python3 into PATH whose packages hold them, as those of PyTorch for CUDA do" >&2
  exit 2
fi
ENVIRONMENT
}

write_env() {
  echo "# Sourced by bin/*, with \`here\` set to this folder." >"$output/env.sh"
  if [[ $cuda == site ]]; then write_search_for_cuda; fi
  cat >>"$output/env.sh" <<'ENVIRONMENT'
LD_LIBRARY_PATH=$here/lib${FLOTILLA_CUDA_LIBS:+:$FLOTILLA_CUDA_LIBS}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
ENVIRONMENT
  if [[ $cuda == site ]]; then write_check_for_cuda; fi
  if [[ $mpi == carried ]]; then
    cat >>"$output/env.sh" <<'ENVIRONMENT'
# Open MPI, PMIx and hwloc look for plugins and texts where they were built unless variables name other folders.
export OPAL_PREFIX="$here" OPAL_BINDIR="$here/bin" OPAL_LIBDIR="$here/lib" OPAL_PKGLIBDIR="$here/lib/openmpi"
export OPAL_PKGDATADIR="$here/share/openmpi" OPAL_SYSCONFDIR="$here/etc/openmpi"
export PMIX_PREFIX="$here" PMIX_LIBDIR="$here/lib" PMIX_PKGLIBDIR="$here/lib/pmix" PMIX_PKGDATADIR="$here/share/pmix"
export HWLOC_PLUGINS_PATH="$here/lib/hwloc"
# Open MPI needs a program that reaches other hosts, even if it starts nothing there.
export PATH="${PATH:-/usr/bin:/bin}"
command -v ssh >/dev/null || export OMPI_MCA_plm_rsh_agent="${OMPI_MCA_plm_rsh_agent:-/bin/false}"
ENVIRONMENT
  fi
}

# cuDNN and the CUDA libraries load parts of themselves by name, which ldd does not see.
carry_parts_of_cuda() {
  local library part
  while read -r library; do
    for part in "$(dirname "$(readlink -f "$library")")"/libcudnn_*.so.[0-9]*; do
      cp -L "$part" "$output/lib/${part##*/}"
      carry_needed "$output/lib" "$part"
    done
  done < <(needed_by "$build/flotilla" | grep -E '/libcudnn[.]so' || true)
  while read -r library; do
    for part in "$(dirname "$(readlink -f "$library")")"/libnvrtc{,-builtins}.so.[0-9]*; do
      [[ ! -e $part ]] || cp -L "$part" "$output/lib/${part##*/}"
    done
  done < <(needed_by "$build/flotilla" | grep -E '/libcudart[.]so' || true)
}

archive=
if [[ $output == *.tar.xz ]]; then
  archive=$output
  unpacked=$(mktemp -d)
  trap 'rm -rf "$unpacked" "$archive.part"' EXIT
  mkdir -p "$(dirname "$archive")"
  output=$unpacked/$(basename "$archive" .tar.xz)
fi
mkdir -p "$output"/{bin,lib,libexec}
output=$(cd "$output" && pwd)
for program in "$build/flotilla" "${tests[@]}"; do
  strip --strip-debug -o "$output/libexec/${program##*/}" "$program"
  carry_program "$program"
  install_launcher "${program##*/}"
done

if [[ $cuda == carried ]]; then carry_parts_of_cuda; fi
if [[ $mpi == carried ]]; then carry_open_mpi; fi
write_env
cp -r "$here/inputs" "$here/jobscripts" "$here/LICENSE" "$output/"
cp "$here/jobscripts/flotilla_job.sh" "$output/bin/"
if $gpu_check; then
  mkdir "$output/scripts"
  cp "$here"/scripts/{check_gpu.sh,check_gpu_lines.sh,common.sh,compare_torch_mlp.py,compare_torch_speed.py,cudnn_device.py,cudnn_graph_plans.py} \
    "$output/scripts/"
fi
made=$output
if [[ -n $archive ]]; then
  tar -C "$unpacked" -c "${output##*/}" | xz -T 0 >"$archive.part"
  mv "$archive.part" "$archive"
  made=$archive
fi

say "bundle: $made, $(du -sh "$made" | cut -f 1), $(find "$output/lib" -type f | wc -l) libraries;" \
  "needs glibc $(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2) or later$([[ $mpi == carried ]] || echo " and an Open MPI with $(ldd "$build/flotilla" | awk '/libmpi[.]so/ { print $1 }')")"
