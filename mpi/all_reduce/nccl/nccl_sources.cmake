# SPDX-License-Identifier: Apache-2.0
# What needs NCCL and the CUDA runtime; tests build it with ones of their own.
set(nccl_sources
    all_reduce/nccl/nccl_all_gather.cpp
    all_reduce/nccl/nccl_all_reduce.cpp
    all_reduce/nccl/nccl_communicator.cpp
    all_reduce/nccl/nccl_hierarchical_all_reduce.cpp
    all_reduce/nccl/nccl_inside.cpp
    all_reduce/nccl/nccl_over_mpi_all_reduce.cpp
    all_reduce/nccl/nccl_stream.cpp)
