// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/driver.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

void* library = nullptr;

/// The library's function of that name, called.
template <class... Arguments>
CUresult call(const char* name, Arguments... arguments) {
  using Function = CUresult(Arguments...);
  auto* const function = library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
  return function == nullptr ? CUDA_ERROR_NOT_INITIALIZED : function(arguments...);
}

}  // namespace

void open_cuda_driver() {
  if (library != nullptr) return;
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw LibraryError("dlopen", dlerror());
}

}  // namespace flotilla

// The driver functions that Kokkos 4.6.99 calls. If another version calls more, the linker asks for the
// library itself.
extern "C" {

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return flotilla::call("cuStreamGetCtx", stream, context);
}
CUresult cuCtxPushCurrent(CUcontext context) {  // which cuda.h makes _v2
  return flotilla::call("cuCtxPushCurrent_v2", context);
}
CUresult cuCtxGetDevice(CUdevice* device) {
  return flotilla::call("cuCtxGetDevice", device);
}

}  // extern "C"
