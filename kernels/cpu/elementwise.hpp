// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/bfloat16_values.hpp"
#include "kernels/cpu/activation.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/layers/elementwise.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

class CpuElementwise : public Elementwise {
 public:
  CpuElementwise(int threads, Precision precision, const ElementwiseSpec& spec)
      : threads_(threads), precision_(precision), spec_(spec) {}
  void forward(const Tensor& x, Tensor& y) override {
    check_elementwise(spec_, {&x, &y});
    with_values(precision_, [&]<class T>(T) {
      activate(threads_, spec_.function, spec_.input.size(), values_as<T>(x).address(),
               values_as<T>(y).address());
    });
  }
  void backward(const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) override {
    check_elementwise(spec_, {&x, &y, &dy, &dx});
    with_values(precision_, [&]<class T>(T) {
      differentiate(threads_, spec_.function, spec_.input.size(), values_as<T>(x).address(),
                    values_as<T>(y).address(), values_as<T>(dy).address(), values_as<T>(dx).address());
    });
  }

 private:
  int threads_;
  Precision precision_;
  ElementwiseSpec spec_;
};

}  // namespace flotilla
