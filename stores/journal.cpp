#include "stores/journal.h"

#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "stores/listing.h"
#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

/// Changes when a file does; empty when there is none.
std::string stamp_of(const fs::path& file) {
  struct stat state {};
  if (::stat(file.c_str(), &state) != 0 || !S_ISREG(state.st_mode)) return {};
  return concat(state.st_size, ' ', state.st_mtim.tv_sec, '.', state.st_mtim.tv_nsec);
}

}  // namespace

Journal::Journal(fs::path file, fs::path root) : file_(std::move(file)), root_(std::move(root)) {
  std::ifstream in(file_, std::ios::binary);
  bool whole = true;
  for (std::string line; std::getline(in, line); whole = !in.eof()) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    try {
      seen_[json.at("name")] = {json.at("size"), json.at("etag"), json.at("stamp")};
    } catch (const nlohmann::json::exception&) {
      continue;
    }
  }
  // Cut by a kill: the next line would be lost behind it.
  if (!whole) std::ofstream(file_, std::ios::app) << '\n';
}

std::string Journal::name_of(const Wanted& wanted) const {
  return wanted.to.lexically_relative(root_).string();
}

std::string Journal::line_of(const std::string& name, const Seen& seen) {
  const nlohmann::json line{
      {"name", name}, {"size", seen.size}, {"etag", seen.etag}, {"stamp", seen.stamp}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

bool Journal::knows(const Wanted& wanted) const {
  const auto& item = wanted.found.item;
  const auto stamp = stamp_of(wanted.to);
  if (stamp.empty()) return false;
  const auto at = seen_.find(name_of(wanted));
  if (at != seen_.end() && at->second.size == item.size && !item.etag.empty() &&
      at->second.etag == item.etag && at->second.stamp == stamp)
    return true;
  const auto& digest = wanted.found.digest;
  return !digest.empty() && static_cast<std::int64_t>(fs::file_size(wanted.to)) == item.size &&
         digest_of_file(wanted.to) == digest;
}

void Journal::note(const Wanted& wanted) {
  const auto name = name_of(wanted);
  const auto& item = wanted.found.item;
  const Seen seen{item.size, item.etag, stamp_of(wanted.to)};
  seen_[name] = seen;
  require_environment(static_cast<bool>(std::ofstream(file_, std::ios::app | std::ios::binary)
                                        << line_of(name, seen) << std::flush),
                      "stores",
                      "cannot write ",
                      file_.string());
}

void Journal::settle(const std::vector<Wanted>& all, bool clears) {
  std::map<std::string, Seen> now;
  std::string text;
  for (const auto& wanted : all) {
    const auto name = name_of(wanted);
    const auto& item = wanted.found.item;
    now[name] = {item.size, item.etag, stamp_of(wanted.to)};
    text += line_of(name, now[name]);
  }
  if (clears) {
    for (const auto& [name, seen] : seen_)
      if (is_inside(name) && !now.contains(name)) fs::remove(root_ / name);
  }
  write_file_atomically(file_, text);
  seen_ = std::move(now);
}

void Journal::remove() { fs::remove(file_); }

}  // namespace dimred::stores
