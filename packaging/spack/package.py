# SPDX-License-Identifier: Apache-2.0
# Recipe for Spack: copy this folder to packages/flotilla of a repository of your own (`spack repo create`), then
# `spack dev-build flotilla@main` in a checkout of Flotilla, or give `git` below the address of one.

from spack.package import *


class Flotilla(CMakePackage, CudaPackage):
    """Trains neural networks on clusters by data parallelism over MPI: one executable, synchronous all-reduce, local
    SGD and parameter servers, on CPUs (oneDNN) and GPUs (cuDNN, NCCL)."""

    license("Apache-2.0", checked_by="developers")

    version("main", branch="main")

    variant("tests", default=False, description="Build the tests")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("mpi@3.1:")
    depends_on("onednn@2.6:3 cpu_runtime=omp")
    depends_on("hdf5@1.10:~mpi+hl")
    depends_on("tomlplusplus@3.3:")
    depends_on("cli11@2.1:")
    depends_on("spdlog")
    depends_on("fmt")
    depends_on("nlohmann-json")
    depends_on("xxhash")
    depends_on("zlib-api")
    depends_on("libjpeg-turbo@1.5:")
    depends_on("libpng")
    depends_on("googletest", when="+tests", type=("build", "link"))
    depends_on("benchmark", when="+tests", type=("build", "link"))
    with when("+cuda"):
        depends_on("cudnn@9:")
        depends_on("nccl")
        depends_on("kokkos@4.7:+cuda")

    conflicts("%gcc@:11", msg="Flotilla needs GCC 12 or later")

    generator("ninja")

    def cmake_args(self):
        # Spack's compiler wrappers choose the processor; Flotilla's own flag must name no other one.
        target = self.spec.target
        flags = target.optimization_flags("gcc", str(self.compiler.version)) if target else ""
        march = [flag.split("=", 1)[1] for flag in flags.split() if flag.startswith("-march=")]
        return [
            self.define("FLOTILLA_ARCHITECTURE", march[0] if march else "x86-64-v3"),
            self.define_from_variant("FLOTILLA_TESTS", "tests"),
            self.define_from_variant("FLOTILLA_CUDA", "cuda"),
        ]
