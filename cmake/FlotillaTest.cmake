# SPDX-License-Identifier: Apache-2.0
find_package(GTest REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)  # The C interface only
include(CheckLinkerFlag)

# Tests are many executables of the same libraries: mold, where it is installed, links one in a tenth of the time.
check_linker_flag(CXX "-fuse-ld=mold" FLOTILLA_HAS_MOLD)
if(FLOTILLA_HAS_MOLD)
  add_link_options("-fuse-ld=mold")
endif()

# What Open MPI needs in tests: more ranks than cores, as root, and yielding while it waits (8 ms a collective otherwise).
# The PRTE_ names are those of Open MPI 5. ob1 is what a machine without a fast network gets anyway; looking for one loads
# the libraries of psm and psm2, which then measure the clock for 0.1 s each. Without IPv6: version 5.0.7 pairs no addresses
# of hosts that have both (docs/troubleshooting.md).
set(FLOTILLA_TEST_ENVIRONMENT
    "OMPI_ALLOW_RUN_AS_ROOT=1" "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1" "OMPI_MCA_mpi_yield_when_idle=1"
    "OMPI_MCA_rmaps_base_oversubscribe=1" "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe"
    "OMPI_MCA_hwloc_base_binding_policy=none" "PRTE_MCA_hwloc_default_binding_policy=none"
    "OMPI_MCA_pml=ob1" "OMPI_MCA_mtl=^psm,psm2" "OMPI_MCA_btl_tcp_disable_family=6" "OMP_NUM_THREADS=1")

# What nearly every test includes, compiled once. (-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON: without.)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/tests/precompiled.cpp" CONTENT "")
add_library(precompiled_for_tests OBJECT "${PROJECT_BINARY_DIR}/generated/tests/precompiled.cpp")
target_link_libraries(precompiled_for_tests PRIVATE GTest::gtest)
target_precompile_headers(
  precompiled_for_tests PRIVATE <gtest/gtest.h> <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <fstream>
                                <functional> <map> <memory> <optional> <span> <string> <thread> <vector>)

# flotilla_test_options(<target>): for sources with GoogleTest. The compiler's time goes into its macros: -O1 needs two
# thirds of what -O2 does. GCC then fuses products with sums as in the libraries, whose bits tests expect,
# and takes sums of strings for writes past their ends.
function(flotilla_test_options target)
  flotilla_options(${target})
  set(options -O1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND options -fexpensive-optimizations -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow
         -Wno-stringop-overread)
  endif()
  target_compile_options(${target} PRIVATE "$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:${options}>")
  if(NOT target STREQUAL "precompiled_for_tests")
    target_precompile_headers(${target} REUSE_FROM precompiled_for_tests)
  endif()
endfunction()
flotilla_test_options(precompiled_for_tests)

# flotilla_add_test(<name> SOURCES <file>... [LINKS <target>...])
# One GoogleTest executable without MPI, one ctest entry.
function(flotilla_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "flotilla_add_test(${name}): expected SOURCES, got '${ARGN}'")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} test_bounds GTest::gtest GTest::gtest_main)
  flotilla_test_options(${name})
  target_compile_definitions(${name} PRIVATE FLOTILLA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set(timeout 900)
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    set(timeout 3000)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} LABELS "unit" ENVIRONMENT "${FLOTILLA_TEST_ENVIRONMENT}")
endfunction()

# flotilla_add_mpi_test(<name> SOURCES <file>... RANKS <n>... [LINKS <target>...])
# One executable, one ctest entry per rank count: <name>.np1, <name>.np2, …
function(flotilla_add_mpi_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;RANKS;LINKS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES OR NOT arg_RANKS)
    message(FATAL_ERROR "flotilla_add_mpi_test(${name}): expected SOURCES and RANKS, got '${ARGN}'")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} test_bounds mpi_test_main)
  flotilla_test_options(${name})
  target_compile_definitions(${name} PRIVATE FLOTILLA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  foreach(ranks IN LISTS arg_RANKS)
    add_test(NAME ${name}.np${ranks}
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}.np${ranks} PROPERTIES PROCESSORS ${ranks} TIMEOUT 900 LABELS "mpi;np${ranks}"
                         ENVIRONMENT "${FLOTILLA_TEST_ENVIRONMENT}")
  endforeach()
endfunction()

# flotilla_add_script_test(<name> <seconds> <script> [<argument>...])
# One ctest entry that runs `bash SCRIPT ARGUMENTS…` with the paths of cmake and mpirun in CMAKE and MPIEXEC. Its label is the
# name up to the dot.
function(flotilla_add_script_test name seconds script)
  string(REGEX MATCH "^[^.]+" label ${name})
  add_test(NAME ${name} COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/${script}" ${ARGN})
  set_tests_properties(
    ${name} PROPERTIES TIMEOUT ${seconds} LABELS ${label}
                       ENVIRONMENT "${FLOTILLA_TEST_ENVIRONMENT};CMAKE=${CMAKE_COMMAND};MPIEXEC=${MPIEXEC_EXECUTABLE}")
endfunction()
