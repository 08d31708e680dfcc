#include "checkpoints/output.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ranges>
#include <regex>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "checkpoints/folder_commit.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/list_files.h"
#include "support/locations.h"
#include "support/open_file.h"
#include "support/result_file.h"
#include "support/scope_exit.h"
#include "support/url.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;
using FileNames = std::vector<fs::path>;

constexpr auto plan_name = ".plan";

/// The whole path, without a slash at its end.
fs::path with_file_name(const fs::path& path) {
  const auto whole = fs::absolute(path);
  return whole.has_filename() ? whole : whole.parent_path();
}

/// Beside the shard.
fs::path record_name(const fs::path& shard) {
  return shard.parent_path() / formatted(".{}.json", shard.filename().string());
}

/// All names that a record may have: earlier revisions kept it in the output's own folder.
std::set<fs::path> record_names(const fs::path& shard) {
  return {record_name(shard), record_name(shard.filename())};
}

std::string text_at(const fs::path& file) {
  return fs::is_regular_file(fs::symlink_status(file)) ? InputFile(file).text(own_json_limits.bytes)
                                                       : std::string();
}

std::string plan_text(const OutputPlan& plan) {
  auto text = formatted("dimred {} {}\n", plan.command, plan.digest);
  for (const auto& name : plan.names) text += name.string() + '\0';  // the one byte that none holds
  return text;
}

/// Whether a name stays within the folder that it is joined to.
bool stays_inside(const fs::path& name) {
  return name.has_filename() && name.is_relative() && name == name.lexically_normal() &&
         *name.begin() != "..";
}

/// The names in the plan of a folder, none where it has no plan; nullopt: its plan is no output's.
std::optional<FileNames> planned_names(const fs::path& folder, const FileNames& own) {
  static const std::regex digest("[0-9a-f]{32}"), head("dimred [a-z]+ [0-9a-f]{32}");
  if (!fs::exists(fs::symlink_status(folder / plan_name))) return FileNames();
  std::istringstream text(text_at(folder / plan_name));
  std::string line;
  std::getline(text, line);
  if (std::regex_match(line, digest)) return own;  // as earlier revisions wrote it, without names
  if (!std::regex_match(line, head)) return std::nullopt;
  FileNames names;
  for (std::string name; std::getline(text, name, '\0');) {
    if (!stays_inside(name)) return std::nullopt;
    names.emplace_back(name);
  }
  return names;
}

/// Returns all names that a plan may leave behind, whenever its process is killed.
struct OwnFiles {
  std::set<fs::path> files, folders;

  explicit OwnFiles(const FileNames& names) : files{plan_name, FolderLock::file_name} {
    for (const auto& name : names) {
      files.insert(name);
      files.merge(record_names(name));
      for (auto folder = name.parent_path(); !folder.empty(); folder = folder.parent_path())
        folders.insert(folder);
    }
    for (const auto& file : std::set(files)) files.insert(file.string() + ".tmp");
  }
  bool contains(const fs::directory_entry& item, const fs::path& name) const {
    const auto status = item.symlink_status();
    return (fs::is_regular_file(status) && files.contains(name)) ||
           (fs::is_directory(status) && folders.contains(name));
  }
};

/// The first entry of a folder that is no output's; empty: all are one's.
fs::path foreign_entry(const fs::path& folder, const FileNames& own) {
  const auto names = planned_names(folder, own);
  if (!names) return plan_name;
  const OwnFiles ours(*names);
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    const auto name = item.path().lexically_relative(folder);
    if (!ours.contains(item, name)) return name;
  }
  return {};
}

bool lies_within(const fs::path& path, const fs::path& folder) {
  std::error_code none;
  for (auto at = fs::weakly_canonical(path); at.has_relative_path(); at = at.parent_path())
    if (fs::equivalent(at, folder, none)) return true;
  const auto to = location_text(path), from = location_text(folder);
  if (!looks_like_url(to) || !looks_like_url(from)) return false;
  const auto inner = split_url(to), outer = split_url(from);
  return inner.scheme == outer.scheme && inner.authority == outer.authority &&
         inner.path.starts_with((fs::path(outer.path) / "").string());
}

void remove_marks(const fs::path& folder) {
  for (const auto* name : {plan_name, FolderLock::file_name}) fs::remove(folder / name);
}

/// Leaves what others have put there.
void remove_if_empty(const fs::path& folder) {
  std::error_code holds_more;
  fs::remove(folder, holds_more);
}

}  // namespace

void require_outside(std::string_view command, const fs::path& output, const fs::path& source) {
  require(
      !lies_within(with_file_name(output), source),
      "[{}] the output '{}' would be inside the input '{}'; choose an output outside of the input",
      command,
      location_text(output),
      location_text(source));
}

void require_unmatched(std::string_view command, const fs::path& file, const fs::path& source) {
  require(!is_pattern(source) || !would_match(source, with_file_name(file)),
          "[{}] the output '{}' would match the input's pattern '{}'; choose another name",
          command,
          file,
          source);
}

Output::Output(fs::path final_path, OutputPlan plan)
    : final_path_(with_file_name(final_path)),
      temporary_(final_path_.string() + ".tmp"),
      plan_(std::move(plan)) {
  require(!fs::exists(fs::symlink_status(final_path_)),
          "[{}] '{}' exists already; choose another --output",
          plan_.command,
          final_path_);
  require_outside_runs(final_path_, "--output");
  require(fs::is_directory(final_path_.parent_path()),
          "[{}] needs an existing folder for the output '{}'",
          plan_.command,
          final_path_);
  require_own();
  create_folder_in_existing(temporary_);
  lock_.emplace(temporary_);
  const auto text = plan_text(plan_);
  if (text_at(temporary_ / plan_name) != text) {
    clear();
    write_file_atomically(temporary_ / plan_name, text);
  }
  for (const auto& folder : OwnFiles(plan_.names).folders) create_folders(temporary_ / folder);
}

void Output::require_own() const {
  const auto status = fs::symlink_status(temporary_);
  if (!fs::exists(status)) return;
  require(fs::is_directory(status),
          "[{}] needs '{}' for a temporary folder, but a file has this name; remove the file or "
          "choose another --output",
          plan_.command,
          temporary_);
  const auto foreign = foreign_entry(temporary_, plan_.names);
  require(foreign.empty(),
          "[{}] needs '{}' for a temporary folder, but this folder exists and holds '{}'; remove "
          "the folder or choose another --output",
          plan_.command,
          temporary_,
          foreign);
}

fs::path Output::path(const fs::path& name) const {
  check(std::ranges::find(plan_.names, name) != plan_.names.end(), "the plan names each file");
  return temporary_ / name;
}

std::optional<nlohmann::json> Output::record(const fs::path& shard) const {
  const auto text = text_at(temporary_ / record_name(shard));
  try {
    return text.empty() ? std::nullopt
                        : std::optional(parse_json(text, shard.string(), own_json_limits));
  } catch (const std::runtime_error&) {
    return std::nullopt;  // we did not write it: the shard is made again
  }
}

void Output::add_record(const fs::path& shard, const nlohmann::json& record) const {
  write_file_atomically(temporary_ / record_name(shard), record.dump());
}

void Output::fill(const std::function<void()>& write) {
  try {
    write();
  } catch (const std::invalid_argument&) {
    undo_after_error([&] { discard(); });
    throw;
  }
}

void Output::commit() {
  const auto require_new = [&](bool is_new) {
    require(
        is_new,
        "[{}] another program created '{}' meanwhile; the complete output of this command is in "
        "'{}'",
        plan_.command,
        final_path_,
        temporary_);
  };
  require_new(!fs::exists(fs::symlink_status(final_path_)));
  for (const auto& name : plan_.names)
    for (const auto& record : record_names(name)) fs::remove(temporary_ / record);
  sync_folder(temporary_);
  require_new(
      rename_to_new(plan_.one_file ? temporary_ / plan_.names.front() : temporary_, final_path_));
  sync_folder(final_path_.parent_path());
  // These go last: they say whose the temporary folder is, and keep others out.
  remove_marks(plan_.one_file ? temporary_ : final_path_);
  if (plan_.one_file) remove_if_empty(temporary_);
  sync_folder(final_path_.parent_path());
}

void Output::discard() {
  clear();
  remove_marks(temporary_);
  remove_if_empty(temporary_);
}

void Output::clear() const {
  const OwnFiles ours(planned_names(temporary_, plan_.names).value_or(FileNames()));
  for (const auto& file : ours.files)
    if (file != plan_name && file != FolderLock::file_name) fs::remove(temporary_ / file);
  for (const auto& folder : std::views::reverse(ours.folders)) remove_if_empty(temporary_ / folder);
}

}  // namespace dimred::checkpoints
