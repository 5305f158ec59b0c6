# SPDX-License-Identifier: Apache-2.0
# Finds cuDNN by header and library, beside the CUDA toolkit too: target Cudnn::cudnn, Cudnn_VERSION.
find_path(Cudnn_INCLUDE_DIR cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(Cudnn_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
mark_as_advanced(Cudnn_INCLUDE_DIR Cudnn_LIBRARY)
if(Cudnn_INCLUDE_DIR)
  file(STRINGS "${Cudnn_INCLUDE_DIR}/cudnn_version.h" lines REGEX "define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
  string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
  list(JOIN numbers "." Cudnn_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cudnn REQUIRED_VARS Cudnn_LIBRARY Cudnn_INCLUDE_DIR VERSION_VAR Cudnn_VERSION)
if(Cudnn_FOUND AND NOT TARGET Cudnn::cudnn)
  add_library(Cudnn::cudnn UNKNOWN IMPORTED GLOBAL)
  set_target_properties(Cudnn::cudnn PROPERTIES IMPORTED_LOCATION "${Cudnn_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${Cudnn_INCLUDE_DIR}")
endif()
