# SPDX-License-Identifier: Apache-2.0
# What needs NCCL and the CUDA runtime; tests build it with ones of their own.
set(nccl_sources
    all_reduce/nccl/nccl_all_reduce.cpp
    all_reduce/nccl/nccl_communicator.cpp)
