# SPDX-License-Identifier: Apache-2.0
# Names in the program follow .clang-tidy: types CamelCase, all else snake_case, private members with a trailing
# underscore. (Tests are left to reading.) Files are parsed with the build's own flags:
#   cmake -Droot=… -Dbuild=<build tree> -Dkind=kernels|models|mpi|src -P naming.cmake
# Nearly all the time goes into parsing what is included. So all headers and sources of a folder are parsed as one; sources
# that cannot be parsed after others (two files have a helper of the same name) are parsed together in a next round. That
# takes a third of the time that one run for each file takes. clang-tidy 16 or later is needed; without it the check says
# SKIPPED, and ctest counts it as skipped. A folder that passed once is remembered by its text in the build tree.
include("${CMAKE_CURRENT_LIST_DIR}/files.cmake")
flotilla_files(headers FOLDERS ${kind} PATTERNS *.hpp)
flotilla_files(sources FOLDERS ${kind} PATTERNS *.cpp)
set(files ${headers} ${sources})

find_program(tidy NAMES clang-tidy-19 clang-tidy-20 clang-tidy-18 clang-tidy-17 clang-tidy-16 clang-tidy)
set(version "none")
if(tidy)
  execute_process(COMMAND "${tidy}" --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NOT version MATCHES "version ([0-9]+)\\." OR CMAKE_MATCH_1 LESS 16)
  message(STATUS "SKIPPED: names in ${kind} were not checked, clang-tidy 16 or later is needed")
  return()
endif()

# Which files there are is part of the text: a header that went may have been what another needed.
file(READ "${root}/.clang-tidy" text)
string(APPEND text "${version}${files}")
foreach(file IN LISTS files ITEMS "${CMAKE_CURRENT_LIST_FILE}")
  cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${root}")
  file(SHA256 "${file}" hash)
  string(APPEND text "${hash}")
endforeach()
string(SHA256 key "${text}")
set(stamp "${build}/tests/style/named/${key}")
if(EXISTS "${stamp}")
  message(STATUS "names in ${kind}: unchanged since they passed")
  return()
endif()

# All errors of parsing are wanted, because they tell which sources clash.
set(list "${build}/tests/style/named/${kind}.hpp")
if(EXISTS "${build}/compile_commands.json")
  set(together "${build}/tests/style/alone/all_of_${kind}.cpp" -p "${build}" --extra-arg=-w --extra-arg=-ferror-limit=0
               "--extra-arg=-include${list}")
  set(alone -p "${build}" --extra-arg=-w)
  set(head "")
  # What this build leaves out (oneDNN 2 or 3) cannot be parsed with its libraries.
  file(READ "${build}/tests/style/sources" built)
  foreach(file IN LISTS sources)
    list(FIND built "${file}" place)
    if(place EQUAL -1)
      list(REMOVE_ITEM sources "${file}")
    endif()
  endforeach()
else()
  set(alone -- -x c++ -std=c++20 "-I${root}" -w -ferror-limit=0)
  set(together "${list}" ${alone})
  list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE head)
endif()

# check(<flag of clang-tidy>...): sets `found` to the errors, `unparsed` to those of parsing. The rules are found as a
# .clang-tidy above the file; named on the command line they would be applied to the standard library too, which takes
# four times as long.
function(check)
  execute_process(COMMAND "${tidy}" --quiet --checks=-*,readability-identifier-naming
                          "--header-filter=/${kind}/.*[.][ch]pp$" ${ARGN}
                  WORKING_DIRECTORY "${root}" RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX MATCHALL "[^\n]*error: [^\n]*" found "${output}")
  if(NOT code EQUAL 0)
    list(PREPEND found "clang-tidy exit ${code}:")
  endif()
  set(found ${found} PARENT_SCOPE)
  string(REGEX MATCHALL "[^\n]*error: [^\n]*clang-diagnostic-error" unparsed "${output}")
  set(unparsed ${unparsed} PARENT_SCOPE)
endfunction()

# absent.cpp and its like give the names of what a build lacks: they wait for the second round.
set(stand_ins ${sources})
list(FILTER stand_ins INCLUDE REGEX "/absent[^/]*$")
set(faults "")
set(waiting ${sources})
if(NOT stand_ins STREQUAL sources)
  list(REMOVE_ITEM waiting ${stand_ins})
endif()
while(waiting)
  # One round: `round` shrinks until it is parsed without errors; what it loses waits for the next one.
  set(round ${waiting})
  set(waiting ${stand_ins})
  set(stand_ins "")
  set(unparsed first)
  while(unparsed)
    list(TRANSFORM round REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE lines)
    file(WRITE "${list}" ${head} ${lines})
    check(${together})
    list(LENGTH round count)
    if(unparsed AND count EQUAL 1)
      check("${root}/${round}" ${alone}) # with its own flags, which may define something
      break()
    elseif(unparsed)
      set(clashing "")
      foreach(file IN LISTS round)
        string(FIND "${unparsed}" "${root}/${file}:" place)
        if(NOT place EQUAL -1)
          list(APPEND clashing "${file}")
        endif()
      endforeach()
      if(NOT clashing OR clashing STREQUAL round) # that tells nothing: the first goes on by itself
        set(clashing ${round})
        list(POP_FRONT clashing)
      endif()
      list(REMOVE_ITEM round ${clashing})
      list(APPEND waiting ${clashing})
    endif()
  endwhile()
  list(APPEND faults ${found})
endwhile()
if(faults)
  list(REMOVE_DUPLICATES faults)
  list(JOIN faults "\n    " faults)
  string(PREPEND faults "\n    ")
endif()
flotilla_verdict("names in ${kind}" "${files}" "${faults}")
file(WRITE "${stamp}" "")
