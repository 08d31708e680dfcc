#include "stores/journal.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "stores/local_files.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/json.h"

namespace dimred::stores {

namespace fs = std::filesystem;

namespace {

/// The first line, with its end.
std::string place_line(const std::string& of) { return nlohmann::json{{"of", of}}.dump() + '\n'; }

}  // namespace

bool Journal::is_of(const fs::path& file, const std::string& of) {
  return text_or_none(file).starts_with(place_line(of));
}

Journal::Journal(fs::path file, fs::path root, const std::string& of)
    : file_(std::move(file)), root_(std::move(root)) {
  std::istringstream in(text_or_none(file_));
  if (!of.empty() && !is_of(file_, of)) {
    write_file_atomically(file_, place_line(of));
    return;
  }
  for (std::string line; std::getline(in, line);) {
    try {
      const auto json = parse_json(line, file_.string());
      seen_[json.at("name")] = {json.at("size"), json.at("etag"), json.at("stamp")};
    } catch (const std::exception&) {  // a line that was cut, or is not ours
    }
  }
}

std::string Journal::name_of(const Wanted& wanted) const {
  return wanted.to.lexically_relative(root_).string();
}

std::string Journal::see(const Wanted& wanted) {
  const auto& item = wanted.found.item;
  const auto name = name_of(wanted);
  const auto& seen = seen_[name] = {item.size, item.etag, stamp_of(wanted.to)};
  const nlohmann::json line{
      {"name", name}, {"size", seen.size}, {"etag", seen.etag}, {"stamp", seen.stamp}};
  return json_line(line) + '\n';
}

std::map<std::string, const Wanted*> Journal::by_name(const std::vector<Wanted>& all) const {
  std::map<std::string, const Wanted*> names;
  for (const auto& wanted : all) names[name_of(wanted)] = &wanted;
  return names;
}

bool Journal::is_noted(const Wanted& wanted) const {
  const auto& item = wanted.found.item;
  const auto at = seen_.find(name_of(wanted));
  if (at == seen_.end() || item.etag.empty() || at->second.stamp.empty()) return false;
  return at->second == Seen{item.size, item.etag, stamp_of(wanted.to)};
}

bool Journal::knows(const Wanted& wanted) const {
  if (is_noted(wanted)) return true;
  const auto& [item, url, digest] = wanted.found;
  return !digest.empty() && fs::is_regular_file(wanted.to) &&
         static_cast<std::int64_t>(fs::file_size(wanted.to)) == item.size &&
         file_digest(wanted.to) == digest;
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
  auto out = open_output(file_, std::ios::app | std::ios::binary);
  out << '\n' << see(wanted) << std::flush;  // a kill may have cut the line before
  require_environment(out.good(), "[stores] cannot write {}", file_.string());
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
  for (const auto& note : walk(root_).files) {
    if (!note.ends_with(".part.of")) continue;
    const auto part = fs::path(note).replace_extension();
    if (wanted.contains(note) || wanted.contains(part)) continue;  // so are theirs called
    const auto whole = wanted.find(fs::path(part).replace_extension());
    if (whole != wanted.end() && !is_noted(*whole->second)) continue;  // it will be continued
    remove_file(part);
    remove_file(note);
  }
}

void Journal::settle(const std::vector<Wanted>& all) {
  seen_.clear();
  std::string text;
  for (const auto& wanted : all) text += see(wanted);
  write_file_atomically(file_, text);
}

}  // namespace dimred::stores
