#pragma once

namespace dimred::training {

/// From now on SIGTERM, SIGUSR1, SIGHUP and the first SIGINT only set a flag; a second SIGINT ends
/// the process. A signal that was ignored before (nohup) stays ignored.
void catch_stop_signals();

/// The signal received, or 0.
int stop_signal();

/// Exit code of a run that was asked to stop: 130 for SIGINT, 143 for the others.
int stop_exit_code();

}  // namespace dimred::training
