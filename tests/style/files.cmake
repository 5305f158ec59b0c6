# SPDX-License-Identifier: Apache-2.0
# What the checks of this folder share. Each is run as cmake -Droot=<source tree> -P <check>.cmake.

# flotilla_files(<result> [FOLDERS <folder>...] PATTERNS <pattern>...): paths relative to `root`, sorted. Stops if there
# are none, because a check of no files proves nothing.
function(flotilla_files result)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FOLDERS;PATTERNS")
  if(NOT root OR arg_UNPARSED_ARGUMENTS OR NOT arg_PATTERNS)
    message(FATAL_ERROR "flotilla_files: expected -Droot=… and PATTERNS, got '${ARGN}'")
  endif()
  if(NOT arg_FOLDERS)
    set(arg_FOLDERS src kernels models mpi tests cmake scripts jobscripts examples .ci)
  endif()
  set(found)
  foreach(pattern IN LISTS arg_PATTERNS)
    foreach(folder IN LISTS arg_FOLDERS)
      file(GLOB_RECURSE more RELATIVE "${root}" "${root}/${folder}/${pattern}")
      list(APPEND found ${more})
    endforeach()
    file(GLOB more RELATIVE "${root}" "${root}/${pattern}")
    list(APPEND found ${more})
  endforeach()
  list(REMOVE_DUPLICATES found)
  list(SORT found)
  if(NOT found)
    message(FATAL_ERROR "no file of ${arg_PATTERNS} below ${root}: nothing was checked")
  endif()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# flotilla_verdict(<title> <files> <faults>): stops with the faults, or says how many files are in order.
function(flotilla_verdict title files faults)
  if(faults)
    message(FATAL_ERROR "${title}:${faults}")
  endif()
  list(LENGTH files count)
  message(STATUS "${title}: ${count} files in order")
endfunction()
