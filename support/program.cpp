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

/// A process that has begun: ended on the way out where nobody waited for it.
class Process {
 public:
  explicit Process(pid_t id) : id_(id) {}
  ~Process() {
    if (id_ == 0) return;
    end();
    wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void end() const { kill(-id_, SIGKILL); }

  /// Its exit code, or 128 + the signal that ended it.
  int wait() {
    const pid_t id = std::exchange(id_, 0);
    int status = 0;
    retrying([&] { return waitpid(id, &status, 0); });
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t id_;
};

using Sink = std::function<void(std::span<const std::byte>)>;

/// Takes what has come; at the pipe's end nobody looks at it any more.
void read_part(pollfd& pipe, std::vector<std::byte>& part, const Sink& sink) {
  if (pipe.revents == 0) return;
  const auto got = retrying([&] { return ::read(pipe.fd, part.data(), part.size()); });
  if (got > 0) {
    sink({part.data(), static_cast<std::size_t>(got)});
  } else {
    pipe.fd = -1;
  }
}

void append_to_end(std::string& text, std::span<const std::byte> bytes) {
  constexpr std::size_t most = 64 << 10;
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() > most) text.erase(0, text.size() - most);
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& words,
                          double timeout,
                          const std::function<void(std::span<const std::byte>)>& sink,
                          const std::atomic<bool>* stop) {
  using Clock = std::chrono::steady_clock;
  constexpr int slice = 200;  // ms
  Pipe out;
  Pipe errors;
  const pid_t id = spawn(words, out.ends[1], errors.ends[1]);
  if (id < 0) {
    return {.started = false,
            .errors = formatted("cannot run {}: {}", words.front(), std::strerror(-id))};
  }
  Process process(id);
  for (auto* pipe : {&out, &errors}) close(std::exchange(pipe->ends[1], -1));
  ProgramResult end;
  std::vector<std::byte> part(1 << 20);
  std::array<pollfd, 2> watched{pollfd{out.ends[0], POLLIN, 0}, pollfd{errors.ends[0], POLLIN, 0}};
  auto heard = Clock::now();
  while (watched[0].fd >= 0 || watched[1].fd >= 0) {
    const int ready = poll(watched.data(), watched.size(), slice);
    if (ready < 0 && errno == EINTR) continue;
    end.stopped = stop != nullptr && stop->load();
    end.silent = ready == 0 && timeout > 0 &&
                 std::chrono::duration<double>(Clock::now() - heard).count() > timeout;
    if (end.stopped || end.silent) {
      process.end();
      break;
    }
    if (ready == 0) continue;
    heard = Clock::now();
    read_part(watched[0], part, sink);
    read_part(watched[1], part, [&](auto bytes) { append_to_end(end.errors, bytes); });
  }
  end.code = process.wait();
  return end;
}

}  // namespace dimred
