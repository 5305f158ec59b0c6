# SPDX-License-Identifier: Apache-2.0
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)  # For the naming check and for editors.

# flotilla_options(<target>...): the language, the warnings and the processor of all of Flotilla's targets.
# Warnings become errors with -DCMAKE_COMPILE_WARNING_AS_ERROR=ON (scripts/test.sh sets it).
# No -ffast-math: NaN must stay visible. Only what keeps loops from being vectorised and has no effect on values is off.
function(flotilla_options)
  # nvcc compiles the few files that include a Kokkos for GPUs (FlotillaKokkos.cmake, which has its options).
  set(options -Wall -Wextra -Wpedantic -Wconversion -Wshadow -march=${FLOTILLA_ARCHITECTURE} -fno-math-errno -fno-trapping-math)
  foreach(target IN LISTS ARGV)
    target_compile_features(${target} PUBLIC cxx_std_20)
    set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
    target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:${options}>")
  endforeach()
endfunction()

# flotilla_library(<name> SOURCES <file>... [LINKS <public target>...] [RUNS_ONCE])
# RUNS_ONCE: its code runs once or a few times in a run. With -Os the compiler needs three quarters of the time of -O2 and
# writes less.
function(flotilla_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "RUNS_ONCE" "" "SOURCES;LINKS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "flotilla_library(${name}): expected SOURCES, got '${ARGN}'")
  endif()
  add_library(${name} STATIC ${arg_SOURCES})
  string(REPLACE flotilla_ "" part ${name})
  add_library(Flotilla::${part} ALIAS ${name})  # The name that the installed package gives it.
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${part})
  target_link_libraries(${name} PUBLIC ${arg_LINKS})
  flotilla_options(${name})
  # GCC takes sources that are joined (CMAKE_UNITY_BUILD) for headers, whose classes should hold nothing unnamed.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE "$<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:-Wno-subobject-linkage>")
  endif()
  # Messages of errors name the source file: from the root, not where it lay when this was built.
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>")
  if(arg_RUNS_ONCE)
    target_compile_options(${name} PRIVATE "$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-Os>")
  endif()
endfunction()
