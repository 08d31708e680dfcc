#include "support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "support/errors.h"
#include "support/retry.h"

extern char** environ;

namespace dimred {
namespace {

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    require_environment(
        pipe2(ends.data(), O_CLOEXEC) == 0, "[program] pipe: {}", std::strerror(errno));
  }
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
};

/// Its number, or a negative errno. Its own process group, so that a wrapper script's children end
/// with it, and a Ctrl-C at our terminal does not reach an upload that we still want; the stop
/// signals as a program expects them.
pid_t spawn(const std::vector<std::string>& words, int out, int errors) {
  auto texts = words;
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, errors, 2);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t process = 0;
  const int failed = posix_spawnp(
      &process, texts.front().c_str(), &actions, &attributes, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return failed == 0 ? process : -failed;
}

}  // namespace

ProgramEnd run_program(const std::vector<std::string>& words,
                       double timeout,
                       const std::function<void(std::span<const std::byte>)>& sink,
                       const std::atomic<bool>* stop) {
  using Clock = std::chrono::steady_clock;
  constexpr int slice = 200;  // ms
  constexpr std::size_t most_errors = 64 << 10;
  Pipe out;
  Pipe errors;
  const pid_t process = spawn(words, out.ends[1], errors.ends[1]);
  if (process < 0) {
    return {.started = false,
            .errors = formatted("cannot run {}: {}", words.front(), std::strerror(-process))};
  }
  for (auto* pipe : {&out, &errors}) close(std::exchange(pipe->ends[1], -1));
  ProgramEnd end;
  std::vector<std::byte> part(1 << 20);
  try {
    std::array<pollfd, 2> watched{pollfd{out.ends[0], POLLIN, 0},
                                  pollfd{errors.ends[0], POLLIN, 0}};
    auto heard = Clock::now();
    while (watched[0].fd >= 0 || watched[1].fd >= 0) {
      const int ready = poll(watched.data(), watched.size(), slice);
      if (ready < 0 && errno == EINTR) continue;
      end.stopped = stop != nullptr && stop->load();
      end.silent = ready == 0 && timeout > 0 &&
                   std::chrono::duration<double>(Clock::now() - heard).count() > timeout;
      if (end.stopped || end.silent) {
        kill(-process, SIGKILL);
        break;
      }
      if (ready == 0) continue;
      heard = Clock::now();
      for (std::size_t i = 0; i < watched.size(); ++i) {
        if (watched[i].fd < 0 || watched[i].revents == 0) continue;
        const auto got = retrying([&] { return ::read(watched[i].fd, part.data(), part.size()); });
        if (got <= 0) {
          watched[i].fd = -1;
        } else if (i == 0) {
          sink({part.data(), static_cast<std::size_t>(got)});
        } else {
          end.errors.append(reinterpret_cast<const char*>(part.data()),
                            static_cast<std::size_t>(got));
          if (end.errors.size() > most_errors) end.errors.erase(0, end.errors.size() - most_errors);
        }
      }
    }
  } catch (...) {
    kill(-process, SIGKILL);
    retrying([&] { return waitpid(process, nullptr, 0); });
    throw;
  }
  int status = 0;
  retrying([&] { return waitpid(process, &status, 0); });
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

}  // namespace dimred
