# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The commands of a page of docs. Sourced, not run.

# commands_of PAGE [HEADING]: the commands of its fenced blocks, one a line, or of those below a heading ("## Job scripts"): lines
# behind "$ ", or lines of a block of commands that begin as one. Comments are cut off, and lines that "\" continues are joined.
commands_of() {
  awk -v heading="${2:-}" '
       BEGIN { here = heading == "" }
       /^```/ { inside = !inside; plain = /^```(sh)?$/; next }
       !inside { if (heading != "" && /^#/) here = $0 == heading; next }
       !here { next }
       rest != "" || /^\$ / ||
       (plain && /^(export |mpirun |flotilla [a-z]|scripts\/|tests\/|python3 |sbatch |squeue |tail |qsub |first=|ARGUMENTS=|DRY_RUN=|module )/) {
         line = $0; sub(/^\$ /, "", line); sub(/  +#.*/, "", line); line = rest line; rest = ""
         if (line ~ /\\$/) { sub(/\\$/, "", line); rest = line; next }
         print line }' "$1"
}
