#include "run/signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <initializer_list>

#include "support/keystroke.h"

namespace dimred::run {
namespace {

constexpr int code_of_interrupt = 130;
constexpr int code_of_others = 143;

/// In the sum over ranks: more than all that their launchers have stopped.
constexpr double stop_of_others = 1 << 20;

// Written by a handler, which may run in any thread, and read by the threads that wait for data.
std::atomic<bool> interrupted = false;
std::atomic<bool> terminated = false;                 // by anybody
std::atomic<bool> terminated_from_elsewhere = false;  // not by the process that started this
std::atomic<long> first_interrupt_ms = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<long>::is_always_lock_free);
int agreed_code = code_of_others;
bool agreed_to_launcher = false;

extern "C" void remember(int signal, siginfo_t* info, void* /*context*/) {
  if (signal != SIGINT) {
    // First, as a reader in between would take a user's stop for the launcher's.
    if (signal != SIGTERM || info->si_pid != getppid()) terminated_from_elsewhere = true;
    terminated = true;
  } else if (!interrupted) {
    first_interrupt_ms = monotonic_ms();
    interrupted = true;
  } else if (!is_same_keystroke(first_interrupt_ms)) {
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

bool stop_received() { return interrupted || terminated; }

bool stop_agreed(Communicator& communicator) {
  std::array<double, 2> received{interrupted ? 1.0 : 0.0, terminated ? 1.0 : 0.0};
  if (terminated_from_elsewhere) received[1] = stop_of_others;
  communicator.sum(received);
  agreed_code = received[1] > 0 ? code_of_others : code_of_interrupt;
  agreed_to_launcher = received[0] == 0 && received[1] > 0 && received[1] < stop_of_others;
  return received[0] + received[1] > 0;
}

engine::Stops stops_by_signal() { return {.received = stop_received, .agreed = stop_agreed}; }

bool stopped_by_launcher() { return agreed_to_launcher; }

int stop_exit_code() { return agreed_code; }

}  // namespace dimred::run
