# SPDX-License-Identifier: Apache-2.0
# What a reader has to hold in mind at once: no class with more than 10 virtual functions of its own, destructor aside, and
# none with more than 15 public data members. Reads sources as clang-format lays them out: a member stands two columns to
# the right of its class.
cmake_policy(VERSION 3.20) # IN_LIST, and lists with empty elements
include("${CMAKE_CURRENT_LIST_DIR}/files.cmake")
flotilla_files(files FOLDERS src kernels models mpi PATTERNS *.hpp *.cpp)

set(most_virtuals 10)
set(most_members 15)
# Lists of what a user can write or read, one member for each key, option or column.
set(lists ModelConfig DataConfig RunConfig StepReport ValidationReport)
set(not_a_member "(using|friend|static|typedef|template|virtual|enum|class|struct|explicit|operator|return|constexpr|inline) ")
set(faults "")

# Closes the innermost class.
macro(close_class)
  set(wide "")
  if(virtuals GREATER most_virtuals)
    set(wide "${virtuals} virtual functions, at most ${most_virtuals}")
  elseif(members GREATER most_members AND NOT name IN_LIST lists AND NOT name MATCHES "::Impl$")
    set(wide "${members} public members, at most ${most_members}")
  endif()
  if(wide)
    string(APPEND faults "\n  ${file}: ${name} has ${wide} are allowed: split it")
  endif()
  list(POP_BACK outer name column public virtuals members)
endmacro()

foreach(file IN LISTS files)
  file(READ "${root}/${file}" text)
  # Comments, and what CMake reads as its own: lists, brackets and escapes.
  string(REGEX REPLACE " *//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "[][\\]" "|" text "${text}")
  string(REPLACE ";" "@" text "${text}")
  # A declaration whose name stands on a line of its own.
  string(REGEX REPLACE "([A-Za-z_0-9>])\n +([a-z_0-9]+( = [^\n]*)?@)" "\\1 \\2" text "${text}")
  string(REGEX MATCHALL "[^\n]+" lines "${text}")
  set(outer "")
  set(name "")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "@$" AND line MATCHES "^( *)(class|struct) ([A-Za-z_:0-9]+)")
      if(name)
        list(APPEND outer "${members}" "${virtuals}" "${public}" "${column}" "${name}")
      endif()
      # What stands in a private part is not public.
      if(NOT name OR public)
        string(COMPARE EQUAL "${CMAKE_MATCH_2}" struct public)
      endif()
      set(column "${CMAKE_MATCH_1}")
      set(name "${CMAKE_MATCH_3}")
      set(virtuals 0)
      set(members 0)
    elseif(NOT name)
      continue()
    elseif(line MATCHES "^${column}}")
      close_class()
    elseif(line MATCHES "^${column} (public|private|protected):")
      string(COMPARE EQUAL "${CMAKE_MATCH_1}" public public)
    elseif(line MATCHES "^${column}  virtual [^~]")
      math(EXPR virtuals "${virtuals} + 1")
    elseif(public AND line MATCHES "^${column}  [A-Za-z_:]" AND NOT line MATCHES "^ *${not_a_member}")
      # Initial values and arguments of templates aside, a declaration without parentheses; one for each comma.
      string(REGEX REPLACE "(=|{).*@" "@" declared "${line}")
      string(REGEX REPLACE "<[^@]*>" "" declared "${declared}")
      if(declared MATCHES "^[^()]* [A-Za-z_0-9|]+ ?(=|@)$")
        string(REGEX REPLACE "[^,]" "" commas "${declared}")
        string(LENGTH "${commas}" more)
        math(EXPR members "${members} + 1 + ${more}")
      endif()
    endif()
  endforeach()
endforeach()
flotilla_verdict("interfaces" "${files}" "${faults}")
