# SPDX-License-Identifier: Apache-2.0
# Sources are as clang-format 14 lays them out. Other versions lay out differently, so without version 14 the check says
# SKIPPED, and ctest counts it as skipped.
include("${CMAKE_CURRENT_LIST_DIR}/files.cmake")
flotilla_files(files FOLDERS src kernels models mpi tests examples PATTERNS *.hpp *.cpp *.cu)

find_program(formatter NAMES clang-format-14 clang-format)
set(version "none")
if(formatter)
  execute_process(COMMAND "${formatter}" --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(NOT version MATCHES "version 14\\.")
  message(STATUS "SKIPPED: the format was not checked, clang-format 14 is needed (found: ${version})")
  return()
endif()
execute_process(COMMAND "${formatter}" --dry-run -Werror --style=file ${files} WORKING_DIRECTORY "${root}"
                RESULT_VARIABLE code ERROR_VARIABLE errors)
set(faults "")
if(NOT code EQUAL 0)
  string(REGEX MATCHALL "[^\n]*error: [^\n]*" faults "${errors}")
  list(JOIN faults "\n  " faults)
  set(faults "\n  ${faults}\n  remedy: clang-format-14 -i <file>")
endif()
flotilla_verdict("format" "${files}" "${faults}")
