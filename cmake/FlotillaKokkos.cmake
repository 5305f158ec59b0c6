# SPDX-License-Identifier: Apache-2.0
# Flotilla::kokkos: Kokkos as it is found, for builds with CUDA and projects that use what they installed. Tests run the loops
# of GPUs on the host wherever there is a Kokkos.
if(FLOTILLA_CUDA)
  find_package(Kokkos REQUIRED)
elseif(FLOTILLA_TESTS)
  find_package(Kokkos QUIET)
endif()
if(Kokkos_FOUND AND NOT TARGET Flotilla::kokkos)
  add_library(Flotilla::kokkos INTERFACE IMPORTED GLOBAL)
  # Debian's Kokkos 3.4 (of Trilinos) names a folder in its target that does not exist, and the right one in variables.
  if(Kokkos_INCLUDE_DIRS)
    set_target_properties(Flotilla::kokkos PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${Kokkos_INCLUDE_DIRS}"
                                                      INTERFACE_LINK_LIBRARIES "${Kokkos_LIBRARIES}")
  else()
    set_target_properties(Flotilla::kokkos PROPERTIES INTERFACE_LINK_LIBRARIES Kokkos::kokkos)
  endif()
endif()

# FLOTILLA_KOKKOS_CUDA: this Kokkos computes on GPUs. Then only a CUDA compiler can read its headers, for the host too.
set(FLOTILLA_KOKKOS_CUDA OFF)
if("CUDA" IN_LIST Kokkos_DEVICES)
  set(FLOTILLA_KOKKOS_CUDA ON)
  if(Kokkos_VERSION VERSION_LESS 4.6.99)
    message(FATAL_ERROR "Kokkos ${Kokkos_VERSION} (${Kokkos_DIR}) was built with CUDA: Flotilla needs 4.7 or later for that")
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES ${Kokkos_CUDA_ARCHITECTURES})
  endif()
  enable_language(CUDA)
endif()

# flotilla_kokkos_sources(<target> <file>...): the files of a target that include Kokkos.
# Their functors call what is constexpr; nvcc says that a conversion to the own type is never used, concepts or not (554).
function(flotilla_kokkos_sources target)
  target_link_libraries(${target} PRIVATE Flotilla::kokkos)
  if(FLOTILLA_KOKKOS_CUDA)
    set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES LANGUAGE CUDA)
    # -std by hand: CMake 3.25 knows no C++20 in CUDA.
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;--diag-suppress=554;-Xcompiler=-march=${FLOTILLA_ARCHITECTURE}>")
  endif()
endfunction()
