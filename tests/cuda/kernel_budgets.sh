#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Holds what nvcc made of the own kernels against budgets: registers of a lane; nothing in local memory, a GPU's slow one,
# where registers are spilled and arrays lie whose indices are computed; 16-byte loads where whole packs of values are read.
# Prints each kind of kernel with its largest, then what is over its budget.
#   tests/cuda/kernel_budgets.sh CUOBJDUMP FILE      FILE: an object, a library or a program. Exit code 1: over a budget
set -euo pipefail
cuobjdump=$1 file=$2

# Registers of a lane, by the functor that Kokkos launches. Three teams of 256 lanes share the 65,536 registers of a
# processor if a lane takes 80, two if it takes 128.
budgets='TileSums 80
others 128'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# "name registers stack local" of each kernel, and "name loads", those of 16 bytes.
"$cuobjdump" --dump-resource-usage "$file" | awk '
  /Function / { name = $2; sub(/:$/, "", name) }
  /REG:/ {
    for (i = 1; i <= NF; ++i) { split($i, of, ":"); value[of[1]] = of[2] }
    print name, value["REG"], value["STACK"], value["LOCAL"]
  }' | sort -u >"$work/usage"
"$cuobjdump" --dump-sass "$file" | awk '
  /Function :/ { name = $3; wide[name] += 0 }
  /LDG\.E(\.[A-Z0-9]+)*\.128/ { ++wide[name] }
  END { for (name in wide) print name, wide[name] }' | sort >"$work/loads"

join "$work/usage" "$work/loads" | awk '{ print $2, $3, $4, $5, $1 }' | c++filt |
  sed -nE '/ParallelFor<flotilla::/ { s/(^[0-9 ]+).*ParallelFor<(.*), Kokkos::(Team|Range)Policy<.*/\1\2/; s/flotilla::(loops::)?//g; s/Kokkos::Cuda, //g; p }' |
  awk -v budgets="$budgets" '
    BEGIN {
      count = split(budgets, words, /[ \n]/)
      for (i = 1; i < count; i += 2) budget[words[i]] = words[i + 1]
    }
    {
      registers = $1; in_memory = $2 + $3; wide = $4
      name = $0; sub(/^[0-9]+ [0-9]+ [0-9]+ [0-9]+ /, "", name)
      kind = name; sub(/<.*/, "", kind)
      if (kind == "Packed" || kind == "FlatSweep" || kind == "FlatUpdate") {
        inner = name; sub(/^[A-Za-z]+<([0-9]+, )?/, "", inner); sub(/[<,>].*/, "", inner); shown = kind " " inner
      } else shown = kind
      ++kernels[shown]
      if (registers > most[shown]) most[shown] = registers
      limit = kind in budget ? budget[kind] : budget["others"]
      if (registers > limit) over = over "\n  " registers " registers, at most " limit ": " name
      if (in_memory > 0) over = over "\n  " in_memory " bytes of local memory: " name
      # Whole packs: 16 bytes of every value.
      packs = name ~ /^(TileSums|TileMap|PoolForward|PoolBackward|MaxPool3Forward|MaxPool3Backward|Packed)</ && (name ~ /Float32, 4[,>]/ || name ~ /loat16, 8[,>]/ || name ~ /^Packed<8,/ || name ~ /^Packed<4, [A-Za-z]+<Float32/)
      if (packs) ++whole
      if (packs && wide == 0) over = over "\n  no load of 16 bytes: " name
    }
    END {
      for (shown in kernels) { printf "%-32s %4d kernels, at most %3d registers\n", shown, kernels[shown], most[shown] | "sort" }
      close("sort")
      if (NR == 0) { print "FAILED: no kernel was found"; exit 1 }
      print NR " kernels, " whole " of them on whole packs"
      if (over != "") { print "FAILED: over budget" over; exit 1 }
      print "all within their budgets"
    }'
