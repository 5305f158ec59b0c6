// SPDX-License-Identifier: Apache-2.0
#include "src/onnx/model_graph.hpp"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>

#include <bit>
#include <span>
#include <variant>

#include "kernels/error.hpp"
#include "src/files/atomic_file.hpp"

namespace flotilla {

namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

/// The file that protobuf writes to.
class FileStream : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit FileStream(File& file) : file_(file) {}
  bool Write(const void* bytes, int size) override {
    file_.append({static_cast<const std::byte*>(bytes), static_cast<std::size_t>(size)});
    return true;
  }

 private:
  File& file_;
};

void check_size(const std::string& path, const OnnxGraph& graph) {
  constexpr std::int64_t max_bytes = (std::int64_t{1} << 31) - (std::int64_t{1} << 24);  // 16 MiB for names
  std::int64_t bytes = 0;
  for (const OnnxTensor& tensor : graph.tensors)
    bytes += tensor.shape.size() * static_cast<std::int64_t>(sizeof(float));
  if (bytes > max_bytes)
    throw UserError(
        cat(path, ": the model has ", bytes >> 20,
            " MiB of values, and a file of ONNX holds less than 2 GiB; export to a file that ends "
            "in .h5"));
}

void fill(const OnnxValue& value, onnx::ValueInfoProto& to) {
  to.set_name(value.name);
  onnx::TypeProto_Tensor& type = *to.mutable_type()->mutable_tensor_type();
  type.set_elem_type(value.element == OnnxElement::uint8 ? onnx::TensorProto::UINT8
                                                         : onnx::TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("N");
  for (int axis = 0; axis < value.sample.rank(); ++axis)
    type.mutable_shape()->add_dim()->set_dim_value(value.sample[axis]);
}

void fill(const std::string& name, const OnnxAttributes::mapped_type& value, onnx::AttributeProto& to) {
  to.set_name(name);
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(*number);
  } else if (const auto* real = std::get_if<float>(&value)) {
    to.set_type(onnx::AttributeProto::FLOAT);
    to.set_f(*real);
  } else {
    to.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t each : std::get<std::vector<std::int64_t>>(value)) to.add_ints(each);
  }
}

void fill(const OnnxNode& node, onnx::NodeProto& to) {
  to.set_op_type(node.operation);
  to.set_name(node.output);
  for (const std::string& input : node.inputs) to.add_input(input);
  to.add_output(node.output);
  for (const auto& [name, value] : node.attributes) fill(name, value, *to.add_attribute());
}

void fill(const OnnxTensor& tensor, onnx::TensorProto& to) {
  to.set_name(tensor.name);
  to.set_data_type(onnx::TensorProto::FLOAT);
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) to.add_dims(tensor.shape[axis]);
  const auto bytes = std::as_bytes(std::span(tensor.values));
  to.set_raw_data(bytes.data(), bytes.size());
}

onnx::ModelProto model_of(const OnnxGraph& graph, const std::string& version) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  model.set_producer_name("flotilla");
  model.set_producer_version(version);
  for (const auto& [key, value] : graph.metadata) {
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  onnx::GraphProto& to = *model.mutable_graph();
  to.set_name(graph.name);
  fill(graph.input, *to.add_input());
  fill(graph.output, *to.add_output());
  for (const OnnxNode& node : graph.nodes) fill(node, *to.add_node());
  for (const OnnxTensor& tensor : graph.tensors) fill(tensor, *to.add_initializer());
  return model;
}

}  // namespace

void check_onnx() {}

void write_onnx(const std::string& path, const OnnxGraph& graph, const std::string& version) {
  check_size(path, graph);
  const onnx::ModelProto model = model_of(graph, version);
  AtomicFile file(path);
  FileStream stream(file.file());
  {
    google::protobuf::io::CopyingOutputStreamAdaptor buffered(&stream);
    if (!model.SerializeToZeroCopyStream(&buffered) || !buffered.Flush())
      throw LibraryError(cat(path, ": protobuf could not write the model"));
  }
  file.commit();
}

}  // namespace flotilla
