#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a Debian package for this release of Debian or Ubuntu, for processors with AVX2 (x86-64-v3), and checks it with
# lintian where that is installed.
#
#   scripts/package.sh [--no-setup] [--build build/package]
#
# Ends with the package's path. It is installed by `apt install ./flotilla_…deb`.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/common.sh
. scripts/common.sh

with_setup=true
build=build/package
while (($# > 0)); do
  case $1 in
    --no-setup) with_setup=false ;;
    --build)
      (($# > 1)) || fail 2 "package: --build needs a folder"
      build=$2
      shift
      ;;
    -h | --help)
      sed -n '3,8s/^# \{0,1\}//p' scripts/package.sh
      exit 0
      ;;
    *) fail 2 "package: unknown argument '$1' (see scripts/package.sh --help)" ;;
  esac
  shift
done
if $with_setup; then
  scripts/setup.sh
fi
for tool in dpkg-deb dpkg-shlibdeps help2man; do
  command -v "$tool" >/dev/null ||
    fail 2 "package: there is no $tool; install it first (apt-get install dpkg-dev help2man)"
done

mkdir -p "$build"
# Libraries of the distribution are found without paths in the executable.
cmake --preset cpu -B "$build" -DFLOTILLA_ARCHITECTURE=x86-64-v3 -DFLOTILLA_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr \
  -DCMAKE_SKIP_INSTALL_RPATH=ON >"$build.log" 2>&1 || { tail -n 20 "$build.log" >&2; fail 1 "package: configuring failed"; }
say "package: building in $build"
cmake --build "$build" --target flotilla manual -j "$(build_jobs)" >>"$build.log" 2>&1 ||
  { tail -n 20 "$build.log" >&2; fail 1 "package: the build failed; all that it said is in $build.log"; }

version=$(sed -n 's/^CMAKE_PROJECT_VERSION:[A-Z]*=//p' "$build/CMakeCache.txt")
packager=$(sed -n 's/^FLOTILLA_PACKAGER:[A-Z]*=//p' "$build/CMakeCache.txt")
printf 'flotilla (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md, in this folder.\n\n -- %s  %s\n' "$version" \
  "$packager" "$(date -u -R ${SOURCE_DATE_EPOCH:+-d "@$SOURCE_DATE_EPOCH"})" | gzip -9n >"$build/changelog.gz"
rm -f "$build"/flotilla_*.deb
(umask 022 && cd "$build" && cpack >>"../${build##*/}.log" 2>&1) ||
  { tail -n 20 "$build.log" >&2; fail 1 "package: packing failed"; }
package=$(compgen -G "$build/flotilla_*.deb")
if command -v lintian >/dev/null; then
  lintian --fail-on error --allow-root "$package" || fail 1 "package: lintian found errors"
fi
say "package: $package"
