// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/elementwise.hpp"

#include "kernels/bfloat16_values.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/onednn/activation.hpp"

namespace flotilla {

void CpuElementwise::forward(const Tensor& x, Tensor& y) {
  check_elementwise(spec_, {&x, &y});
  with_values(precision_, [&]<class T>(T) {
    activate(threads_, spec_.function, spec_.input.size(), values_as<T>(x).address(),
             values_as<T>(y).address());
  });
}

void CpuElementwise::backward(const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) {
  check_elementwise(spec_, {&x, &y, &dy, &dx});
  with_values(precision_, [&]<class T>(T) {
    differentiate(threads_, spec_.function, spec_.input.size(), values_as<T>(x).address(),
                  values_as<T>(y).address(), values_as<T>(dy).address(), values_as<T>(dx).address());
  });
}

}  // namespace flotilla
