// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/conv_weights.hpp"

#include "kernels/image_checks.hpp"

namespace flotilla {

const Conv2dSpec& checked(const Conv2dSpec& spec) {
  check_spec(spec);
  return spec;
}

dnnl::memory::dims weight_dims(const Conv2dSpec& s) {
  if (s.groups == 1) return {s.out_channels, s.input[1], s.kernel, s.kernel};
  return {s.groups, s.out_channels / s.groups, s.input[1] / s.groups, s.kernel, s.kernel};
}

dnnl::memory::desc plain_weight(const Conv2dSpec& s) {
  using Tag = dnnl::memory::format_tag;
  return {weight_dims(s), dnnl::memory::data_type::f32, s.groups == 1 ? Tag::oihw : Tag::goihw};
}

std::int64_t plain_size(const Conv2dSpec& s) {
  return s.out_channels * s.input[1] / s.groups * s.kernel * s.kernel;
}

void copy_weight(const PrimitiveScope& scope, const dnnl::memory::desc& from_layout,
                 std::span<const float> from, const dnnl::memory::desc& to_layout, std::span<float> to) {
  scope.set_threads();
  made("a reorder of weights", [&] {
    // The library takes inputs as void*, too.
    dnnl::memory source(from_layout, scope.engine(), const_cast<float*>(from.data()));
    dnnl::memory destination(to_layout, scope.engine(), to.data());
    dnnl::stream stream = scope.stream();
    dnnl::reorder(source, destination).execute(stream, source, destination);
    stream.wait();
  });
}

}  // namespace flotilla
