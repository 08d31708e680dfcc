#include "stores/mirror.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "stores/attempts.h"
#include "support/console.h"
#include "support/list_files.h"
#include "support/open_file.h"
#include "support/scope_exit.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

constexpr auto states_folder = "checkpoints";
constexpr double look_every = 0.5;  // seconds; one readdir

std::vector<std::string> states_of(const fs::path& run) {
  std::vector<std::string> names;
  if (!fs::is_directory(run / states_folder)) return names;
  for (const auto& entry : fs::directory_iterator(run / states_folder)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with("state_") && entry.path().extension() != ".tmp") names.push_back(name);
  }
  std::ranges::sort(names, natural_less);
  return names;
}

/// Tables and event logs are written a line at a time; everything else is replaced as a whole.
bool grows(const fs::path& file) {
  return file.extension() == ".csv" ||
         file.filename().string().find("tfevents") != std::string::npos;
}

}  // namespace

std::string newest_state(const fs::path& run) {
  const auto names = states_of(run);
  return names.empty() ? std::string() : names.back();
}

bool stage(const fs::path& run, const std::string& state, const fs::path& staging) {
  fs::remove_all(staging);
  // False when it is gone: then retention has deleted it. Anything else must not pass for whole.
  const auto take = [&](const std::string& name) {
    const auto to = staging / name;
    create_folders(to.parent_path());
    std::error_code failed;
    if (!grows(run / name)) {
      fs::create_hard_link(run / name, to, failed);
      if (!failed) return true;
    }
    fs::copy_file(run / name, to, failed);  // also for file systems without links
    if (failed == std::errc::no_such_file_or_directory) return false;
    if (failed) throw fs::filesystem_error("set aside", run / name, to, failed);
    return true;
  };
  // The state first: what grows is then at least as long as the state says.
  const auto folder = fs::path(states_folder) / state;
  if (!fs::is_directory(run / folder)) return false;
  for (const auto& name : files_to_send(run / folder, Sending::run).names)
    if (!take((folder / name).string())) return false;
  if (!fs::is_directory(run / folder)) return false;  // deleted while it was linked
  for (const auto& name : files_to_send(run, Sending::run).names)
    if (!name.starts_with(std::string(states_folder) + '/') && !take(name)) return false;
  return true;
}

Mirror::Mirror(fs::path run, Url url, StoreOptions options, fs::path staging)
    : run_(std::move(run)),
      url_(std::move(url)),
      options_(std::move(options)),
      staging_(std::move(staging)) {
  first_ = newest_state(run_);  // of an earlier start
  // Signals are the training's: its thread has to be woken by them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const ScopeExit unmasked([&] { pthread_sigmask(SIG_SETMASK, &before, nullptr); });
  thread_ = std::jthread([this] { work(); });
}

Mirror::~Mirror() { stop(); }

void Mirror::stop() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::error_code ignored;
  fs::remove_all(staging_, ignored);
}

MirrorReport Mirror::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

bool Mirror::pause(double seconds) {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(
      lock, std::chrono::duration<double>(seconds), [this] { return ended_.load(); });
}

void Mirror::send(const std::string& state) {
  if (!stage(run_, state, staging_))
    return;  // a file has gone meanwhile: the next look tries again
  // This thread has its own waits, which stop() ends.
  auto once = options_;
  once.attempts = 1;
  once.stop = &ended_;
  upload(staging_, url_, once, Sending::run, &memory_);
  const std::lock_guard lock(mutex_);
  ++report_.uploads;
  report_.last_error.clear();
  report_.last_state = state;
}

void Mirror::work() {
  auto done = first_;
  std::int64_t failed = 0;
  while (!pause(failed == 0 ? look_every : wait_before_next(options_, failed, 0.75))) {
    try {
      const auto states = states_of(run_);
      if (states.empty() || states.back() == done) continue;
      const auto& newest = states.back();
      send(newest);
      const auto newer = std::ranges::count_if(
          states, [&](const auto& name) { return natural_less(done, name) && name != newest; });
      const std::lock_guard lock(mutex_);
      if (report_.last_state != newest) continue;
      report_.superseded += newer;
      done = newest;
      failed = 0;
    } catch (const StopRequested&) {
      return;
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      ++report_.failures;
      if (failed++ == 0)
        put_text(stderr,
                 formatted("{}; the run goes on, and dimred will try this upload again\n",
                           error.what()));
      report_.last_error = error.what();
    }
  }
}

}  // namespace dimred::stores
