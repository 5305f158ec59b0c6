# SPDX-License-Identifier: Apache-2.0
# Finds NCCL by header and library, also inside the CUDA toolkit and where NCCL_ROOT points: target Nccl::nccl, Nccl_VERSION.
# The toolkit's folder is known once CUDAToolkit was looked for.
find_path(Nccl_INCLUDE_DIR nccl.h HINTS "$ENV{NCCL_ROOT}" "$ENV{NCCL_HOME}" PATHS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda
          PATH_SUFFIXES include)
find_library(Nccl_LIBRARY nccl HINTS "$ENV{NCCL_ROOT}" "$ENV{NCCL_HOME}" PATHS ${CUDAToolkit_LIBRARY_DIR} /usr/local/cuda
             PATH_SUFFIXES lib64 lib)
include(FlotillaImported)
flotilla_import(Nccl Nccl::nccl nccl.h NCCL)
