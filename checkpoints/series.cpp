#include "checkpoints/series.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <regex>
#include <set>

#include "checkpoints/file_names.h"
#include "checkpoints/part_names.h"
#include "checkpoints/rank_files.h"
#include "checkpoints/snapshot_list.h"
#include "checkpoints/steps.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

/// The members of a series before their steps are known.
struct Found {
  Paths weights;
  std::vector<std::string> remarks;
};

bool is_index(const fs::path& path) { return path.string().ends_with(index_ending); }

/// The name with # for each of its numbers, as other members of a series have it.
std::string shape_of(const fs::path& path) {
  static const std::regex numbers("[0-9]+");
  return std::regex_replace(bare_name(path), numbers, "#");
}

/// Whether the file has the name of weights, not of what an optimizer holds.
bool may_be_weights(const fs::path& file) {
  const auto name = file.filename().string();
  return !name.starts_with("._") && name.find("optim_states") == name.npos &&
         (is_weight_name(file) || is_index(file) || file.extension() == ".h5");
}

/// The name of a member by which another of its series is known: without extensions of weights.
std::string stem_of(const fs::path& weights) {
  auto name = name_of(weights).filename().string();
  if (name.ends_with(index_ending)) name.resize(name.size() - index_ending.size());
  return bare_name(name);
}

/// The note of aria2 beside a file, or beside the weights in a folder, that it still loads; else
/// empty.
fs::path download_note_of(const fs::path& path, const fs::path& weights) {
  for (const auto& file : {path, weights}) {
    const fs::path note = file.string() + ".aria2";
    if (!file.empty() && fs::exists(note)) return note;
  }
  return {};
}

bool is_unfinished_at(const fs::path& path, const fs::path& weights) {
  return is_unfinished_name(path) || !download_note_of(path, weights).empty();
}

fs::path weights_at(const fs::path& path) {
  return fs::is_directory(path) ? weights_in(path) : path;
}

/// Whether a disk station's folder of previews, which has the names of what it shows, is on the
/// path.
bool is_of_previews(const fs::path& path) {
  return std::ranges::any_of(path, [](const fs::path& part) { return part == "@eaDir"; });
}

/// Whether an entry may be a checkpoint, unfinished or unreadable, where it is no member.
bool is_known(const fs::path& path) {
  const bool hidden = path.filename().string().starts_with('.');
  return fs::is_directory(path) || may_be_weights(path) || path.extension() == ".tmp" ||
         (is_unfinished_name(path) && !hidden);
}

/// The entries of a folder by what they are.
struct Content {
  Paths indices, own, other, nested;  // weights: by an index, of our kinds, of others, in folders
  Paths rest;                         // unfinished, or unreadable
  Paths unknown;                      // files under other names
};

Content content_of(const fs::path& folder) {
  Content content;
  for (const auto& item : fs::directory_iterator(folder)) {
    const auto& path = item.path();
    if (is_of_previews(path.filename())) continue;
    const bool is_folder = item.is_directory();
    const auto weights = is_folder ? weights_in(path) : may_be_weights(path) ? path : fs::path();
    if (weights.empty() || is_unfinished_at(path, weights) || !fs::is_regular_file(weights)) {
      (is_known(path) ? content.rest : content.unknown).push_back(path);
    } else if (is_folder) {
      content.nested.push_back(weights);
    } else if (is_index(path)) {
      content.indices.push_back(whole_or_index(path));
    } else {
      const bool own = path.extension() == ".h5" || path.extension() == ".safetensors";
      (own ? content.own : content.other).push_back(path);
    }
  }
  auto& [indices, own, other, nested, rest, unknown] = content;
  for (auto* paths : {&indices, &own, &other, &nested, &rest, &unknown}) sort_naturally(*paths);
  return content;
}

/// Why what is neither a file nor a folder cannot be read, for a person.
std::string reason_of_other(const fs::path& path) {
  switch (fs::status(path).type()) {
    case fs::file_type::not_found:
      return "the link leads nowhere";
    case fs::file_type::fifo:
      return "it is a pipe";
    case fs::file_type::socket:
      return "it is a socket";
    default:
      return "it is no regular file";
  }
}

/// Why a folder has no weights that can be read, for a person.
std::string reason_of(const fs::path& folder) {
  if (!fs::is_directory(folder)) return reason_of_other(folder);
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    const auto& path = item.path();
    const auto name = path.lexically_relative(folder);
    if (item.is_symlink() && !fs::exists(path))
      return formatted("{} is a link that leads nowhere", name);
    if (path.extension() == ".distcp") return formatted("{} has no .metadata beside it", name);
    if (is_weight_name(path) && part_in_name(path))
      return formatted("{} is a part of a checkpoint", name);
  }
  return "it has no weights under a name that is known";
}

/// Says what was left out: unfinished checkpoints, and what is called as the members are.
void remark_on(const Paths& rest, const Paths& taken, std::vector<std::string>& remarks) {
  std::set<std::string> shapes;
  for (const auto& weights : taken) {
    const auto name = name_of(weights);
    shapes.insert(shape_of(name));
    if (rank_file(weights)) shapes.insert(shape_of(name.parent_path()));  // of global_step_N/actor
  }
  for (const auto& path : rest) {
    const auto shape = shape_of(path);
    if (const auto note = download_note_of(path, weights_at(path)); !note.empty()) {
      remarks.push_back(
          formatted("left out {}: it is unfinished, as {} says", path, note.filename()));
    } else if (is_unfinished_name(path)) {
      const bool similar = std::ranges::any_of(
          shapes, [&](const auto& member) { return shape.find(member) != shape.npos; });
      if (similar || may_be_weights(path) || !weights_in(path).empty())
        remarks.push_back(formatted("left out {}: it is unfinished, as its name says", path));
    } else if (shapes.contains(shape)) {
      remarks.push_back(formatted("left out {}: {}", path, reason_of(path)));
    }
  }
}

/// Whether a file is a text or a picture about a checkpoint, or a mark beside one.
bool is_about_checkpoint(const fs::path& file) {
  constexpr std::array<std::string_view, 16> endings{".json",
                                                     ".jsonl",
                                                     ".yaml",
                                                     ".yml",
                                                     ".toml",
                                                     ".txt",
                                                     ".log",
                                                     ".csv",
                                                     ".md",
                                                     ".html",
                                                     ".png",
                                                     ".pdf",
                                                     ".svg",
                                                     ".aria2",
                                                     ".sha256",
                                                     ".lock"};
  return std::ranges::find(endings, lower_case(file.extension().string())) != endings.end();
}

/// Whether a file has the name of a further member, whatever its extensions: step3.safetensors.gz
/// beside step1.safetensors.
bool is_further(const fs::path& file,
                const std::set<std::string>& stems,
                const std::set<std::string>& shapes) {
  const auto name = file.filename().string();
  for (std::size_t end = 0; end < name.size();) {
    end = std::min(name.find('.', end + 1), name.size());
    const auto stem = name.substr(0, end);
    if (shapes.contains(shape_of(stem))) return !stems.contains(stem);
  }
  return false;
}

/// Says which files of other formats have the name of a further checkpoint.
void remark_on_formats(const Content& content,
                       const Paths& taken,
                       std::vector<std::string>& remarks) {
  std::set<std::string> stems, shapes;
  for (const auto& weights : taken) {
    stems.insert(stem_of(weights));
    shapes.insert(shape_of(stem_of(weights)));
  }
  std::vector<std::string> further;
  for (const auto* files : {&content.own, &content.other, &content.unknown}) {
    if (files == &taken) continue;
    for (const auto& file : *files) {
      const bool known = std::ranges::find(taken, file) != taken.end() || is_about_checkpoint(file);
      if (!known && is_further(file, stems, shapes)) further.push_back(file.filename().string());
    }
  }
  constexpr std::size_t shown = 4;
  if (further.empty()) return;
  remarks.push_back(
      formatted("left out, as files of another format than the others: {}{}",
                printable(joined(std::views::take(further, shown), ", ")),
                further.size() > shown ? formatted(", ... ({} in all)", further.size()) : ""));
}

/// Merges are merged again where there is nothing else: among checkpoints they are the result of an
/// earlier merge of the same.
void require_no_merge(const Paths& files, const fs::path& source, std::string_view scope) {
  const auto is_merge = [](const fs::path& file) {
    return fs::exists(file.parent_path() / "merge.json");
  };
  const auto found = std::ranges::find_if(files, is_merge);
  require(found == files.end() || std::ranges::all_of(files, is_merge),
          "[{}] '{}' holds '{}', which is a merge itself; give the other checkpoints by a pattern "
          "or in a text file (.txt, one a line)",
          scope,
          source,
          found == files.end() ? fs::path() : found->parent_path());
}

void require_none_nested(const fs::path& folder, const Paths& nested, std::string_view scope) {
  require(nested.empty(),
          "[{}] '{}' holds weights and also folders with weights, such as '{}'; give the "
          "checkpoints themselves or a list of them",
          scope,
          folder,
          nested.empty() ? fs::path() : nested.front().parent_path().filename());
}

void find_in_folder(const fs::path& folder, std::string_view scope, Found& found) {
  auto content = content_of(folder);
  auto& [indices, own, other, nested, rest, unknown] = content;
  if (indices.empty()) require_snapshots_of_run(folder);
  auto& files = !indices.empty() ? indices : !own.empty() ? own : other;
  if (!files.empty()) {
    require_none_nested(folder, nested, scope);
    for (const auto& file : files) require_whole(file, scope);
  } else {
    require_no_merge(nested, folder, scope);
  }
  const auto& taken = files.empty() ? nested : files;
  require(!taken.empty(),
          "[{}] needs snapshots (.h5) or weight files (.safetensors, .ckpt, .pt, .pth, .bin), but "
          "the folder '{}' has none",
          scope,
          folder);
  remark_on(rest, taken, found.remarks);
  remark_on_formats(content, taken, found.remarks);
  if (auto remark = unlisted(folder); !remark.empty()) found.remarks.push_back(remark);
  std::ranges::copy(taken, std::back_inserter(found.weights));
}

void find_one(const Artifact& artifact, std::string_view scope, Found& found) {
  if (artifact.kind == ArtifactKind::folder) require_one_meaning(artifact.path, scope);
  require_whole(artifact.path, scope);
  found.weights.push_back(artifact.weights.empty() ? artifact.path : artifact.weights);
}

/// Throws std::invalid_argument where a line of a list names anything but one checkpoint.
void require_one_in_list(const Artifact& artifact, const fs::path& list, std::string_view scope) {
  const auto& [path, kind, weights] = artifact;
  const char* what = kind == ArtifactKind::pattern  ? "a pattern"
                     : kind == ArtifactKind::list   ? "a list"
                     : kind == ArtifactKind::run    ? "a run"
                     : kind == ArtifactKind::state  ? "a state of a run"
                     : kind == ArtifactKind::series ? "a folder of several"
                                                    : nullptr;
  require(what == nullptr,
          "[{}] needs one checkpoint in each line of the list '{}', received {}, '{}'; list the "
          "files in it, or give that path instead of the list",
          scope,
          list,
          what == nullptr ? "" : what,
          path);
}

void require_finished(const fs::path& path, std::string_view scope) {
  require(!is_unfinished(path), "[{}] '{}' is unfinished, as its name says", scope, path);
}

void find_in_list(const fs::path& list, std::string_view scope, Found& found) {
  for (auto path : listed_paths(list)) {
    path = path.lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // step1/
    require_finished(path, scope);
    auto artifact = look(path);
    require_one_in_list(artifact, list, scope);
    if (artifact.weights.empty()) artifact.weights = path;  // its reader says what is wrong with it
    find_one(artifact, scope, found);
  }
}

void find_at(const fs::path& path, std::string_view scope, Found& found);

void find_matching(const fs::path& pattern, std::string_view scope, Found& found) {
  auto paths = paths_matching(pattern, scope);
  for (auto& path : paths)
    if (!path.has_filename()) path = path.parent_path();  // step1/
  std::erase_if(paths, is_of_previews);
  const bool folders = is_pattern(pattern.parent_path().filename());  // checkpoint-*/w.safetensors
  const auto is_in_unfinished = [&](const fs::path& path) {
    const auto folder = path.parent_path();
    return is_unfinished(folder) || (folders && is_unfinished_name(folder));
  };
  const auto rest = std::ranges::stable_partition(paths, [&](const fs::path& path) {
    return path.extension() != ".aria2" && !is_unfinished_at(path, weights_at(path)) &&
           !is_in_unfinished(path);
  });
  Paths left_out;
  for (const auto& path : rest) {
    auto said = is_in_unfinished(path) ? path.parent_path() : path;
    if (std::ranges::find(left_out, said) == left_out.end()) left_out.push_back(std::move(said));
  }
  paths.erase(rest.begin(), rest.end());
  require(
      !paths.empty(), "[{}] needs snapshots or weights, but nothing matches '{}'", scope, pattern);
  sort_naturally(paths);
  const auto before = std::ssize(found.weights);
  for (const auto& path : paths) {
    // A dangling link whose name is a pattern matches itself.
    require(
        fs::exists(path), "[{}] needs snapshots or weights, but '{}' does not exist", scope, path);
    find_at(path, scope, found);
  }
  const Paths taken(found.weights.begin() + before, found.weights.end());
  require_no_merge(taken, pattern, scope);
  remark_on(left_out, taken, found.remarks);
}

void find_at(const fs::path& path, std::string_view scope, Found& found) {
  require_finished(path, scope);
  const auto artifact = look(path);
  switch (artifact.kind) {
    case ArtifactKind::missing:
      refuse("[{}] needs snapshots or weights, but '{}' does not exist", scope, path);
    case ArtifactKind::unknown:
      refuse("[{}] needs a folder, a .txt list, weights or an .npy matrix, received '{}'",
             scope,
             path);
    case ArtifactKind::pattern:
      return find_matching(path, scope, found);
    case ArtifactKind::list:
      return find_in_list(path, scope, found);
    case ArtifactKind::run:
    case ArtifactKind::state:
    case ArtifactKind::series:
      return find_in_folder(snapshots_of(path), scope, found);
    default:
      return find_one(artifact, scope, found);
  }
}

}  // namespace

bool is_unfinished_name(const fs::path& path) {
  static const std::regex unfinished(
      "[.~].*|tmp-.*|.*(~|[-_]te?mp|\\.orbax-checkpoint-tmp.*|"
      "\\.(incomplete|saving|inprogress|crdownload|temp)|\\.(tmp|part|partial)(-?[0-9]+)?)");
  return std::regex_match(path.filename().string(), unfinished) ||
         std::regex_match(bare_name(path), unfinished);
}

void require_one_meaning(const fs::path& folder, std::string_view scope) {
  auto nested = content_of(folder).nested;
  // The ranks' files in a folder of a Trainer's checkpoint are its own weights and optimizer.
  std::erase_if(nested, [&](const fs::path& weights) {
    return rank_file(weights) && side_folder_of(weights) == folder;
  });
  require_none_nested(folder, nested, scope);
}

Series members(const std::vector<fs::path>& sources, std::string_view scope) {
  Found found;
  for (const auto& source : sources) find_at(source, scope, found);
  Series series{.remarks = std::move(found.remarks)};
  Paths names;
  for (auto& weights : found.weights) names.push_back(name_of(weights));
  require_no_parts(names, scope);
  const auto steps = steps_of(names);
  for (std::size_t i = 0; i < names.size(); ++i)
    series.members.push_back({std::move(names[i]), std::move(found.weights[i]), steps.of[i]});
  series.counted = steps.counted;
  series.unordered = steps.conflict;
  if (!steps.stages.empty()) series.unordered = "their names are of " + steps.stages;
  return series;
}

void sort_by_step(Series& series) {
  std::ranges::stable_sort(series.members, {}, &Member::step);
  const auto twice = std::ranges::adjacent_find(series.members, {}, &Member::step);
  if (twice != series.members.end())
    series.unordered =
        formatted("'{}' and '{}' are of step {}", twice->path, (twice + 1)->path, twice->step);
}

void require_order(const Series& series, std::string_view scope, std::string_view who) {
  require(series.unordered.empty(),
          "[{}] {} needs checkpoints in an order, but {}; only the plain mean needs no order",
          scope,
          who,
          series.unordered);
}

std::vector<fs::path> member_weights(const Series& series) {
  Paths weights;
  for (const auto& member : series.members) weights.push_back(member.weights);
  return weights;
}

}  // namespace dimred::checkpoints
