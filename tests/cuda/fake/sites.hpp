// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flotilla::fake {

/// Whether a call that orders streams (an event recorded or waited for, a stream waited for) is to be left
/// out, as if its line were not in the program. FLOTILLA_FAKE_GPU_LEAVE_OUT="LINE …" names lines by the
/// places in the executable that such calls return to, "LINE,CALLER" those of one caller;
/// FLOTILLA_FAKE_GPU_SITES=FILE writes "call LINE,CALLER" for each that is met
/// (tests/cuda/leave_out_waits.sh).
bool left_out(const char* call);

}  // namespace flotilla::fake
