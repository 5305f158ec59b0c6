# SPDX-License-Identifier: Apache-2.0
# Finds oneDNN by header and library: target OneDnn::onednn, OneDnn_VERSION. Not by the library's own package, which in
# Debian also looks for the development files of OpenCL, and nothing here uses those.
find_path(OneDnn_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(OneDnn_LIBRARY dnnl)
include(FlotillaImported)
flotilla_import(OneDnn OneDnn::onednn oneapi/dnnl/dnnl_version.h DNNL_VERSION)
