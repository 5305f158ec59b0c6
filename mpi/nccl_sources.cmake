# SPDX-License-Identifier: Apache-2.0
# What needs NCCL and the CUDA runtime; tests build it with ones of their own.
set(nccl_sources
    nccl_all_reduce.cpp
    nccl_communicator.cpp
    nccl_hierarchical_all_reduce.cpp
    nccl_inside.cpp
    nccl_over_mpi_all_reduce.cpp
    nccl_stream.cpp)
