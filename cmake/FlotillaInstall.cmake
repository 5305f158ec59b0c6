# SPDX-License-Identifier: Apache-2.0
# What cmake --install lays out below the prefix: the executable, the libraries with their CMake package, decks, job
# scripts, documents, the example, and an environment module. Nothing in it names the prefix, so the tree can be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(shared "${CMAKE_INSTALL_DATADIR}/flotilla")
set(headers "${CMAKE_INSTALL_INCLUDEDIR}/flotilla")
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/Flotilla")
set(modules "${CMAKE_INSTALL_DATADIR}/modulefiles/flotilla")

# Libraries are looked for relative to the executable, then where they were when it was linked.
file(RELATIVE_PATH to_libraries "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
set_target_properties(flotilla PROPERTIES INSTALL_RPATH "$ORIGIN/${to_libraries}" INSTALL_RPATH_USE_LINK_PATH TRUE)
install(TARGETS flotilla RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program)

install(TARGETS flotilla_kernels flotilla_models flotilla_mpi ${FLOTILLA_SRC_LIBRARIES} EXPORT FlotillaTargets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development INCLUDES DESTINATION "${headers}")
# Headers that include a vendor's headers are private to the library.
install(DIRECTORY kernels models mpi src DESTINATION "${headers}" COMPONENT development FILES_MATCHING PATTERN "*.hpp"
        REGEX "/kernels/(cpu|gpu|processor|reference)$" EXCLUDE
        REGEX "/kernels/flat/(chunks|functors|host_flat|host_sweep)[.]hpp$" EXCLUDE
        REGEX "/mpi/(core/(backoff|native)|watchdog/mismatch_detector|all_reduce/(messages|slice_exchange|nccl/nccl_[a-z]+)|push_pull/push_pull_requests)[.]hpp$" EXCLUDE
        REGEX "/src/(files/(gzip_reader|hdf5_handles)|checkpoint/state_json|report/read_run)[.]hpp$"
        EXCLUDE)
install(EXPORT FlotillaTargets NAMESPACE Flotilla:: DESTINATION "${package}" COMPONENT development)
get_directory_property(FLOTILLA_ONEDNN DIRECTORY kernels DEFINITION OneDnn_VERSION)
get_directory_property(FLOTILLA_NCCL_FOUND DIRECTORY mpi DEFINITION Nccl_FOUND)
get_directory_property(FLOTILLA_ONNX_FOUND DIRECTORY src/onnx DEFINITION OnnxProto_FOUND)
configure_package_config_file(cmake/FlotillaConfig.cmake.in "${PROJECT_BINARY_DIR}/FlotillaConfig.cmake"
                              INSTALL_DESTINATION "${package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/FlotillaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/FlotillaConfig.cmake" "${PROJECT_BINARY_DIR}/FlotillaConfigVersion.cmake"
              cmake/FlotillaImported.cmake cmake/FlotillaKokkos.cmake cmake/FindXxHash.cmake cmake/FindOnnxProto.cmake
              kernels/cpu/FindOneDnn.cmake kernels/gpu/FindCudnn.cmake mpi/FindNccl.cmake
        DESTINATION "${package}" COMPONENT development)

install(DIRECTORY inputs examples DESTINATION "${shared}" COMPONENT program)
install(DIRECTORY jobscripts DESTINATION "${shared}" COMPONENT program USE_SOURCE_PERMISSIONS)
# Job scripts look for it on PATH, as they do for flotilla.
install(FILES jobscripts/flotilla_job.sh DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program)
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/jobscripts/flotilla_job.sh" "${PROJECT_BINARY_DIR}/flotilla_job.sh" SYMBOLIC)
install(PROGRAMS scripts/make_lists.sh DESTINATION "${shared}/scripts" COMPONENT program)
# For python3 FILE: no package of the program depends on Python.
install(FILES scripts/rewrite_hdf5.py scripts/to_mlflow.py scripts/to_tensorboard.py scripts/torch_to_hdf5.py DESTINATION "${shared}/scripts" COMPONENT program)

# Documents lie elsewhere than what they link to in the source tree.
install(FILES CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT program)
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT program PATTERN "*.md" EXCLUDE)
file(GLOB documents RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS README.md "docs/*.md"
     "docs/appendix/*.md")
file(RELATIVE_PATH to_shared "/${CMAKE_INSTALL_DOCDIR}" "/${shared}")
foreach(document IN LISTS documents)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${document}")
  file(READ "${document}" text)
  string(REGEX REPLACE "\\]\\(((\\.\\./)*)(inputs|examples)/" "](\\1${to_shared}/\\3/" text "${text}")
  # The sources are not installed: a link to one becomes its text.
  string(REGEX REPLACE "\\[([^]]+)\\]\\((\\.\\./)+(kernels|models|mpi|src)/[^)]*\\)" "\\1" text "${text}")
  file(WRITE "${PROJECT_BINARY_DIR}/installed/${document}" "${text}")
  cmake_path(GET document PARENT_PATH folder)
  install(FILES "${PROJECT_BINARY_DIR}/installed/${document}" DESTINATION "${CMAKE_INSTALL_DOCDIR}/${folder}"
          COMPONENT program)
endforeach()

file(RELATIVE_PATH to_prefix "/${modules}" "/")
configure_file(cmake/modulefile.in "${PROJECT_BINARY_DIR}/modulefile" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/modulefile" DESTINATION "${modules}" COMPONENT program
        RENAME "${PROJECT_VERSION}")
