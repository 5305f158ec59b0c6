// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flotilla {

/// From now on SIGUSR1 and SIGTERM ask for an orderly stop instead of ending the process.
void listen_for_stop_signals();

/// The signal that asked for a stop: 0 if none did.
int stop_signal();

}  // namespace flotilla
