// SPDX-License-Identifier: Apache-2.0
// cuDNN's convolutions as plain loops on the host: NHWC, cross-correlation. Measurements find algorithms that
// may not be chosen, too. Stricter than the documentation: in half precision tensor cores take channels by
// eights only, and every array begins at a multiple of 16 bytes.
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "tests/cuda/fake/cudart.hpp"
#include "tests/cuda/fake/cudnn.hpp"
#include "tests/cuda/fake/memory.hpp"
#include "tests/cuda/fake/queues.hpp"
#include "tests/cuda/fake/values.hpp"

struct cudnnContext {
  cudaStream_t stream;
  std::set<std::vector<std::int64_t>> measured{};  // before
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
constexpr int always_there = 3;  // the algorithm that does without tensor cores
int convolutions_to_refuse = 0;
flotilla::fake::Convolution last;

/// One of the three operands of a convolution.
struct Values {
  cudnnTensorStruct tensor;
  const void* array;
  double at(std::int64_t place) const { return value_at(array, tensor.precision, place); }
};
/// Images, filters and outputs, or what stands for them: of_x, of_w, of_y.
using Operands = std::array<Values, 3>;
constexpr std::size_t of_x = 0;
constexpr std::size_t of_w = 1;
constexpr std::size_t of_y = 2;
/// A value's place in each of them.
using Places = std::array<std::int64_t, 3>;

/// Calls body(places of a product's first channel, channels) for all products of a convolution: those of the
/// channels of a group lie side by side in x and w, and are one value of y.
template <class Body>
void for_each_row(const Operands& operands, const cudnnConvolutionStruct& conv, const Body& body) {
  const cudnnTensorStruct& x = operands[of_x].tensor;
  const cudnnTensorStruct& w = operands[of_w].tensor;
  const cudnnTensorStruct& y = operands[of_y].tensor;
  const int outputs_of_group = w.n / conv.groups;
  for (int n = 0; n < y.n; ++n)
    for (int row = 0; row < y.h; ++row)
      for (int column = 0; column < y.w; ++column)
        for (int r = 0; r < w.h; ++r)
          for (int s = 0; s < w.w; ++s) {
            const int from_row = row * conv.stride - conv.padding + r;
            const int from_column = column * conv.stride - conv.padding + s;
            if (from_row < 0 || from_row >= x.h || from_column < 0 || from_column >= x.w) continue;
            for (int o = 0; o < y.c; ++o)
              body(Places{x.place(n, o / outputs_of_group * w.c, from_row, from_column), w.place(o, 0, r, s),
                          y.place(n, o, row, column)},
                   w.c);
          }
}

std::vector<double> all_of(const Values& values) {
  std::vector<double> all(static_cast<std::size_t>(values.tensor.size()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = values.at(static_cast<std::int64_t>(i));
  return all;
}

/// What each value of the operand `to` is the sum of: products of the two others.
std::vector<double> sums_of(const Operands& operands, const cudnnConvolutionStruct& conv, std::size_t to) {
  std::array<std::vector<double>, 3> values;
  for (std::size_t i = 0; i < 3; ++i)
    if (i != to) values[i] = all_of(operands[i]);
  values[to].resize(static_cast<std::size_t>(operands[to].tensor.size()));
  for_each_row(operands, conv, [&](const Places& at, int channels) {
    double* const x = &values[of_x][static_cast<std::size_t>(at[of_x])];
    double* const w = &values[of_w][static_cast<std::size_t>(at[of_w])];
    double& y = values[of_y][static_cast<std::size_t>(at[of_y])];
    for (int i = 0; i < channels; ++i) {
      if (to == of_x) x[i] += w[i] * y;
      if (to == of_w) w[i] += x[i] * y;
      if (to == of_y) y += x[i] * w[i];
    }
  });
  return values[to];
}

/// to = sums + share · to, in the precision of the tensor.
void store(const cudnnTensorStruct& to, void* array, const std::vector<double>& sums, double share) {
  for (std::int64_t i = 0; i < to.size(); ++i)
    store_at(
        array, to.precision, i,
        sums[static_cast<std::size_t>(i)] + (share == 0.0 ? 0.0 : share * value_at(array, to.precision, i)));
}

/// Whether the extents of images, filters and outputs are those of one convolution.
bool fits(const Operands& operands, const cudnnConvolutionStruct& conv) {
  const cudnnTensorStruct& x = operands[of_x].tensor;
  const cudnnTensorStruct& w = operands[of_w].tensor;
  const cudnnTensorStruct& y = operands[of_y].tensor;
  return y.n == x.n && y.c == w.n && x.c == w.c * conv.groups && w.n % conv.groups == 0 &&
         y.h == (x.h + 2 * conv.padding - w.h) / conv.stride + 1 &&
         y.w == (x.w + 2 * conv.padding - w.w) / conv.stride + 1;
}

bool on_device(const Operands& operands) {
  return std::ranges::all_of(operands, [](const Values& one) {
    const std::size_t bytes = is_half(one.tensor.precision) ? 2 : 4;
    return reinterpret_cast<std::uintptr_t>(one.array) % 16 == 0 &&
           flotilla::fake::is_device_memory(one.array, static_cast<std::size_t>(one.tensor.size()) * bytes);
  });
}

/// Whether tensor cores take a convolution with these filters.
bool suits_tensor_cores(const cudnnFilterStruct& filter, const cudnnConvolutionStruct& conv) {
  return !is_half(filter.values.precision) ||
         (filter.values.c % 8 == 0 && filter.values.n / conv.groups % 8 == 0);
}

bool can_do(int algorithm, const cudnnFilterStruct& filter, const cudnnConvolutionStruct& conv) {
  return suits_tensor_cores(filter, conv) || (algorithm == always_there && conv.math != CUDNN_TENSOR_OP_MATH);
}

/// The operand `to` = the sum of products of the two others + beta · `to`, into `result`. Refused unless all
/// are in the GPU's memory, the algorithm is one that works, and it has its workspace.
cudnnStatus_t convolve(cudnnHandle_t handle, const cudnnConvolutionStruct& conv, const Operands& operands,
                       std::size_t to, void* result, int algorithm, void* workspace, std::size_t bytes,
                       const void* alpha, const void* beta) {
  last = {algorithm, conv.math};
  if (convolutions_to_refuse > 0 && flotilla::fake::capturing()) {
    --convolutions_to_refuse;
    return CUDNN_STATUS_EXECUTION_FAILED;
  }
  if (!can_do(algorithm, {operands[of_w].tensor}, conv)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!fits(operands, conv) || !on_device(operands) || algorithm < 2 || bytes < workspace_needed ||
      !flotilla::fake::is_device_memory(workspace, bytes) || *static_cast<const float*>(alpha) != 1.0F)
    return CUDNN_STATUS_BAD_PARAM;
  // The scalar is read now: the library reads all captured arguments except the arrays only once.
  const double share = *static_cast<const float*>(beta);
  flotilla::fake::in_stream(handle->stream, [=] {
    flotilla::fake::spoil(workspace, bytes);
    store(operands[to].tensor, result, sums_of(operands, conv, to), share);
  });
  return CUDNN_STATUS_SUCCESS;
}

/// Four algorithms, the fastest first: one that does not work, one that needs too much memory, one with other
/// bits each time, and one that is always available.
template <class Result>
cudnnStatus_t candidates(const cudnnFilterStruct& filter, const cudnnConvolutionStruct& conv, int room,
                         int* count, Result* results) {
  const bool suitable = suits_tensor_cores(filter, conv);
  *count = std::min(room, 4);
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].algo = static_cast<decltype(results[i].algo)>(i);
    results[i].status =
        i == always_there || (i > 0 && suitable) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    results[i].time = static_cast<float>(i + 1);
    results[i].memory = i == 1 ? too_large : workspace_needed;
    results[i].determinism = i == always_there ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    results[i].mathType = !is_half(filter.values.precision) ? CUDNN_DEFAULT_MATH
                          : suitable                        ? CUDNN_TENSOR_OP_MATH
                                                            : CUDNN_FMA_MATH;
  }
  return CUDNN_STATUS_SUCCESS;
}

/// Whether all that is read holds numbers other than zero.
bool is_lively(const Values& values) {
  const std::vector<double> all = all_of(values);
  const auto zeros = std::ranges::count(all, 0.0);
  return 2 * zeros < std::ssize(all) &&
         std::ranges::all_of(all, [](double value) { return std::isfinite(value); });
}

/// The algorithms of a convolution by time, measured on these operands, of which `to` is overwritten. Where
/// they are zeros, or in the first measurement of a shape and pass, the two that work have changed places.
template <class Result>
cudnnStatus_t measured(cudnnHandle_t handle, const cudnnConvolutionStruct& conv, const Operands& operands,
                       std::size_t to, int room, int* count, Result* results) {
  if (!fits(operands, conv) || !on_device(operands)) return CUDNN_STATUS_BAD_PARAM;
  if (cudaStreamSynchronize(handle->stream) != cudaSuccess) return CUDNN_STATUS_EXECUTION_FAILED;
  std::vector<std::int64_t> measurement = {static_cast<std::int64_t>(to)};
  bool lively = true;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const cudnnTensorStruct& tensor = operands[i].tensor;
    measurement.insert(measurement.end(), {tensor.n, tensor.c, tensor.h, tensor.w});
    if (i != to) lively = lively && is_lively(operands[i]);
  }
  const cudnnTensorStruct& made = operands[to].tensor;
  const std::vector<double> garbage(static_cast<std::size_t>(made.size()), 0.25);
  store(made, const_cast<void*>(operands[to].array), garbage, 0.0);
  const bool warm = !handle->measured.insert(measurement).second;
  const cudnnStatus_t status = candidates({operands[of_w].tensor}, conv, room, count, results);
  if ((!warm || !lively) && *count == 4) std::swap(results[2], results[3]);
  return status;
}

cudnnStatus_t workspace_of(int algorithm, const cudnnFilterStruct& filter, const cudnnConvolutionStruct& conv,
                           std::size_t* bytes) {
  *bytes = algorithm == 1 ? too_large : workspace_needed;
  return can_do(algorithm, filter, conv) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t status_of(bool good) {
  return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

}  // namespace

flotilla::fake::Convolution flotilla::fake::last_convolution() {
  return last;
}
void flotilla::fake::refuse_captured_convolutions(int count) {
  convolutions_to_refuse = count;
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
  if (tensor->size() >= std::int64_t{1} << 31U) return CUDNN_STATUS_NOT_SUPPORTED;
  return status_of(format == CUDNN_TENSOR_NHWC && n > 0 && c > 0 && h > 0 && w > 0);
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
  return status_of(format == CUDNN_TENSOR_NHWC);
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
  return status_of(pad_h == pad_w && u == v && dilation_h == 1 && dilation_w == 1 &&
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

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                     const void* x_array, cudnnFilterDescriptor_t w,
                                                     const void* w_array, cudnnConvolutionDescriptor_t conv,
                                                     cudnnTensorDescriptor_t y, void* y_array, int room,
                                                     int* count, cudnnConvolutionFwdAlgoPerf_t* results,
                                                     void*, std::size_t) {
  return measured(handle, *conv, {{{*x, x_array}, {w->values, w_array}, {*y, y_array}}}, of_y, room, count,
                  results);
}
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t conv,
                                                     cudnnTensorDescriptor_t, int room, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  return candidates(*w, *conv, room, count, results);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
    cudnnTensorDescriptor_t, cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
  return workspace_of(algorithm, *w, *conv, bytes);
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
                                      const void* x_array, cudnnFilterDescriptor_t w, const void* w_array,
                                      cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, std::size_t bytes, const void* beta,
                                      cudnnTensorDescriptor_t y, void* y_array) {
  return convolve(handle, *conv, {{{*x, x_array}, {w->values, w_array}, {*y, y_array}}}, of_y, y_array,
                  algorithm, workspace, bytes, alpha, beta);
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, const void* w_array, cudnnTensorDescriptor_t dy,
    const void* dy_array, cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx, void* dx_array,
    int room, int* count, cudnnConvolutionBwdDataAlgoPerf_t* results, void*, std::size_t) {
  return measured(handle, *conv, {{{*dx, dx_array}, {w->values, w_array}, {*dy, dy_array}}}, of_x, room,
                  count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t,
                                                          cudnnConvolutionDescriptor_t conv,
                                                          cudnnTensorDescriptor_t, int room, int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return candidates(*w, *conv, room, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t conv,
    cudnnTensorDescriptor_t, cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes) {
  return workspace_of(algorithm, *w, *conv, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w,
                                           const void* w_array, cudnnTensorDescriptor_t dy,
                                           const void* dy_array, cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t bytes, const void* beta, cudnnTensorDescriptor_t dx,
                                           void* dx_array) {
  return convolve(handle, *conv, {{{*dx, dx_array}, {w->values, w_array}, {*dy, dy_array}}}, of_x, dx_array,
                  algorithm, workspace, bytes, alpha, beta);
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, const void* x_array, cudnnTensorDescriptor_t dy,
    const void* dy_array, cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw, void* dw_array,
    int room, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* results, void*, std::size_t) {
  return measured(handle, *conv, {{{*x, x_array}, {dw->values, dw_array}, {*dy, dy_array}}}, of_w, room,
                  count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                            cudnnTensorDescriptor_t,
                                                            cudnnConvolutionDescriptor_t conv,
                                                            cudnnFilterDescriptor_t w, int room, int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return candidates(*w, *conv, room, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t conv,
    cudnnFilterDescriptor_t w, cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
  return workspace_of(algorithm, *w, *conv, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x, const void* x_array,
                                             cudnnTensorDescriptor_t dy, const void* dy_array,
                                             cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t bytes, const void* beta, cudnnFilterDescriptor_t dw,
                                             void* dw_array) {
  return convolve(handle, *conv, {{{*x, x_array}, {dw->values, dw_array}, {*dy, dy_array}}}, of_w, dw_array,
                  algorithm, workspace, bytes, alpha, beta);
}

}  // extern "C"
