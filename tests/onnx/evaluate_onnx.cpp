// SPDX-License-Identifier: Apache-2.0
#include "tests/onnx/evaluate_onnx.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>

namespace flotilla::test {

namespace {

using Shape = std::vector<std::int64_t>;

std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

OnnxValues zeros(const Shape& shape) {
  OnnxValues made{.shape = shape, .values = {}};
  made.values.resize(index(made.size()));
  return made;
}

/// A node with its inputs and attributes; attributes that were not asked for are an error.
class Call {
 public:
  Call(const onnx::NodeProto& node, std::vector<const OnnxValues*> inputs)
      : node_(node), inputs_(std::move(inputs)) {
    for (const onnx::AttributeProto& each : node.attribute()) attributes_[each.name()] = &each;
  }
  const OnnxValues& operator[](std::size_t i) const { return *inputs_.at(i); }
  std::size_t inputs() const { return inputs_.size(); }
  std::int64_t integer(const std::string& name) { return take(name).i(); }
  double real(const std::string& name) { return take(name).f(); }
  Shape integers(const std::string& name) {
    const auto& found = take(name).ints();
    return {found.begin(), found.end()};
  }
  void check_all_taken() const {
    if (!attributes_.empty()) fail("has an attribute " + attributes_.begin()->first);
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(node_.op_type() + " " + node_.name() + ": " + why);
  }

 private:
  const onnx::AttributeProto& take(const std::string& name) {
    const auto found = attributes_.find(name);
    if (found == attributes_.end()) fail("has no attribute " + name);
    const onnx::AttributeProto& attribute = *found->second;
    attributes_.erase(found);
    return attribute;
  }

  const onnx::NodeProto& node_;
  std::vector<const OnnxValues*> inputs_;
  std::map<std::string, const onnx::AttributeProto*> attributes_;
};

OnnxValues mapped(OnnxValues x, const std::function<double(double)>& f) {
  for (float& value : x.values) value = static_cast<float>(f(double{value}));
  return x;
}

/// Combines two arrays of equal shapes, or with a second one that has one value or one for each index of the
/// last axis.
OnnxValues combined(const Call& call, const std::function<double(double, double)>& f) {
  OnnxValues y = call[0];
  const OnnxValues& other = call[1];
  const bool fits = other.shape == y.shape || other.shape == Shape{1} || other.shape == Shape{y.shape.back()};
  if (!fits) call.fail("cannot broadcast");
  for (std::size_t i = 0; i < y.values.size(); ++i)
    y.values[i] = static_cast<float>(f(double{y.values[i]}, double{other.values[i % other.values.size()]}));
  return y;
}

/// The windows of an image operation: for each output, body(output, n, channel, top, left).
struct Windows {
  Windows(Call& call, const Shape& input)
      : kernel(call.integers("kernel_shape")),
        strides(call.integers("strides")),
        pads(call.integers("pads")) {
    for (std::size_t axis = 0; axis < 2; ++axis)
      out.push_back((input[axis + 2] + pads[axis] + pads[axis + 2] - kernel[axis]) / strides[axis] + 1);
  }
  OnnxValues apply(
      std::int64_t batch, std::int64_t channels,
      const std::function<double(std::int64_t, std::int64_t, std::int64_t, std::int64_t)>& body) {
    OnnxValues y = zeros({batch, channels, out[0], out[1]});
    std::size_t at = 0;
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t i = 0; i < out[0]; ++i)
          for (std::int64_t j = 0; j < out[1]; ++j)
            y.values[at++] =
                static_cast<float>(body(n, c, i * strides[0] - pads[0], j * strides[1] - pads[1]));
    return y;
  }
  Shape kernel, strides, pads, out;
};

/// Calls body(value, row of the kernel, column) for the pixels of a window that are in the image.
template <class Body>
void for_window(const OnnxValues& x, const Shape& kernel, std::int64_t plane, std::int64_t top,
                std::int64_t left, const Body& body) {
  const std::int64_t rows = x.shape[2];
  const std::int64_t columns = x.shape[3];
  for (std::int64_t i = std::max<std::int64_t>(0, -top); i < std::min(kernel[0], rows - top); ++i)
    for (std::int64_t j = std::max<std::int64_t>(0, -left); j < std::min(kernel[1], columns - left); ++j)
      body(double{x.values[index((plane * rows + top + i) * columns + left + j)]}, i, j);
}

OnnxValues convolve(Call& call) {
  const OnnxValues& x = call[0];
  const OnnxValues& w = call[1];
  Windows windows(call, x.shape);
  const std::int64_t in = x.shape[1];
  return windows.apply(x.shape[0], w.shape[0], [&](auto n, auto c, auto top, auto left) {
    double sum = call.inputs() > 2 ? double{call[2].values[index(c)]} : 0.0;
    for (std::int64_t k = 0; k < in; ++k)
      for_window(x, windows.kernel, n * in + k, top, left, [&](double value, auto i, auto j) {
        sum += value * double{w.values[index(((c * in + k) * w.shape[2] + i) * w.shape[3] + j)]};
      });
    return sum;
  });
}

OnnxValues pool(Call& call, bool maximum) {
  const OnnxValues& x = call[0];
  Windows windows(call, x.shape);
  const bool pads = !maximum && call.integer("count_include_pad") == 1;
  return windows.apply(x.shape[0], x.shape[1], [&](auto n, auto c, auto top, auto left) {
    double sum = 0.0;
    double largest = -std::numeric_limits<double>::infinity();
    std::int64_t count = 0;
    for_window(x, windows.kernel, n * x.shape[1] + c, top, left, [&](double value, auto, auto) {
      sum += value;
      largest = std::max(largest, value);
      ++count;
    });
    if (pads) count = windows.kernel[0] * windows.kernel[1];
    return maximum ? largest : sum / static_cast<double>(count);
  });
}

OnnxValues gemm(Call& call) {
  const OnnxValues& x = call[0];
  const OnnxValues& w = call[1];
  if (call.integer("transB") != 1) call.fail("is not transposed");
  OnnxValues y = zeros({x.shape[0], w.shape[0]});
  const std::int64_t in = w.shape[1];
  if (x.shape.size() != 2 || x.shape[1] != in) call.fail("has other inputs");
  for (std::int64_t n = 0; n < x.shape[0]; ++n)
    for (std::int64_t o = 0; o < w.shape[0]; ++o) {
      double sum = double{call[2].values[index(o)]};
      for (std::int64_t i = 0; i < in; ++i)
        sum += double{x.values[index(n * in + i)]} * double{w.values[index(o * in + i)]};
      y.values[index(n * w.shape[0] + o)] = static_cast<float>(sum);
    }
  return y;
}

OnnxValues batch_norm(Call& call) {
  OnnxValues y = call[0];
  const double epsilon = call.real("epsilon");
  const std::size_t channels = index(y.shape[1]);
  const std::size_t plane = y.values.size() / index(y.shape[0]) / channels;
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    const std::size_t c = i / plane % channels;
    const auto of = [&](std::size_t input) { return double{call[input].values[c]}; };
    y.values[i] =
        static_cast<float>((double{y.values[i]} - of(3)) / std::sqrt(of(4) + epsilon) * of(1) + of(2));
  }
  return y;
}

/// Calls body(row) for each row of the last axis.
template <class Body>
OnnxValues by_rows(OnnxValues y, const Body& body) {
  const std::size_t size = index(y.shape.back());
  for (std::size_t begin = 0; begin < y.values.size(); begin += size)
    body(std::span(y.values).subspan(begin, size));
  return y;
}

OnnxValues layer_norm(Call& call) {
  const double epsilon = call.real("epsilon");
  if (call.integer("axis") != -1) call.fail("is of other axes");
  return by_rows(call[0], [&](std::span<float> row) {
    const auto count = static_cast<double>(row.size());
    const double mean = std::accumulate(row.begin(), row.end(), 0.0) / count;
    double variance = 0.0;
    for (const float value : row) variance += std::pow(double{value} - mean, 2.0) / count;
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = static_cast<float>((double{row[i]} - mean) / std::sqrt(variance + epsilon) *
                                      double{call[1].values[i]} +
                                  double{call[2].values[i]});
  });
}

OnnxValues softmax(Call& call) {
  if (call.integer("axis") != 1) call.fail("is of another axis");
  return by_rows(call[0], [](std::span<float> row) {
    double sum = 0.0;
    for (const float value : row) sum += std::exp(double{value});
    for (float& value : row) value = static_cast<float>(std::exp(double{value}) / sum);
  });
}

OnnxValues global_average(const OnnxValues& x) {
  OnnxValues y = zeros({x.shape[0], x.shape[1], 1, 1});
  const std::size_t plane = index(x.shape[2] * x.shape[3]);
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    const auto begin = x.values.begin() + static_cast<std::ptrdiff_t>(i * plane);
    y.values[i] = static_cast<float>(std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(plane), 0.0) /
                                     static_cast<double>(plane));
  }
  return y;
}

OnnxValues flatten(Call& call) {
  if (call.integer("axis") != 1) call.fail("is of another axis");
  OnnxValues y = call[0];
  y.shape = {y.shape[0], y.size() / y.shape[0]};
  return y;
}

/// (N,H,W,C) as (N,C,H,W).
OnnxValues transpose(Call& call) {
  const OnnxValues& x = call[0];
  if (call.integers("perm") != Shape{0, 3, 1, 2}) call.fail("is of another order");
  OnnxValues y = zeros({x.shape[0], x.shape[3], x.shape[1], x.shape[2]});
  const std::int64_t plane = x.shape[1] * x.shape[2];
  for (std::int64_t n = 0; n < x.shape[0]; ++n)
    for (std::int64_t i = 0; i < plane; ++i)
      for (std::int64_t c = 0; c < x.shape[3]; ++c)
        y.values[index((n * x.shape[3] + c) * plane + i)] = x.values[index((n * plane + i) * x.shape[3] + c)];
  return y;
}

OnnxValues cast(Call& call) {
  if (call.integer("to") != onnx::TensorProto::FLOAT) call.fail("is not to float");
  return call[0];
}

OnnxValues compute(Call& call, const std::string& operation) {
  if (operation == "Relu") return mapped(call[0], [](double z) { return std::max(0.0, z); });
  if (operation == "Tanh") return mapped(call[0], [](double z) { return std::tanh(z); });
  if (operation == "Sigmoid") return mapped(call[0], [](double z) { return 1.0 / (1.0 + std::exp(-z)); });
  if (operation == "Erf") return mapped(call[0], [](double z) { return std::erf(z); });
  if (operation == "Add") return combined(call, std::plus<>());
  if (operation == "Mul") return combined(call, std::multiplies<>());
  if (operation == "Conv") return convolve(call);
  if (operation == "MaxPool") return pool(call, true);
  if (operation == "AveragePool") return pool(call, false);
  if (operation == "Gemm") return gemm(call);
  if (operation == "BatchNormalization") return batch_norm(call);
  if (operation == "LayerNormalization") return layer_norm(call);
  if (operation == "Softmax") return softmax(call);
  if (operation == "GlobalAveragePool") return global_average(call[0]);
  if (operation == "Flatten") return flatten(call);
  if (operation == "Transpose") return transpose(call);
  if (operation == "Cast") return cast(call);
  call.fail("is not known");
}

}  // namespace

std::int64_t OnnxValues::size() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

onnx::ModelProto read_onnx(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  onnx::ModelProto model;
  if (!model.ParseFromIstream(&file)) throw std::runtime_error(path + " is no ONNX model");
  return model;
}

OnnxValues evaluate(const onnx::ModelProto& model, const OnnxValues& input) {
  const onnx::GraphProto& graph = model.graph();
  std::map<std::string, OnnxValues> known = {{graph.input(0).name(), input}};
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    OnnxValues values = zeros({tensor.dims().begin(), tensor.dims().end()});
    if (tensor.raw_data().size() != values.values.size() * sizeof(float))
      throw std::runtime_error(tensor.name() + " has another size than its shape");
    std::memcpy(values.values.data(), tensor.raw_data().data(), tensor.raw_data().size());
    if (!known.emplace(tensor.name(), std::move(values)).second)
      throw std::runtime_error(tensor.name() + " is there twice");
  }
  for (const onnx::NodeProto& node : graph.node()) {
    std::vector<const OnnxValues*> inputs;
    for (const std::string& name : node.input()) inputs.push_back(&known.at(name));
    Call call(node, std::move(inputs));
    OnnxValues output = compute(call, node.op_type());
    call.check_all_taken();
    if (!known.emplace(node.output(0), std::move(output)).second)
      throw std::runtime_error(node.output(0) + " is computed twice");
  }
  return known.at(graph.output(0).name());
}

}  // namespace flotilla::test
