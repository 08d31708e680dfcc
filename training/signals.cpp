#include "training/signals.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <ctime>
#include <initializer_list>

namespace dimred::training {
namespace {

constexpr int code_of_interrupt = 130;
constexpr int code_of_others = 143;
constexpr long same_keystroke_ms = 500;

volatile std::sig_atomic_t interrupted = 0;
volatile std::sig_atomic_t terminated = 0;
volatile long first_interrupt_ms = 0;
int agreed_code = code_of_others;

long now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

extern "C" void remember(int signal) {
  if (signal != SIGINT) {
    terminated = 1;
  } else if (interrupted == 0) {
    first_interrupt_ms = now_ms();
    interrupted = 1;
  } else if (now_ms() - first_interrupt_ms > same_keystroke_ms) {
    _exit(code_of_interrupt);
  }
}

}  // namespace

void catch_stop_signals() {
  for (const int signal : {SIGTERM, SIGUSR1, SIGHUP, SIGINT}) {
    // A signal that nohup or a script's background job ignores stays ignored.
    if (std::signal(signal, remember) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

bool stop_received() { return interrupted != 0 || terminated != 0; }

bool stop_agreed(distributed::Communicator& communicator) {
  std::array<double, 2> received{static_cast<double>(interrupted), static_cast<double>(terminated)};
  communicator.all_reduce(received);
  agreed_code = received[1] > 0 ? code_of_others : code_of_interrupt;
  return received[0] + received[1] > 0;
}

int stop_exit_code() { return agreed_code; }

}  // namespace dimred::training
