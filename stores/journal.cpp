#include "stores/journal.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stores/listing.h"
#include "stores/walk.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/open_file.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

/// Changes when a file does; empty when there is none.
std::string stamp_of(const fs::path& file) {
  struct stat state {};
  if (::stat(file.c_str(), &state) != 0 || !S_ISREG(state.st_mode)) return {};
  return formatted("{} {}.{}", state.st_size, state.st_mtim.tv_sec, state.st_mtim.tv_nsec);
}

}  // namespace

Journal::Journal(fs::path file, fs::path root, const std::string& of)
    : file_(std::move(file)), root_(std::move(root)) {
  std::ifstream in(file_, std::ios::binary);
  if (!of.empty()) {
    const auto own = nlohmann::json{{"of", of}}.dump();
    std::string first;
    if (!std::getline(in, first) || first != own) {
      write_file_atomically(file_, own + '\n');
      return;
    }
  }
  bool whole = true;
  for (std::string line; std::getline(in, line); whole = !in.eof()) {
    try {
      const auto json = parse_json(line, file_.string());
      seen_[json.at("name")] = {json.at("size"), json.at("etag"), json.at("stamp")};
    } catch (const std::exception&) {
      continue;
    }
  }
  // Cut by a kill: the next line would be lost behind it.
  if (!whole) open_output(file_, std::ios::app) << '\n';
}

std::string Journal::name_of(const Wanted& wanted) const {
  return wanted.to.lexically_relative(root_).string();
}

std::string Journal::line_of(const std::string& name, const Seen& seen) {
  const nlohmann::json line{
      {"name", name}, {"size", seen.size}, {"etag", seen.etag}, {"stamp", seen.stamp}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

std::map<std::string, const Wanted*> Journal::by_name(const std::vector<Wanted>& all) const {
  std::map<std::string, const Wanted*> names;
  for (const auto& wanted : all) names[name_of(wanted)] = &wanted;
  return names;
}

bool Journal::is_noted(const Wanted& wanted) const {
  const auto& item = wanted.found.item;
  const auto at = seen_.find(name_of(wanted));
  if (at == seen_.end() || item.etag.empty()) return false;
  const auto& seen = at->second;
  return seen.size == item.size && seen.etag == item.etag && !seen.stamp.empty() &&
         seen.stamp == stamp_of(wanted.to);
}

bool Journal::knows(const Wanted& wanted) const {
  if (is_noted(wanted)) return true;
  const auto& digest = wanted.found.digest;
  return !digest.empty() && !stamp_of(wanted.to).empty() &&
         static_cast<std::int64_t>(fs::file_size(wanted.to)) == wanted.found.item.size &&
         digest_of_file(wanted.to) == digest;
}

bool Journal::knows_just(const std::vector<Wanted>& all) {
  const auto names = by_name(all);
  for (const auto& [name, seen] : seen_)
    if (!names.contains(name)) return false;  // it is not there any more
  return std::ranges::all_of(all, [&](const Wanted& wanted) {
    if (is_noted(wanted)) return true;
    if (!knows(wanted)) return false;
    note(wanted);
    return true;
  });
}

void Journal::note(const Wanted& wanted) {
  const auto name = name_of(wanted);
  const auto& item = wanted.found.item;
  const Seen seen{item.size, item.etag, stamp_of(wanted.to)};
  seen_[name] = seen;
  require_environment(static_cast<bool>(open_output(file_, std::ios::app | std::ios::binary)
                                        << line_of(name, seen) << std::flush),
                      "[stores] cannot write {}",
                      file_.string());
}

void Journal::remove_file(const std::string& name) const {
  const auto file = root_ / name;
  if (!fs::is_regular_file(fs::symlink_status(file))) return;
  fs::remove(file);
  std::error_code not_empty;
  for (auto folder = file.parent_path(); folder != root_ && fs::remove(folder, not_empty);)
    folder = folder.parent_path();
}

void Journal::make_room(const std::vector<Wanted>& all) {
  const auto wanted = by_name(all);
  for (const auto& [name, seen] : seen_)
    if (is_inside(name) && !wanted.contains(name)) remove_file(name);
  constexpr std::string_view part_ending = ".part";
  constexpr std::string_view note_ending = ".of";
  for (const auto& note : walk(root_).files) {
    if (!note.ends_with(".part.of")) continue;
    const auto part = note.substr(0, note.size() - note_ending.size());
    if (wanted.contains(note) || wanted.contains(part)) continue;  // so are theirs called
    const auto whole = wanted.find(part.substr(0, part.size() - part_ending.size()));
    if (whole != wanted.end() && !is_noted(*whole->second)) continue;  // it will be continued
    remove_file(part);
    remove_file(note);
  }
}

void Journal::settle(const std::vector<Wanted>& all) {
  std::map<std::string, Seen> now;
  std::string text;
  for (const auto& wanted : all) {
    const auto name = name_of(wanted);
    const auto& item = wanted.found.item;
    now[name] = {item.size, item.etag, stamp_of(wanted.to)};
    text += line_of(name, now[name]);
  }
  write_file_atomically(file_, text);
  seen_ = std::move(now);
}

void Journal::remove() { fs::remove(file_); }

}  // namespace dimred::stores
