#include "training/signals.h"

#include <csignal>
#include <initializer_list>

namespace dimred::training {
namespace {

volatile std::sig_atomic_t received = 0;

extern "C" void remember(int signal) {
  received = signal;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void catch_stop_signals() {
  for (const int signal : {SIGTERM, SIGUSR1, SIGHUP, SIGINT}) {
    // What nohup or a script's background job ignores stays ignored.
    if (std::signal(signal, remember) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

int stop_signal() { return received; }

int stop_exit_code() { return received == SIGINT ? 130 : 143; }

}  // namespace dimred::training
