# SPDX-License-Identifier: Apache-2.0
# Finds cuDNN by header and library, also in the CUDA toolkit's folders: target Cudnn::cudnn, Cudnn_VERSION.
find_path(Cudnn_INCLUDE_DIR cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(Cudnn_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
include(FlotillaImported)
flotilla_import(Cudnn Cudnn::cudnn cudnn_version.h CUDNN)
