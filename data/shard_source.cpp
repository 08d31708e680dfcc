#include "data/shard_source.h"

#include <map>

namespace dimred::data {
namespace {

thread_local const std::atomic<bool>* stop_flag = nullptr;

std::map<std::filesystem::path, std::shared_ptr<ShardSource>>& sources() {
  static std::map<std::filesystem::path, std::shared_ptr<ShardSource>> of_path;
  return of_path;
}

std::filesystem::path source_key(const std::filesystem::path& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal();
}

}  // namespace

StoppableReads::StoppableReads(const std::atomic<bool>& flag) { stop_flag = &flag; }

StoppableReads::~StoppableReads() { stop_flag = nullptr; }

bool reads_are_stopped() { return stop_flag != nullptr && stop_flag->load(); }

void stream_from(const std::filesystem::path& path, std::shared_ptr<ShardSource> source) {
  sources()[source_key(path)] = std::move(source);
}

std::shared_ptr<ShardSource> source_of(const std::filesystem::path& path) {
  const auto found = sources().find(source_key(path));
  return found == sources().end() ? nullptr : found->second;
}

void forget_sources() { sources().clear(); }

}  // namespace dimred::data
