# SPDX-License-Identifier: Apache-2.0
find_package(GTest REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)

# What Open MPI needs in tests: more ranks than cores, as root, and yielding while it waits (8 ms a collective otherwise).
# The PRTE_ names are those of Open MPI 5. ob1 is what a machine without a fast network gets anyway; looking for one loads
# the libraries of psm and psm2, which then measure the clock for 0.1 s each.
set(FLOTILLA_TEST_ENVIRONMENT
    "OMPI_ALLOW_RUN_AS_ROOT=1" "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1" "OMPI_MCA_mpi_yield_when_idle=1"
    "OMPI_MCA_rmaps_base_oversubscribe=1" "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe"
    "OMPI_MCA_hwloc_base_binding_policy=none" "PRTE_MCA_hwloc_default_binding_policy=none"
    "OMPI_MCA_pml=ob1" "OMPI_MCA_mtl=^psm,psm2" "OMP_NUM_THREADS=1")

# flotilla_add_test(<name> SOURCES <file>... [LINKS <target>...])
# One GoogleTest executable without MPI, one ctest entry.
function(flotilla_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "flotilla_add_test(${name}): expected SOURCES, got '${ARGN}'")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} GTest::gtest GTest::gtest_main)
  flotilla_options(${name})
  target_compile_definitions(${name} PRIVATE FLOTILLA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS "unit" ENVIRONMENT "${FLOTILLA_TEST_ENVIRONMENT}")
endfunction()

# flotilla_add_mpi_test(<name> SOURCES <file>... RANKS <n>... [LINKS <target>...])
# One executable, one ctest entry per rank count: <name>.np1, <name>.np2, …
function(flotilla_add_mpi_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;RANKS;LINKS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES OR NOT arg_RANKS)
    message(FATAL_ERROR "flotilla_add_mpi_test(${name}): expected SOURCES and RANKS, got '${ARGN}'")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} mpi_test_main)
  flotilla_options(${name})
  target_compile_definitions(${name} PRIVATE FLOTILLA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  foreach(ranks IN LISTS arg_RANKS)
    add_test(NAME ${name}.np${ranks}
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}.np${ranks} PROPERTIES PROCESSORS ${ranks} TIMEOUT 300 LABELS "mpi;np${ranks}"
                         ENVIRONMENT "${FLOTILLA_TEST_ENVIRONMENT}")
  endforeach()
endfunction()
