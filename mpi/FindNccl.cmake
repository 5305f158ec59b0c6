# SPDX-License-Identifier: Apache-2.0
# Finds NCCL by header and library, also inside the CUDA toolkit and where NCCL_ROOT points: target Nccl::nccl, Nccl_VERSION.
# The toolkit's folder is known once CUDAToolkit was looked for.
find_path(Nccl_INCLUDE_DIR nccl.h HINTS "$ENV{NCCL_ROOT}" "$ENV{NCCL_HOME}" PATHS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda
          PATH_SUFFIXES include)
find_library(Nccl_LIBRARY nccl HINTS "$ENV{NCCL_ROOT}" "$ENV{NCCL_HOME}" PATHS ${CUDAToolkit_LIBRARY_DIR} /usr/local/cuda
             PATH_SUFFIXES lib64 lib)
mark_as_advanced(Nccl_INCLUDE_DIR Nccl_LIBRARY)
if(Nccl_INCLUDE_DIR)
  file(STRINGS "${Nccl_INCLUDE_DIR}/nccl.h" lines REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
  list(JOIN numbers "." Nccl_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Nccl REQUIRED_VARS Nccl_LIBRARY Nccl_INCLUDE_DIR VERSION_VAR Nccl_VERSION)
if(Nccl_FOUND AND NOT TARGET Nccl::nccl)
  add_library(Nccl::nccl UNKNOWN IMPORTED)
  set_target_properties(Nccl::nccl PROPERTIES IMPORTED_LOCATION "${Nccl_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${Nccl_INCLUDE_DIR}")
endif()
