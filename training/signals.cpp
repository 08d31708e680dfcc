#include "training/signals.h"

#include <csignal>

namespace dimred::training {
namespace {

volatile std::sig_atomic_t received = 0;

extern "C" void remember(int signal) {
  received = signal;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void catch_stop_signals() {
  for (const int signal : {SIGTERM, SIGUSR1, SIGHUP, SIGINT}) std::signal(signal, remember);
}

int stop_signal() { return received; }

int stop_exit_code() { return received == SIGINT ? 130 : 143; }

}  // namespace dimred::training
