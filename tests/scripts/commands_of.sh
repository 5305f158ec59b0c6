# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The commands and files of a page of docs. Sourced, not run.

# commands_of PAGE [HEADING]: the commands of its fenced blocks, one a line, or of those below a heading ("## Job scripts"): lines
# after "$ ", or lines of a block of commands that begin as one. Comments are cut off but for "# exit code N", and lines that "\"
# continues are joined.
commands_of() {
  awk -v heading="${2:-}" '
       BEGIN { here = heading == "" }
       /^```/ { inside = !inside; plain = /^```(sh)?$/; next }
       !inside { if (heading != "" && /^#/) here = $0 == heading; next }
       !here { next }
       rest != "" || /^\$ / ||
       (plain && /^(export |mpirun |mpiexec|flotilla [a-z-]|scripts\/|jobscripts\/|RANKS=|tests\/|build\/|python3 |cmake |ctest |sbatch |squeue |tail |qsub |first=|ARGUMENTS=|DRY_RUN=|module )/) {
         line = $0; sub(/^\$ /, "", line); if (line !~ /# exit code/) sub(/  +#.*/, "", line); line = rest line; rest = ""
         if (line ~ /\\$/) { sub(/\\$/, "", line); rest = line; next }
         print line }' "$1"
}

# files_of PAGE: writes each fenced block after a line that ends in a name and a colon ("Save it as `digits.toml`:") into a file
# of that name in the current folder.
files_of() {
  awk '
       /^```/ && inside { inside = 0; close(name); name = ""; next }
       /^```/ { inside = 1; next }
       inside && name != "" { print > name; next }
       inside { next }
       match($0, /`[A-Za-z_]+[.][a-z]+`:$/) { name = substr($0, RSTART + 1, RLENGTH - 3); printf "" > name; next }
       /./ { name = "" }' "$1"
}
