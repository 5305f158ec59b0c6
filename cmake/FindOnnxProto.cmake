# SPDX-License-Identifier: Apache-2.0
# Finds the messages of ONNX's files (libonnx_proto, of Debian's libonnx-dev) and Protobuf, with which they are made: target
# OnnxProto::onnx_proto. The packages of ONNX call it differently from version to version.
find_package(Protobuf QUIET)
find_path(OnnxProto_INCLUDE_DIR onnx/onnx_pb.h)
find_library(OnnxProto_LIBRARY onnx_proto)
mark_as_advanced(OnnxProto_INCLUDE_DIR OnnxProto_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OnnxProto REQUIRED_VARS OnnxProto_LIBRARY OnnxProto_INCLUDE_DIR Protobuf_FOUND)
if(OnnxProto_FOUND AND NOT TARGET OnnxProto::onnx_proto)
  add_library(OnnxProto::onnx_proto UNKNOWN IMPORTED)
  set_target_properties(OnnxProto::onnx_proto PROPERTIES IMPORTED_LOCATION "${OnnxProto_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${OnnxProto_INCLUDE_DIR}"
                        INTERFACE_COMPILE_DEFINITIONS "ONNX_NAMESPACE=onnx;ONNX_ML=1"
                        INTERFACE_LINK_LIBRARIES protobuf::libprotobuf)
endif()
