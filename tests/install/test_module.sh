#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The environment module of the installed tree, by Environment Modules and by Lmod, whichever is there.
# Arguments: the installed tree, Flotilla's version.
set -euo pipefail
tree=$1 version=$2
# shellcheck source=tests/install/expect.sh
. "${0%/*}/expect.sh"

# with_modules <init script> <commands>: run by a new shell after the init script, which may use unset variables.
with_modules() {
  env -u FLOTILLA_ROOT -u CMAKE_PREFIX_PATH -u LOADEDMODULES -u MODULEPATH bash -c "
    . '$1'
    set -e
    $2" 2>&1 || true
}

it_loads_and_unloads() {
  local said
  said=$(with_modules "$1" "
    module use '$2'
    module load flotilla
    echo root \$FLOTILLA_ROOT
    echo found \$(command -v flotilla)
    flotilla --version
    echo package \$CMAKE_PREFIX_PATH
    module load flotilla/$version
    module unload flotilla
    echo left \$FLOTILLA_ROOT \$CMAKE_PREFIX_PATH \$(command -v flotilla)")
  expect "$1: root" "root $tree" "$(grep ^root <<<"$said")"
  expect "$1: found" "found $tree/bin/flotilla" "$(grep ^found <<<"$said")"
  expect "$1: version" "flotilla $version" "$(grep '^flotilla ' <<<"$said")"
  expect "$1: package" "package $tree" "$(grep ^package <<<"$said")"
  expect "$1: left" left "$(grep ^left <<<"$said" | xargs)"
  expect "$1: help" 1 "$(with_modules "$1" "module use '$2'; module help flotilla/$version" | grep -c "Flotilla $version trains")"
}

tried=false
mkdir -p "$work/linked/flotilla"
ln -s "$tree/share/modulefiles/flotilla/$version" "$work/linked/flotilla/$version"
for init in /usr/share/modules/init/bash /usr/share/lmod/lmod/init/bash; do
  [[ -r $init ]] || continue
  tried=true
  it_loads_and_unloads "$init" "$tree/share/modulefiles"
  it_loads_and_unloads "$init" "$work/linked"
done
if ! $tried; then
  echo 'SKIPPED: the module file was not tried, neither environment-modules nor lmod is installed'
  exit 0
fi
verdict
