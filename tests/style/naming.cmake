# SPDX-License-Identifier: Apache-2.0
# Names in the program follow .clang-tidy: types CamelCase, all else snake_case, private members with a trailing
# underscore. (Tests take 3 s a file and are left to reading.) Files are parsed with the build's own flags:
#   cmake -Droot=… -Dbuild=<build tree> -Dkind=headers|even_sources|odd_sources -P naming.cmake
# Sources take minutes: two halves, every second file each, keep two cores busy.
# The headers of a folder are parsed together, which takes a tenth of the time. clang-tidy 16 or later is needed; without
# it the check says SKIPPED, and ctest counts it as skipped. What passed once is remembered by its text in the build tree,
# so that a second run looks at changed files only.
include("${CMAKE_CURRENT_LIST_DIR}/files.cmake")
set(folders kernels models mpi src)
if(kind STREQUAL "headers")
  flotilla_files(files FOLDERS ${folders} PATTERNS *.hpp)
else()
  flotilla_files(all FOLDERS ${folders} PATTERNS *.cpp)
  set(files)
  set(half even)
  foreach(file IN LISTS all)
    if(kind STREQUAL "${half}_sources")
      list(APPEND files "${file}")
    endif()
    if(half STREQUAL "even")
      set(half odd)
    else()
      set(half even)
    endif()
  endforeach()
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
set(faults "")
set(checked 0)

# check_names(<what> <source> <header filter> <text that decides> <flag>...): adds to `faults` what clang-tidy finds. The
# rules are found as a .clang-tidy above the file; named on the command line they would be applied to the standard library
# too, which takes four times as long.
function(check_names what source filter text)
  string(SHA256 key "${rules}${method}${version}${text}")
  set(stamp "${build}/tests/style/named/${key}")
  if(EXISTS "${stamp}")
    return()
  endif()
  execute_process(COMMAND "${tidy}" --quiet "--checks=-*,readability-identifier-naming" "--header-filter=${filter}"
                          "${source}" ${ARGN}
                  WORKING_DIRECTORY "${root}" RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  math(EXPR checked "${checked} + 1")
  set(checked ${checked} PARENT_SCOPE)
  if(code EQUAL 0)
    file(WRITE "${stamp}" "")
    return()
  endif()
  string(REGEX MATCHALL "[^\n]*error: [^\n]*" found "${output}\n${errors}")
  list(REMOVE_DUPLICATES found)
  list(JOIN found "\n    " found)
  set(faults "${faults}\n  ${what} (clang-tidy exit ${code}):\n    ${found}" PARENT_SCOPE)
endfunction()

set(flags -p "${build}" --extra-arg=-w)
if(NOT EXISTS "${build}/compile_commands.json")
  foreach(file IN LISTS files)
    file(READ "${root}/${file}" text)
    check_names("${file}" "${root}/${file}" "^$" "${text}" -- -x c++ -std=c++20 "-I${root}" -w)
  endforeach()
elseif(kind STREQUAL "headers")
  set(text "")
  foreach(folder IN LISTS folders)
    # A header's own text does not decide alone: it is parsed after those that it includes.
    set(headers ${files})
    list(FILTER headers INCLUDE REGEX "^${folder}/")
    foreach(file IN LISTS headers)
      file(SHA256 "${root}/${file}" hash)
      string(APPEND text "${hash}")
    endforeach()
    check_names("${folder}/" "${build}/tests/style/alone/all_of_${folder}.cpp" "/${folder}/.*[.]hpp$" "${text}" ${flags})
  endforeach()
else()
  file(READ "${build}/compile_commands.json" commands)
  foreach(file IN LISTS files)
    # What this build leaves out (oneDNN 2 or 3) cannot be parsed with its libraries.
    string(FIND "${commands}" "\"${root}/${file}\"" place)
    if(place EQUAL -1)
      continue()
    endif()
    file(READ "${root}/${file}" text)
    check_names("${file}" "${root}/${file}" "^$" "${text}" ${flags})
  endforeach()
endif()
message(STATUS "names in ${kind}: clang-tidy was run ${checked} times, what is unchanged passed before")
flotilla_verdict("names in ${kind}" "${files}" "${faults}")
