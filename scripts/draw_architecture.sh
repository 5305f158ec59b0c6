#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws docs/architecture.svg from tests/style/layers.txt: an arrow means "uses"; what follows from other arrows is left
# out. Needs Graphviz (dot and tred).
set -euo pipefail
cd "$(dirname "$0")/.."
table=tests/style/layers.txt

awk '
  BEGIN {
    print "digraph flotilla {"
    print "  graph [rankdir=TB, nodesep=0.15, ranksep=0.3]"
    print "  node [shape=box, style=filled, color=\"#5a6b7b\", fontname=\"Helvetica,Arial,sans-serif\", fontsize=10]"
    print "  edge [color=\"#8494a4\", arrowsize=0.6]"
  }
  /^#/ || /^(src|tests)(:|\/kernels|\/models|\/mpi|\/support)/ { next }
  {
    split($0, halves, / *# */)
    split(halves[1], row, /: */)
    folder = row[1]
    fill = folder ~ /^src/ ? "#e8eef4" : folder ~ /^mpi/ ? "#fdf0dc" : folder ~ /^models/ ? "#e6f2e6" : "#f4e6ea"
    words = halves[2]
    printf "  \"%s\" [label=<<b>%s</b><br/>%s>, fillcolor=\"%s\"]\n", folder, folder, words, fill
    folders[++count] = folder
    uses[folder] = row[2]
  }
  END {
    for (i = 1; i <= count; ++i) {
      folder = folders[i]
      n = split(uses[folder], used, " ")
      for (u = 1; u <= n; ++u)
        for (j = 1; j <= count; ++j)
          if (folders[j] != folder && index(folders[j] "/", used[u] "/") == 1)
            printf "  \"%s\" -> \"%s\"\n", folder, folders[j]
    }
    print "}"
  }' "$table" | tred | dot -Tsvg >docs/architecture.svg
echo "<!-- drawn from $table, SHA-256 $(sha256sum "$table" | cut -d ' ' -f 1) -->" >>docs/architecture.svg
