# SPDX-License-Identifier: Apache-2.0
# Flotilla::kokkos: Kokkos as it is found. For the build, and for whoever uses the installed package.
find_package(Kokkos REQUIRED)
if(NOT TARGET Flotilla::kokkos)
  add_library(Flotilla::kokkos INTERFACE IMPORTED GLOBAL)
  # Debian's Kokkos 3.4 (of Trilinos) names a folder in its target that does not exist, and the right one in variables.
  if(Kokkos_INCLUDE_DIRS)
    set_target_properties(Flotilla::kokkos PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${Kokkos_INCLUDE_DIRS}"
                                                      INTERFACE_LINK_LIBRARIES "${Kokkos_LIBRARIES}")
  else()
    set_target_properties(Flotilla::kokkos PROPERTIES INTERFACE_LINK_LIBRARIES Kokkos::kokkos)
  endif()
endif()
