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

/// In the sum over ranks: more than all that their launchers have stopped.
constexpr double stop_of_others = 1 << 20;

volatile std::sig_atomic_t interrupted = 0;
volatile std::sig_atomic_t terminated = 0;                 // by anybody
volatile std::sig_atomic_t terminated_from_elsewhere = 0;  // not by the process that started this
volatile long first_interrupt_ms = 0;
int agreed_code = code_of_others;
bool agreed_to_launcher = false;

long now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

extern "C" void remember(int signal, siginfo_t* info, void* /*context*/) {
  if (signal != SIGINT) {
    terminated = 1;
    if (signal != SIGTERM || info->si_pid != getppid()) terminated_from_elsewhere = 1;
  } else if (interrupted == 0) {
    first_interrupt_ms = now_ms();
    interrupted = 1;
  } else if (now_ms() - first_interrupt_ms > same_keystroke_ms) {
    _exit(code_of_interrupt);
  }
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_sigaction = remember;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGUSR1, SIGHUP, SIGINT}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    // A signal that nohup or a script's background job ignores stays ignored.
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

bool stop_received() { return interrupted != 0 || terminated != 0; }

bool stop_agreed(distributed::Communicator& communicator) {
  std::array<double, 2> received{static_cast<double>(interrupted), static_cast<double>(terminated)};
  if (terminated_from_elsewhere != 0) received[1] = stop_of_others;
  communicator.all_reduce(received);
  agreed_code = received[1] > 0 ? code_of_others : code_of_interrupt;
  agreed_to_launcher = received[0] == 0 && received[1] > 0 && received[1] < stop_of_others;
  return received[0] + received[1] > 0;
}

bool stopped_by_launcher() { return agreed_to_launcher; }

int stop_exit_code() { return agreed_code; }

}  // namespace dimred::training
