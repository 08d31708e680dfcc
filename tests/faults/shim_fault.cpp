// LD_PRELOAD library that fails or kills a program at a chosen system call on files below a folder.
//
//   DIMRED_FAULT="under=/run,kind=write+sync,number=17,every=0,action=errno:28"
//   DIMRED_FAULT_LOG=/path    a line a call, "17 write /run/file"; "*" in front of what was hit
//
// kind: any, or names of `kinds` joined by '+' (stream: fopen, which std::ofstream calls); the
// calls of these kinds on paths below `under` are numbered from 1. The action happens at `number`
// and, with every = n > 0, at each n-th call after:
//   count          nothing; for the log
//   exit_before    SIGKILL instead of the call
//   exit_after     SIGKILL once it is done
//   tear           a write of half the bytes, then SIGKILL; other kinds as exit_before
//   errno:E        fails with E, nothing done
//   eintr          fails with EINTR, nothing done
//   short          a write of half the bytes; other kinds go through
//   delay:M        M milliseconds later, as on a slow disk
// Folders given relative to a descriptor are resolved through /proc/self/fd.

#include "tests/faults/shim_fault.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <string_view>

namespace dimred::faults {
namespace {

constexpr std::array<const char*, 8> kinds{
    "open", "stream", "write", "sync", "size", "rename", "mkdir", "remove"};

struct Fault {
  std::string under;
  unsigned mask = ~0U;
  long number = 0;
  long every = 0;
  Verdict verdict;
  int log = -1;
};

Verdict verdict_of(const std::string& text) {
  if (text == "exit_before") return {Action::exit_before};
  if (text == "exit_after") return {Action::exit_after};
  if (text == "tear") return {Action::tear};
  if (text == "short") return {Action::shorten};
  if (text == "eintr") return {Action::fail, EINTR};
  if (text.starts_with("errno:")) return {Action::fail, std::atoi(text.c_str() + 6)};
  if (text.starts_with("delay:")) return {Action::delay, std::atoi(text.c_str() + 6)};
  return {};
}

unsigned mask_of(const std::string& names) {
  if (names == "any") return ~0U;
  std::string listed = "+";
  listed.append(names).append("+");
  unsigned mask = 0;
  for (unsigned kind = 0; kind < kinds.size(); ++kind) {
    std::string name = "+";
    name.append(kinds[kind]).append("+");
    if (listed.find(name) != std::string::npos) mask |= 1U << kind;
  }
  return mask;
}

void set_field(Fault& fault, std::string_view key, const std::string& value) {
  if (key == "under") fault.under = value + "/";
  if (key == "kind") fault.mask = mask_of(value);
  if (key == "number") fault.number = std::atol(value.c_str());
  if (key == "every") fault.every = std::atol(value.c_str());
  if (key == "action") fault.verdict = verdict_of(value);
}

Fault read_environment() {
  Fault fault;
  const char* text = std::getenv("DIMRED_FAULT");
  std::string rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string field = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    const auto equals = field.find('=');
    if (equals == std::string::npos) continue;
    set_field(fault, std::string_view(field).substr(0, equals), field.substr(equals + 1));
  }
  const char* log = std::getenv("DIMRED_FAULT_LOG");
  constexpr int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  if (log != nullptr) fault.log = static_cast<int>(syscall(SYS_openat, AT_FDCWD, log, flags, 0666));
  return fault;
}

/// Never destroyed: other libraries write at exit.
const Fault& fault() {
  static const Fault* const instance = new Fault(read_environment());
  return *instance;
}

std::string link_of(const std::string& link) {
  std::array<char, PATH_MAX> target{};
  const auto length = ::readlink(link.c_str(), target.data(), target.size());
  return length < 0 ? "" : std::string(target.data(), static_cast<std::size_t>(length));
}

void log_call(long number, Kind kind, std::string_view path, bool hit) {
  if (fault().log < 0) return;
  std::string line = hit ? "*" : "";
  line.append(std::to_string(number)).append(" ");
  line.append(kinds[static_cast<unsigned>(kind)]).append(" ").append(path).append("\n");
  (void)!syscall(SYS_write, fault().log, line.data(), line.size());
}

bool is_hit(const Fault& f, long number) {
  const long behind = number - f.number;
  if (f.verdict.action == Action::count || behind < 0) return false;
  return behind == 0 || (f.every > 0 && behind % f.every == 0);
}

}  // namespace

std::string path_of(int descriptor) {
  return link_of("/proc/self/fd/" + std::to_string(descriptor));
}

std::string absolute(const char* path, int folder) {
  if (path[0] == '/') return path;
  return (folder == AT_FDCWD ? link_of("/proc/self/cwd") : path_of(folder)) + "/" + path;
}

void die() {
  ::kill(::getpid(), SIGKILL);
  ::_exit(137);
}

Verdict judge(Kind kind, const std::string& path) {
  static std::atomic<long> calls{0};
  const Fault& f = fault();
  const bool counted = !f.under.empty() && (f.mask >> static_cast<unsigned>(kind) & 1U) != 0 &&
                       (path + "/").starts_with(f.under);
  if (!counted) return {};
  const long number = ++calls;
  const bool hit = is_hit(f, number);
  log_call(number, kind, std::string_view(path).substr(std::min(path.size(), f.under.size())), hit);
  if (!hit) return {};
  const bool torn = f.verdict.action == Action::tear && kind != Kind::write;
  if (torn || f.verdict.action == Action::exit_before) die();
  if (f.verdict.action == Action::delay) ::usleep(1000U * static_cast<unsigned>(f.verdict.number));
  return f.verdict;
}

}  // namespace dimred::faults
