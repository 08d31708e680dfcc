#include "data/shard_source.h"

#include <map>

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

thread_local const std::atomic<bool>* stop_flag = nullptr;

std::map<fs::path, std::shared_ptr<ShardSource>>& sources() {
  static std::map<fs::path, std::shared_ptr<ShardSource>> of_path;
  return of_path;
}

fs::path source_key(const fs::path& path) {
  return path.empty() ? path : fs::absolute(path).lexically_normal();
}

}  // namespace

StoppableReads::StoppableReads(const std::atomic<bool>& flag) { stop_flag = &flag; }

StoppableReads::~StoppableReads() { stop_flag = nullptr; }

bool reads_are_stopped() { return stop_flag != nullptr && stop_flag->load(); }

void stream_from(const fs::path& path, std::shared_ptr<ShardSource> source) {
  sources()[source_key(path)] = std::move(source);
}

std::shared_ptr<ShardSource> source_of(const fs::path& path) {
  const auto found = sources().find(source_key(path));
  return found == sources().end() ? nullptr : found->second;
}

void forget_sources() { sources().clear(); }

}  // namespace dimred::data
