# SPDX-License-Identifier: Apache-2.0
# Names follow .clang-tidy (types CamelCase, all else snake_case, private members with a trailing underscore). Files are
# parsed with the build's own flags: cmake -Droot=… -Dbuild=<build tree> -Dkind=headers|sources|tests.
# clang-tidy 16 or later is needed; without it the check says SKIPPED, and ctest counts it as skipped. What passed once
# is remembered by its text in the build tree, so that a second run looks at changed files only.
include("${CMAKE_CURRENT_LIST_DIR}/files.cmake")
if(kind STREQUAL "headers")
  flotilla_files(files FOLDERS src kernels models mpi tests PATTERNS *.hpp)
elseif(kind STREQUAL "sources")
  flotilla_files(files FOLDERS src kernels models mpi PATTERNS *.cpp)
else()
  flotilla_files(files FOLDERS tests PATTERNS *.cpp)
endif()

find_program(tidy NAMES clang-tidy-19 clang-tidy-20 clang-tidy-18 clang-tidy-17 clang-tidy-16 clang-tidy)
set(version "none")
if(tidy)
  execute_process(COMMAND "${tidy}" --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NOT version MATCHES "version ([0-9]+)\\." OR CMAKE_MATCH_1 LESS 16)
  message(STATUS "SKIPPED: names in ${kind} were not checked, clang-tidy 16 or later is needed")
  return()
endif()

file(READ "${root}/.clang-tidy" rules)
file(READ "${CMAKE_CURRENT_LIST_FILE}" method)
string(SHA256 rules "${rules}${method}${version}")
set(faults "")
set(checked 0)
foreach(file IN LISTS files)
  file(SHA256 "${root}/${file}" text)
  set(stamp "${build}/tests/style/named/${rules}/${text}")
  if(EXISTS "${stamp}")
    continue()
  endif()
  set(source "${root}/${file}")
  set(filter "^$")
  set(flags -p "${build}" --extra-arg=-w --extra-arg=-Wno-unknown-warning-option)
  if(kind STREQUAL "headers")
    # The header is seen through the source that includes nothing but it, with that source's flags.
    string(MAKE_C_IDENTIFIER "${file}" name)
    set(source "${build}/tests/style/alone/${name}.cpp")
    set(filter "/${file}$")
  endif()
  if(NOT EXISTS "${build}/compile_commands.json" OR NOT EXISTS "${source}")
    set(source "${root}/${file}")
    set(flags -- -x c++ -std=c++20 "-I${root}" -w)
  endif()
  # The rules are found as a .clang-tidy above the file; named on the command line they would be applied to the standard
  # library too, which takes four times as long.
  execute_process(COMMAND "${tidy}" --quiet "--checks=-*,readability-identifier-naming" "--header-filter=${filter}"
                          "${source}" ${flags}
                  WORKING_DIRECTORY "${root}" RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  math(EXPR checked "${checked} + 1")
  if(code EQUAL 0)
    file(WRITE "${stamp}" "")
  else()
    string(REGEX MATCHALL "[^\n]*error: [^\n]*" found "${output}\n${errors}")
    list(JOIN found "\n  " found)
    string(APPEND faults "\n  ${file} [clang-tidy exit ${code}]: ${found}")
  endif()
endforeach()
message(STATUS "names in ${kind}: ${checked} files read, the others are unchanged")
flotilla_verdict("names in ${kind}" "${files}" "${faults}")
