#pragma once

#include "engine/stops.h"
#include "support/communicator.h"

namespace dimred::run {

/// From now on SIGTERM, SIGUSR1, SIGHUP and the first SIGINT only set a flag; a second SIGINT ends
/// the process at once. (One within half a second of the first is the same: the terminal and
/// torchrun both pass a Ctrl-C on.) A signal that was ignored before (nohup) stays ignored.
void catch_stop_signals();

/// True when this rank has received one.
bool stop_received();

/// True on every rank when any has received one: to be asked at the same step by all.
bool stop_agreed(Communicator& communicator);

/// Returns whether the agreed stop came only from the processes that started the ranks: an agent of
/// torchrun ends its ranks so to restart them with the nodes that have come or gone.
bool stopped_by_launcher();

/// The requests to stop that signals make.
engine::Stops stops_by_signal();

/// Exit code of a run that agreed to stop: 130 when SIGINT alone was received, 143 else.
int stop_exit_code();

}  // namespace dimred::run
