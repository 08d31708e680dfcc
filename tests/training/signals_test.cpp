#include "training/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "distributed/communicator.h"

namespace dimred::training {
namespace {

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
}  // namespace dimred::training
