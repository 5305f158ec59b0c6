// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flotilla::fake {

/// Whether there are algorithms that apply a bias or ReLU. They are looked for when a plan is made.
void offer_epilogues(bool offered);
/// The next products that are captured fail.
void refuse_captured_products(int count);

}  // namespace flotilla::fake
