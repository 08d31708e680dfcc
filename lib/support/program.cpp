#include "support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "support/descriptor.h"
#include "support/errors.h"
#include "support/stopwatch.h"

extern char** environ;

namespace dimred {
namespace {

struct Pipe {
  Descriptor read, write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  require_environment(pipe2(ends.data(), O_CLOEXEC) == 0,
                      "[program] cannot create a pipe: {}",
                      std::strerror(errno));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

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

  static constexpr int unknown = -1;
  /// Its exit code, or 128 + the signal that ended it; `unknown` where the system does not say.
  int wait() {
    const pid_t id = std::exchange(id_, 0);
    int status = 0;
    // Where somebody has had SIGCHLD ignored, the system keeps no code.
    if (retrying([&] { return waitpid(id, &status, 0); }) < 0) return unknown;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t id_;
};

/// Takes what has come; at the pipe's end nobody looks at it any more.
void read_part(pollfd& pipe, std::vector<std::byte>& part, const ByteSink& sink) {
  if (pipe.revents == 0) return;
  const auto got = retrying([&] { return ::read(pipe.fd, part.data(), part.size()); });
  if (got > 0) {
    sink({part.data(), static_cast<std::size_t>(got)});
  } else {
    pipe.fd = -1;
  }
}

void append_to_end(std::string& text, ByteView bytes) {
  constexpr std::size_t most = 64 << 10;
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() > most) text.erase(0, text.size() - most);
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& words,
                          double timeout,
                          const ByteSink& sink,
                          const std::atomic<bool>* stop) {
  constexpr int slice = 200;  // ms
  auto out = make_pipe();
  auto errors = make_pipe();
  const pid_t id = spawn(words, out.write, errors.write);
  if (id < 0) {
    return {.started = false,
            .errors = formatted("cannot run {}: {}", words.front(), std::strerror(-id))};
  }
  Process process(id);
  for (auto* pipe : {&out, &errors}) pipe->write.close();
  ProgramResult end;
  std::vector<std::byte> part(1 << 20);
  std::array<pollfd, 2> watched{pollfd{out.read, POLLIN, 0}, pollfd{errors.read, POLLIN, 0}};
  Stopwatch heard;
  while (watched[0].fd >= 0 || watched[1].fd >= 0) {
    const int ready = poll(watched.data(), watched.size(), slice);
    if (ready < 0 && errno == EINTR) continue;
    end.stopped = stop != nullptr && stop->load();
    end.silent = ready == 0 && timeout > 0 && heard.seconds() > timeout;
    if (end.stopped || end.silent) {
      process.end();
      break;
    }
    if (ready == 0) continue;
    heard.restart();
    read_part(watched[0], part, sink);
    read_part(watched[1], part, [&](auto bytes) { append_to_end(end.errors, bytes); });
  }
  end.code = process.wait();
  require_environment(
      end.code != Process::unknown || end.stopped || end.silent,
      "[program] cannot get the exit status of {}, because this process ignores SIGCHLD",
      words.front());
  return end;
}

}  // namespace dimred
