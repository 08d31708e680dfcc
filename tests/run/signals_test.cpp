#include "run/signals.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "distributed/communicator.h"

namespace {
// What a reader sees when the handler asks who sent the signal; -1: the handler has not asked.
std::atomic<int> stop_seen_by_reader = -1;
}  // namespace

// In front of libc's, for one test.
extern "C" pid_t getppid() noexcept {
  const bool stopped = dimred::run::stop_received();
  if (stop_seen_by_reader == -1) stop_seen_by_reader = stopped ? 1 : 0;
  return static_cast<pid_t>(::syscall(SYS_getppid));
}

namespace dimred::run {
namespace {

/// A reader between the handler's two flags would take a user's stop for the launcher's.
TEST(StopSignals, SayWhoStopsBeforeTheyStop) {
  const auto stop_from_elsewhere = [] {
    catch_stop_signals();
    stop_seen_by_reader = -1;
    std::raise(SIGTERM);  // of this thread: the handler has run behind it
    if (stop_seen_by_reader != 0) std::exit(2);
    const auto alone = distributed::single_rank();
    if (!stop_agreed(*alone) || stopped_by_launcher()) std::exit(3);
    std::exit(stop_exit_code());
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a signal stops all of a process
  EXPECT_EXIT(stop_from_elsewhere(), testing::ExitedWithCode(143), "");
}

/// As the loader's threads wait: the handler runs beside them. With ThreadSanitizer a race ends the
/// process with another code.
TEST(StopSignals, AreSeenByThreadsThatWait) {
  const auto wait_for_one = [] {
    std::signal(SIGINT, SIG_DFL);  // a shell's background job ignores it, and so would we
    catch_stop_signals();
    std::jthread waiting([] {
      while (!stop_received()) std::this_thread::yield();
    });
    ::kill(::getpid(), SIGINT);
    waiting.join();
    const auto alone = distributed::single_rank();
    std::exit(stop_agreed(*alone) ? stop_exit_code() : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a signal stops all of a process
  EXPECT_EXIT(wait_for_one(), testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace dimred::run
