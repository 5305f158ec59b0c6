# SPDX-License-Identifier: Apache-2.0
# The Debian package: `scripts/package.sh` builds for x86-64-v3, makes the manual pages and calls CPack. What lies in it is
# the component "program" of FlotillaInstall.cmake; headers and libraries for programs of users' own stay with
# `cmake --install`.
set(FLOTILLA_PACKAGER "Flotilla developers <developers@flotilla.invalid>"
    CACHE STRING "Who made a package, \"Name <mail>\": the field Maintainer")

# Pages made from --help (help2man); without that target there are none to install.
find_program(HELP2MAN help2man)
if(HELP2MAN)
  set(manual "${PROJECT_BINARY_DIR}/manual")
  add_custom_target(
    manual
    COMMAND "${PROJECT_SOURCE_DIR}/scripts/make_manual.sh" "$<TARGET_FILE:flotilla>" "${manual}"
    DEPENDS flotilla
    COMMENT "Making the manual pages in ${manual}")
  install(DIRECTORY "${manual}/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT program OPTIONAL
          FILES_MATCHING PATTERN "*.1.gz")
endif()
install(FILES scripts/completion.bash DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME flotilla
        COMPONENT program)

# What Debian wants to find in /usr/share/doc/flotilla of the package.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  install(FILES packaging/debian/copyright DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT program)
  install(FILES "${PROJECT_BINARY_DIR}/changelog.gz" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT program OPTIONAL)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME flotilla)
set(CPACK_PACKAGE_CONTACT "${FLOTILLA_PACKAGER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains neural networks on clusters by data parallelism over MPI")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Flotilla is one executable that mpirun or srun starts: every rank trains on
its own part of the data or holds parameters for the others. Models, data and
strategies (synchronous all-reduce, local SGD, parameter servers) stand in a
text file.
.
This package is built for CPUs with AVX2 (x86-64-v3, from 2013 on).")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# mpirun, and the remote shell or Slurm that it wants, come with the launcher.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "openmpi-bin")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)
# A package for the processor of the machine that built it would not start on others.
configure_file(cmake/check_package.cmake.in "${PROJECT_BINARY_DIR}/check_package.cmake" @ONLY)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_BINARY_DIR}/check_package.cmake")
include(CPack)
