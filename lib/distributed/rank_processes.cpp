#include "distributed/rank_processes.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "support/errors.h"

namespace dimred::distributed {
namespace {

std::string process_key(int rank) { return formatted("process{}", rank); }

/// The scope in which a process number means one process: one start of a kernel, one namespace of
/// numbers.
std::string scope_of_numbers() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code ignored;
  return formatted(
      "{}/{}", boot, std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string());
}

}  // namespace

RankProcesses::~RankProcesses() {
  for (const auto& [rank, descriptor] : descriptors_) ::close(descriptor);
}

void RankProcesses::exchange_pids(c10d::Store& store, const launch::RankInfo& rank_info) {
  const auto scope = scope_of_numbers();
  store.set(process_key(rank_info.rank), stored(formatted("{} {}", scope, ::getpid())));
  for (int rank = 0; rank < rank_info.size; ++rank) {
    const auto bytes = store.get(process_key(rank));
    std::istringstream text(std::string(bytes.begin(), bytes.end()));
    std::string theirs;
    pid_t process = 0;
    text >> theirs >> process;
    if (theirs != scope || process <= 1 || process == ::getpid()) continue;
    const int descriptor = ::syscall(SYS_pidfd_open, process, 0);
    const std::lock_guard lock(mutex_);
    if (descriptor >= 0) descriptors_[rank] = descriptor;
  }
}

void RankProcesses::end(int rank) {
  const std::lock_guard lock(mutex_);
  const auto found = descriptors_.find(rank);
  if (found != descriptors_.end())
    ::syscall(SYS_pidfd_send_signal, found->second, SIGKILL, nullptr, 0);
}

}  // namespace dimred::distributed
