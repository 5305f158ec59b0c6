// SPDX-License-Identifier: Apache-2.0
// cuDNN's convolutions as plain loops on the host, as its documentation describes them. Only what Flotilla
// asks for is there: NHWC images and filters, cross-correlation. Measurements find algorithms that may not be
// chosen, too.
#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/cuda/fake/cudart.hpp"
#include "tests/cuda/fake/cudnn.hpp"
#include "tests/cuda/fake/values.hpp"

struct cudnnContext {
  cudaStream_t stream;
};
struct cudnnTensorStruct {
  flotilla::Precision precision;
  int n, c, h, w;
  std::int64_t place(int image, int channel, int row, int column) const {  // NHWC
    return ((std::int64_t{image} * h + row) * w + column) * c + channel;
  }
  std::int64_t size() const { return std::int64_t{n} * c * h * w; }
};
struct cudnnFilterStruct {
  cudnnTensorStruct values;  // n: outputs, c: inputs of a group
};
struct cudnnConvolutionStruct {
  int padding, stride, groups;
  cudnnMathType_t math;
};

namespace {

using flotilla::fake::store_at;
using flotilla::fake::value_at;

constexpr std::size_t workspace_needed = 1000;
constexpr std::size_t too_large = std::size_t{8} << 30U;

/// A value's place in each of the three operands of a convolution.
struct Product {
  std::int64_t x, w, y;
};

template <class Body>
void for_each_product(const cudnnTensorStruct& x, const cudnnTensorStruct& w, const cudnnTensorStruct& y,
                      const cudnnConvolutionStruct& conv, const Body& body) {
  const int outputs_of_group = w.n / conv.groups;
  for (int n = 0; n < y.n; ++n)
    for (int row = 0; row < y.h; ++row)
      for (int column = 0; column < y.w; ++column)
        for (int o = 0; o < y.c; ++o)
          for (int r = 0; r < w.h; ++r)
            for (int s = 0; s < w.w; ++s) {
              const int from_row = row * conv.stride - conv.padding + r;
              const int from_column = column * conv.stride - conv.padding + s;
              if (from_row < 0 || from_row >= x.h || from_column < 0 || from_column >= x.w) continue;
              for (int i = 0; i < w.c; ++i)
                body(Product{x.place(n, o / outputs_of_group * w.c + i, from_row, from_column),
                             w.place(o, i, r, s), y.place(n, o, row, column)});
            }
}

/// to = sums + share · to, in the precision of the tensor.
void store(const cudnnTensorStruct& to, void* array, const std::vector<double>& sums, double share) {
  for (std::int64_t i = 0; i < to.size(); ++i)
    store_at(
        array, to.precision, i,
        sums[static_cast<std::size_t>(i)] + (share == 0.0 ? 0.0 : share * value_at(array, to.precision, i)));
}

bool on_device(const cudnnTensorStruct& tensor, const void* array) {
  const std::size_t bytes = is_half(tensor.precision) ? 2 : 4;
  return flotilla::fake::is_device_memory(array, static_cast<std::size_t>(tensor.size()) * bytes);
}

flotilla::fake::Convolution last;

struct Operands {
  cudnnTensorStruct x;
  const void* x_array;
  cudnnTensorStruct w;
  const void* w_array;
  cudnnTensorStruct y;
  const void* y_array;
  cudnnConvolutionStruct how;

  double x_at(const Product& at) const { return value_at(x_array, x.precision, at.x); }
  double w_at(const Product& at) const { return value_at(w_array, w.precision, at.w); }
  double y_at(const Product& at) const { return value_at(y_array, y.precision, at.y); }
};
struct ByAlgorithm {
  int algorithm;
  void* workspace;
  std::size_t bytes;
};
struct Term {
  std::int64_t place;
  double value;
};

/// A direction: result = the sums of its terms. Refuses what does not lie on the GPU, an algorithm that does
/// not work, or one without its workspace.
template <class TermOf>
cudnnStatus_t convolve(const Operands& o, const ByAlgorithm& by, const void* alpha, const void* beta,
                       const cudnnTensorStruct& result, void* array, const TermOf& term_of) {
  last = {by.algorithm, o.how.math};
  if (!on_device(o.x, o.x_array) || !on_device(o.w, o.w_array) || !on_device(o.y, o.y_array) ||
      by.algorithm < 2 || by.bytes < workspace_needed ||
      !flotilla::fake::is_device_memory(by.workspace, by.bytes) || *static_cast<const float*>(alpha) != 1.0F)
    return CUDNN_STATUS_BAD_PARAM;
  // As they are now: of what is captured the library reads everything but the arrays only once.
  const double share = *static_cast<const float*>(beta);
  flotilla::fake::in_stream([=] {
    flotilla::fake::spoil(by.workspace, by.bytes);
    std::vector<double> sums(static_cast<std::size_t>(result.size()));
    for_each_product(o.x, o.w, o.y, o.how, [&](const Product& at) {
      const Term term = term_of(o, at);
      sums[static_cast<std::size_t>(term.place)] += term.value;
    });
    store(result, array, sums, share);
  });
  return CUDNN_STATUS_SUCCESS;
}

/// Four algorithms, the fastest first: one that does not work, one that needs too much memory, one with other
/// bits each time, and one for everybody.
template <class Result, class Algorithm>
cudnnStatus_t candidates(int room, int* count, Result* results) {
  *count = std::min(room, 4);
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].algo = static_cast<Algorithm>(i);
    results[i].status = i == 0 ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
    results[i].time = static_cast<float>(i + 1);
    results[i].memory = i == 1 ? too_large : workspace_needed;
    results[i].determinism = i == 3 ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    results[i].mathType = CUDNN_DEFAULT_MATH;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspace_of(int algorithm, std::size_t* bytes) {
  *bytes = algorithm == 1 ? too_large : workspace_needed;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t verdict(bool good) {
  return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

}  // namespace

flotilla::fake::Convolution flotilla::fake::last_convolution() {
  return last;
}

extern "C" {

std::size_t cudnnGetVersion() {
  return 91900;
}
const char* cudnnGetErrorString(cudnnStatus_t) {
  return "an error of the fake cuDNN";
}
void cudnnGetLastErrorString(char* message, std::size_t) {
  message[0] = '\0';
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* made) {
  *made = new cudnnTensorStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t made) {
  delete made;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  *tensor = {flotilla::fake::precision_of(type), n, c, h, w};
  return verdict(format == CUDNN_TENSOR_NHWC);
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* made) {
  *made = new cudnnFilterStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t made) {
  delete made;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  filter->values = {flotilla::fake::precision_of(type), k, c, h, w};
  return verdict(format == CUDNN_TENSOR_NHWC);
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* made) {
  *made = new cudnnConvolutionStruct{0, 1, 1, CUDNN_DEFAULT_MATH};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t made) {
  delete made;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv, int pad_h, int pad_w, int u,
                                              int v, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  conv->padding = pad_h;
  conv->stride = u;
  return verdict(pad_h == pad_w && u == v && dilation_h == 1 && dilation_w == 1 &&
                 mode == CUDNN_CROSS_CORRELATION && compute == CUDNN_DATA_FLOAT);
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv, int groups) {
  conv->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv, cudnnMathType_t math) {
  conv->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     const void* x_array, cudnnFilterDescriptor_t w,
                                                     const void* w_array, cudnnConvolutionDescriptor_t,
                                                     cudnnTensorDescriptor_t y, void* y_array, int room,
                                                     int* count, cudnnConvolutionFwdAlgoPerf_t* results,
                                                     void*, std::size_t) {
  if (!on_device(*x, x_array) || !on_device(w->values, w_array) || !on_device(*y, y_array))
    return CUDNN_STATUS_BAD_PARAM;
  return candidates<cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t>(room, count, results);
}
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                     cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t,
                                                     cudnnTensorDescriptor_t, int room, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  return candidates<cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t>(room, count, results);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                      cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t,
                                                      cudnnTensorDescriptor_t,
                                                      cudnnConvolutionFwdAlgo_t algorithm,
                                                      std::size_t* bytes) {
  return workspace_of(algorithm, bytes);
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t x,
                                      const void* x_array, cudnnFilterDescriptor_t w, const void* w_array,
                                      cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, std::size_t bytes, const void* beta,
                                      cudnnTensorDescriptor_t y, void* y_array) {
  return convolve({*x, x_array, w->values, w_array, *y, y_array, *conv}, {algorithm, workspace, bytes}, alpha,
                  beta, *y, y_array, [=](const Operands& o, const Product& at) {
                    return Term{at.y, o.x_at(at) * o.w_at(at)};
                  });
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t, cudnnFilterDescriptor_t w, const void* w_array, cudnnTensorDescriptor_t dy,
    const void* dy_array, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t dx, void* dx_array, int room,
    int* count, cudnnConvolutionBwdDataAlgoPerf_t* results, void*, std::size_t) {
  if (!on_device(*dx, dx_array) || !on_device(w->values, w_array) || !on_device(*dy, dy_array))
    return CUDNN_STATUS_BAD_PARAM;
  return candidates<cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t>(room, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t,
                                                          cudnnTensorDescriptor_t,
                                                          cudnnConvolutionDescriptor_t,
                                                          cudnnTensorDescriptor_t, int room, int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return candidates<cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t>(room, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
    cudnnTensorDescriptor_t, cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes) {
  return workspace_of(algorithm, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t, const void* alpha, cudnnFilterDescriptor_t w,
                                           const void* w_array, cudnnTensorDescriptor_t dy,
                                           const void* dy_array, cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t bytes, const void* beta, cudnnTensorDescriptor_t dx,
                                           void* dx_array) {
  return convolve({*dx, dx_array, w->values, w_array, *dy, dy_array, *conv}, {algorithm, workspace, bytes},
                  alpha, beta, *dx, dx_array, [=](const Operands& o, const Product& at) {
                    return Term{at.x, o.y_at(at) * o.w_at(at)};
                  });
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t, cudnnTensorDescriptor_t x, const void* x_array, cudnnTensorDescriptor_t dy,
    const void* dy_array, cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t dw, void* dw_array, int room,
    int* count, cudnnConvolutionBwdFilterAlgoPerf_t* results, void*, std::size_t) {
  if (!on_device(*x, x_array) || !on_device(dw->values, dw_array) || !on_device(*dy, dy_array))
    return CUDNN_STATUS_BAD_PARAM;
  return candidates<cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t>(room, count,
                                                                                          results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                            cudnnTensorDescriptor_t,
                                                            cudnnConvolutionDescriptor_t,
                                                            cudnnFilterDescriptor_t, int room, int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return candidates<cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t>(room, count,
                                                                                          results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
    cudnnFilterDescriptor_t, cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
  return workspace_of(algorithm, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t x,
                                             const void* x_array, cudnnTensorDescriptor_t dy,
                                             const void* dy_array, cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t bytes, const void* beta, cudnnFilterDescriptor_t dw,
                                             void* dw_array) {
  return convolve({*x, x_array, dw->values, dw_array, *dy, dy_array, *conv}, {algorithm, workspace, bytes},
                  alpha, beta, dw->values, dw_array, [=](const Operands& o, const Product& at) {
                    return Term{at.w, o.x_at(at) * o.y_at(at)};
                  });
}

}  // extern "C"
