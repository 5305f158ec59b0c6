# SPDX-License-Identifier: Apache-2.0
# Finds oneDNN by header and library: target OneDnn::onednn, OneDnn_VERSION. Not by the library's own package, which in
# Debian also looks for the development files of OpenCL, and nothing here uses those.
find_path(OneDnn_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(OneDnn_LIBRARY dnnl)
mark_as_advanced(OneDnn_INCLUDE_DIR OneDnn_LIBRARY)
if(OneDnn_INCLUDE_DIR)
  file(STRINGS "${OneDnn_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" lines REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
  list(JOIN numbers "." OneDnn_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDnn REQUIRED_VARS OneDnn_LIBRARY OneDnn_INCLUDE_DIR VERSION_VAR OneDnn_VERSION)
if(OneDnn_FOUND AND NOT TARGET OneDnn::onednn)
  add_library(OneDnn::onednn UNKNOWN IMPORTED)
  set_target_properties(OneDnn::onednn PROPERTIES IMPORTED_LOCATION "${OneDnn_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${OneDnn_INCLUDE_DIR}")
endif()
