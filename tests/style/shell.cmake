# SPDX-License-Identifier: Apache-2.0
# shellcheck has nothing to say about the scripts. Without shellcheck the check says SKIPPED, and ctest counts it as
# skipped.
include("${CMAKE_CURRENT_LIST_DIR}/files.cmake")
flotilla_files(files FOLDERS scripts jobscripts tests examples PATTERNS *.sh *.sbatch *.pbs *.lsf .ci/run)

find_program(shellcheck NAMES shellcheck)
if(NOT shellcheck)
  message(STATUS "SKIPPED: the scripts were not checked, shellcheck is not installed")
  return()
endif()
execute_process(COMMAND "${shellcheck}" --external-sources --format=gcc ${files} WORKING_DIRECTORY "${root}"
                RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said)
set(faults "")
if(NOT code EQUAL 0)
  string(REPLACE "\n" "\n  " faults "\n${said}")
endif()
flotilla_verdict("scripts" "${files}" "${faults}")
