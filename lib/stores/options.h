#pragma once

#include <atomic>
#include <filesystem>

#include "options/options.h"

namespace dimred::stores {

/// How remote places are used.
struct StoreOptions {
  std::filesystem::path cache;   // of what was downloaded and what will be uploaded; empty: chosen
  double timeout = 60;           // seconds in which nothing moves
  std::int64_t attempts = 5;     // of each request, in all
  double first_wait = 1;         // seconds before the second attempt; doubles, with jitter
  double longest_wait = 60;      // seconds that it grows to
  std::string endpoint;          // host of oss://BUCKET/...; empty: $OSS_ENDPOINT
  std::filesystem::path hadoop;  // the program; empty: of $HADOOP_HOME, else of $PATH
  bool upload_checkpoints = false;          // also while the run goes on
  const std::atomic<bool>* stop = nullptr;  // true: what is under way ends with StopRequested
};

/// `uploads`: the command leaves a run folder, so that its checkpoints can be sent ahead.
void add_options(OptionTable& table, StoreOptions& options, bool uploads);

inline bool is_stopped(const StoreOptions& options) {
  return options.stop != nullptr && options.stop->load();
}

/// $XDG_CACHE_HOME/dimred/stores, ~/.cache/dimred/stores, or what --store_cache says.
std::filesystem::path cache_folder(const StoreOptions& options);

}  // namespace dimred::stores
