#include "checkpoints/series.h"

#include <algorithm>
#include <array>
#include <functional>
#include <regex>
#include <set>
#include <span>
#include <system_error>

#include "checkpoints/file_names.h"
#include "checkpoints/frozen_part.h"
#include "checkpoints/part_names.h"
#include "checkpoints/rank_files.h"
#include "checkpoints/role_names.h"
#include "checkpoints/snapshot_list.h"
#include "checkpoints/steps.h"
#include "checkpoints/weights_format.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

bool is_index(const fs::path& path) { return path.string().ends_with(index_ending); }

bool is_folder(const fs::path& path) { return type_at(path) == fs::file_type::directory; }

bool is_file(const fs::path& path) { return type_at(path) == fs::file_type::regular; }

/// Whether a file or folder is called as Accelerate and transformers call a training state.
bool is_training_state(const fs::path& path) {
  static const std::regex names(
      "(optimizer|scheduler|sampler|scaler|rng_state|random_states)(_[0-9]+)?(\\.(bin|pt|pth|pth\\."
      "tar))?");
  return std::regex_match(path.filename().string(), names);
}

/// The names that a person gives the members.
Paths called(const Series& series) {
  Paths names;
  for (const auto& member : series.members) names.push_back(member.path);
  return names;
}

/// Whether the file has the name of weights, not of what an optimizer holds.
bool may_be_weights(const fs::path& file) {
  const auto name = file.filename().string();
  const bool named = is_weight_name(file) || is_index(file) || file.extension() == ".h5";
  return named && !is_training_state(file) && !name.starts_with("._") &&
         name.find("optim_states") == name.npos;
}

/// The name of a member by which another of its series is known: without extensions of weights.
std::string stem_of(const fs::path& weights) {
  auto name = name_of(weights).filename().string();
  if (name.ends_with(index_ending)) name.resize(name.size() - index_ending.size());
  return bare_name(name);
}

constexpr std::string_view unfinished_mark = "-unfinished";

/// Whether a file says that another, whose name it begins with, is unfinished: aria2's and NeMo's.
bool is_note(const fs::path& path) {
  const auto name = path.filename().string();
  return name.ends_with(".aria2") || (name.ends_with(unfinished_mark) && is_file(path));
}

/// The note beside a checkpoint, or beside the weights in a folder, that it is unfinished; else
/// empty.
fs::path note_of(const fs::path& path, const fs::path& weights) {
  const std::string mark(unfinished_mark);
  std::vector<std::string> notes{path.string() + ".aria2", path.string() + mark};
  if (weights == path)
    notes.push_back((path.parent_path() / bare_name(path)).string() + mark);
  else if (!weights.empty())
    notes.push_back(weights.string() + ".aria2");
  const auto found = std::ranges::find_if(notes, is_file);
  return found == notes.end() ? fs::path() : fs::path(*found);
}

bool is_unfinished_at(const fs::path& path, const fs::path& weights) {
  return is_unfinished_name(path) || !note_of(path, weights).empty();
}

fs::path weights_at(const fs::path& path) { return is_folder(path) ? weights_in(path) : path; }

/// Whether a disk station's folder of previews, which has the names of what it shows, is on the
/// path.
bool is_of_previews(const fs::path& path) {
  return std::ranges::any_of(path, [](const fs::path& part) { return part == "@eaDir"; });
}

/// Whether a file has the values that the snapshots in its folder lack, and is no member itself.
bool is_frozen_part(const fs::path& path) {
  if (path.filename() != frozen_file_name) return false;
  const auto folder = path.parent_path();
  return std::ranges::any_of(fs::directory_iterator(folder.empty() ? "." : folder),
                             [](const auto& item) { return item.path().extension() == ".h5"; });
}

/// Whether an entry may be a checkpoint, unfinished or unreadable, where it is no member.
bool is_known(const fs::path& path) {
  const bool hidden = path.filename().string().starts_with('.');
  return !is_file(path) || may_be_weights(path) || path.extension() == ".tmp" ||
         (is_unfinished_name(path) && !hidden);
}

/// The entries of a folder by what they are.
struct Content {
  Paths indices, own, other, nested;  // weights: by an index, of our kinds, of others, in folders
  Paths rest;                         // unfinished, or unreadable
  Paths unknown;                      // files under other names
};

void sort_by_name(Content& content) {
  for (auto* paths : {&content.indices,
                      &content.own,
                      &content.other,
                      &content.nested,
                      &content.rest,
                      &content.unknown})
    sort_naturally(*paths);
}

Content content_of(const fs::path& folder) {
  Content content;
  for (const auto& item : fs::directory_iterator(folder)) {
    const auto& path = item.path();
    if (is_of_previews(path.filename()) || is_frozen_part(path)) continue;
    const bool nested = is_folder(path);
    auto weights = nested ? weights_in(path) : may_be_weights(path) ? path : fs::path();
    if (is_training_state(path)) weights.clear();
    if (weights.empty() || is_unfinished_at(path, weights) || !is_file(weights)) {
      (is_known(path) ? content.rest : content.unknown).push_back(path);
    } else if (nested) {
      content.nested.push_back(weights);
    } else if (is_index(path)) {
      content.indices.push_back(whole_or_index(path));
    } else {
      const bool own = path.extension() == ".h5" || path.extension() == ".safetensors";
      (own ? content.own : content.other).push_back(path);
    }
  }
  sort_by_name(content);
  return content;
}

/// Why a path is no file that can be read, for a person; `name`: by which it is called, in a
/// folder that is called by its own.
std::string reason_of_other(const fs::path& path, const fs::path& name) {
  const auto space = name.empty() ? "" : " ";
  std::error_code error;
  switch (fs::status(path, error).type()) {
    case fs::file_type::not_found:
      return formatted("the target of the link{}{} does not exist", space, name);
    case fs::file_type::none:
      if (error == std::errc::too_many_symbolic_link_levels)
        return formatted("the link{}{} leads back to itself", space, name);
      return error.message();
    case fs::file_type::fifo:
      return formatted("the path{}{} is a pipe", space, name);
    case fs::file_type::socket:
      return formatted("the path{}{} is a socket", space, name);
    case fs::file_type::directory:
      return formatted("the path{}{} is a folder", space, name);
    default:
      return formatted("the path{}{} is not a regular file", space, name);
  }
}

/// The entries of a folder; none of one that this user must not read.
fs::directory_iterator readable_items_of(const fs::path& folder) {
  return fs::directory_iterator(folder, fs::directory_options::skip_permission_denied);
}

bool can_be_opened(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator items(folder, error);
  return !error;
}

/// Whether a file called .bin holds anything but weights, as the tokens of a text do.
bool is_other_data(const fs::path& file) {
  if (lower_case(file.extension().string()) != ".bin") return false;
  try {
    const InputFile input(file);
    const auto head = input.part(0, std::min<std::int64_t>(64, input.size()));
    return !has_weights_format(input) && placeholder_remark(head).empty();
  } catch (const std::exception&) {
    return false;  // for its reader to refuse
  }
}

/// Whether a folder has weights itself, under whatever names.
bool has_own_weights(const fs::path& folder) {
  return std::ranges::any_of(readable_items_of(folder), [](const auto& item) {
    return may_be_weights(item.path()) && is_file(item.path()) && !is_other_data(item.path());
  });
}

/// The first folder with weights within a folder that has none itself: model in step_100/model;
/// empty: there is none.
fs::path deeper_weights_in(const fs::path& folder) {
  Paths found;
  for (const auto& item : readable_items_of(folder)) {
    const auto& path = item.path();
    if (is_folder(path) && can_be_opened(path) && !is_training_state(path) &&
        !is_unfinished_at(path, {}) && (!weights_in(path).empty() || has_own_weights(path)))
      found.push_back(path);
  }
  return found.empty() ? fs::path() : std::ranges::min(found);
}

/// Why a folder has no weights that can be read, for a person.
std::string reason_of(const fs::path& folder) {
  if (!is_folder(folder)) return reason_of_other(folder, {});
  if (const auto weights = weights_in(folder); !weights.empty() && !is_file(weights))
    return reason_of_other(weights, weights.filename());
  const auto readable = fs::directory_options::skip_permission_denied;
  for (const auto& item : fs::recursive_directory_iterator(folder, readable)) {
    const auto& path = item.path();
    const auto name = path.lexically_relative(folder);
    if (item.is_symlink() && type_at(path) == fs::file_type::not_found)
      return reason_of_other(path, name);
    if (path.extension() == ".distcp")
      return formatted("{} needs a .metadata file in the same folder", name);
    if (is_weight_name(path) && part_in_name(path))
      return formatted("{} is only a part of a checkpoint", name);
  }
  if (const auto deeper = has_own_weights(folder) ? fs::path() : deeper_weights_in(folder);
      !deeper.empty())
    return formatted("the weights lie deeper, in the folder {}", deeper);
  return "the folder has no weight file with a known name";
}

// Words that stand where other names have a step. Programs save copies of numbered checkpoints
// under such names.
constexpr std::array<std::string_view, 5> words_for_steps{
    "last", "latest", "newest", "final", "best"};

/// Whether a name has such a word.
bool has_word_for_step(const fs::path& path) {
  static const std::regex word(
      formatted("(?:^|[^a-z0-9])(?:{})(?![a-z0-9])", joined(words_for_steps, "|")));
  const auto name = lower_case(bare_name(path));
  const auto within = [&](auto each) { return name.find(each) != name.npos; };
  return std::ranges::any_of(words_for_steps, within) && std::regex_search(name, word);
}

/// The names of a series, by which others of the same series are known.
class Siblings {
 public:
  explicit Siblings(const Paths& taken) {
    for (const auto& weights : taken) {
      add(stem_of(weights));
      if (rank_file(weights)) add(name_of(weights).parent_path());  // of global_step_N/actor
    }
  }
  /// Whether a name is that of a further member, whatever its extensions, and not that of what
  /// belongs to a member: step3.safetensors.gz, step-1k and step3-last beside step1, not
  /// step1-logs.
  bool have_further(const fs::path& path) const {
    for (auto stem = path.filename().string(); !stem.empty();) {
      const auto name = series_name(stem);
      if (shapes_.contains(name.shape)) return !begins_with_member(name);
      const auto dot = stem.rfind('.');
      stem.resize(dot == stem.npos ? 0 : dot);
    }
    return false;
  }
  /// Whether a name has a word where the members' have a step: checkpoint-last beside
  /// checkpoint-10, or last alone.
  bool have_word(const fs::path& path) const {
    const auto shape = series_name(path).shape;
    const auto is_called = [&](std::string_view word) {
      if (!shape.ends_with(word)) return false;
      const auto before = shape.substr(0, shape.size() - word.size());
      return before.empty() || shapes_.contains(before + '#');
    };
    return std::ranges::any_of(words_for_steps, is_called);
  }
  /// Whether a name has a member's within it: tmp-step3.
  bool are_in(const fs::path& path) const {
    const auto shape = series_name(path).shape;
    return std::ranges::any_of(
        shapes_, [&](const auto& member) { return shape.find(member) != shape.npos; });
  }

 private:
  void add(const fs::path& path) {
    auto name = series_name(path);
    names_.insert(std::move(name.name));
    shapes_.insert(std::move(name.shape));
  }
  bool begins_with_member(const SeriesName& name) const {
    for (auto end = std::max<std::size_t>(name.end, 1); end <= name.name.size(); ++end) {
      const bool whole = end == name.name.size() || !is_digit(name.name[end]);
      if (whole && names_.contains(name.name.substr(0, end))) return true;
    }
    return false;
  }
  std::set<std::string> names_, shapes_;
};

/// Says what was left out: unfinished checkpoints, and what is called as the members are.
void remark_on(const Paths& rest, const Paths& taken, std::vector<std::string>& remarks) {
  const Siblings siblings(taken);
  for (const auto& path : rest) {
    if (is_note(path)) continue;
    if (const auto note = note_of(path, weights_at(path)); !note.empty()) {
      remarks.push_back(
          formatted("left out {}, an unfinished checkpoint, as {} says", path, note.filename()));
    } else if (is_unfinished_name(path)) {
      if (siblings.are_in(path) || may_be_weights(path) ||
          (is_folder(path) && !weights_in(path).empty()))
        remarks.push_back(
            formatted("left out {}, an unfinished checkpoint, as the name says", path));
    } else if (siblings.have_further(path) || siblings.have_word(path)) {
      remarks.push_back(formatted("left out {}: {}", path, reason_of(path)));
    }
  }
}

/// Says why what was left out is unfinished, and throws std::invalid_argument where it may be a
/// checkpoint: there is no other at the source.
void require_finished_ones(const Paths& rest, const fs::path& source, std::string_view scope) {
  const auto may_be_one = [](const fs::path& path) {
    return is_folder(path) ? !weights_in(path).empty()
                           : may_be_weights(path) || may_be_weights(path.stem());
  };
  for (const auto& path : rest) {
    if (is_note(path) || !may_be_one(path)) continue;
    const auto note = note_of(path, weights_at(path));
    if (note.empty() && !is_unfinished_name(path)) continue;
    refuse(
        "[{}] needs finished checkpoints, but '{}' has only unfinished checkpoints, for example "
        "'{}' "
        "({} marks it as unfinished); give finished checkpoints by their paths",
        scope,
        source,
        path.filename(),
        note.empty() ? "the name" : path_text(note.filename()));
  }
}

/// The folders that have weights only under other names than dimred knows, as unet of a diffusers
/// pipeline, or only in folders within; not what remark_on() names as further members.
Paths unknown_weights_in(const Paths& rest, const Siblings& siblings) {
  const auto has_weights = [](const fs::path& folder) {
    return has_own_weights(folder) || !deeper_weights_in(folder).empty();
  };
  Paths found;
  for (const auto& path : rest)
    if (is_folder(path) && !is_training_state(path) && weights_in(path).empty() &&
        !is_unfinished_at(path, {}) && !siblings.have_further(path) && !siblings.have_word(path) &&
        has_weights(path))
      found.push_back(path);
  return found;
}

/// Throws std::invalid_argument where a folder whose name has a step has its weights deeper than
/// the taken members have them, as step_100/model beside export_a.
void require_none_deeper(const fs::path& folder,
                         const Paths& taken,
                         const Paths& others,
                         std::string_view scope) {
  const auto is_deeper = [](const fs::path& other) {
    return series_name(other).word && !has_own_weights(other);
  };
  const auto found = std::ranges::find_if(others, is_deeper);
  if (found == others.end()) return;
  refuse(
      "[{}] '{}' has the checkpoint '{}', but the weights of '{}' lie deeper, in its folder '{}'; "
      "give the checkpoints by a pattern or list them in a text file (.txt, one per line)",
      scope,
      folder,
      name_of(taken.front()).filename(),
      found->filename(),
      deeper_weights_in(*found).filename());
}

/// Says which folders with weights of other names are left out. Throws std::invalid_argument where
/// the folders that are taken are no series by their names, as text_encoder beside unet.
void settle_other_folders(const fs::path& folder,
                          const Content& content,
                          std::string_view scope,
                          std::vector<std::string>& remarks) {
  const auto others = unknown_weights_in(content.rest, Siblings(content.nested));
  if (others.empty()) return;
  std::vector<std::string> names;
  std::int64_t numbered = 0;
  for (const auto& weights : content.nested) {
    const auto name = series_name(name_of(weights));
    numbered += name.word ? 2 : name.end > 0 ? 1 : 0;
    names.push_back(path_text(name_of(weights).filename()));
  }
  if (numbered <= 1) require_none_deeper(folder, content.nested, others, scope);
  const auto networks = names.size();
  for (const auto& other : others)
    if (has_own_weights(other)) names.push_back(path_text(other.filename()));
  const bool several = names.size() > networks;
  std::ranges::sort(names, natural_less);
  require(numbered > 1 || !several,
          "[{}] '{}' holds the weights of several networks, in the folders {}; give the weights of "
          "one network, by a path or a pattern within its folder",
          scope,
          folder,
          first_of_all(names, 4));
  for (const auto& other : others)
    remarks.push_back(formatted("left out {}: {}", other, reason_of(other)));
}

/// Says which folders with weights have a step in their names beside weight files: their weights
/// may be further checkpoints.
void remark_on_folders(const Paths& rest, const Paths& files, std::vector<std::string>& remarks) {
  Paths numbered;  // the other folders may hold data of any size
  std::ranges::copy_if(
      rest, std::back_inserter(numbered), [](const auto& path) { return series_name(path).word; });
  for (const auto& other : unknown_weights_in(numbered, Siblings(files)))
    remarks.push_back(formatted(
        "left out {}: the folder lies beside weight files, which are the checkpoints", other));
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

/// Says which files of other formats have the name of a further checkpoint.
void remark_on_formats(const Content& content,
                       const Paths& taken,
                       std::vector<std::string>& remarks) {
  const Siblings siblings(taken);
  std::vector<std::string> further;
  for (const auto* files : {&content.own, &content.other, &content.unknown}) {
    if (files == &taken) continue;
    for (const auto& file : *files) {
      const bool known = std::ranges::find(taken, file) != taken.end() || is_about_checkpoint(file);
      const bool named = files != &content.unknown && siblings.have_word(file);
      if (!known && (named || siblings.have_further(file)))
        further.push_back(printable(file.filename().string()));
    }
  }
  if (further.empty()) return;
  remarks.push_back(formatted("left out files in another format than the other checkpoints: {}",
                              first_of_all(further, 4)));
}

/// Merges are merged again where there is nothing else: among checkpoints they are the result of an
/// earlier merge of the same.
void require_no_merge(const Paths& files, const fs::path& source, std::string_view scope) {
  const auto is_merge = [](const fs::path& file) {
    return fs::exists(file.parent_path() / "merge.json");
  };
  const auto found = std::ranges::find_if(files, is_merge);
  require(
      found == files.end() || std::ranges::all_of(files, is_merge),
      "[{}] '{}' holds checkpoints and also '{}', the result of a merge, which would count as "
      "one of the checkpoints; give the other checkpoints by a pattern or in a text file (.txt, "
      "one per line)",
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

void add_member(const Artifact& file, Series& found) {
  found.members.push_back({.path = name_of(file.path), .weights = file.path, .kind = file.kind});
}

/// The names of the members from the `first` on that are so.
template <class Is>
Paths names_from(const Series& found, std::size_t first, Is is) {
  Paths names;
  for (const auto& member : std::span(found.members).subspan(first))
    if (is(member.path)) names.push_back(member.path);
  return names;
}

bool has_number(const fs::path& name) { return series_name(name).end > 0; }

/// Whether a name has last, best or the like in the place of a step; step300_best has its step.
bool has_only_word(const fs::path& name) {
  return has_word_for_step(name) && !series_name(name).word;
}

/// Leaves out members, from the `first` on, that are called checkpoint-last, best or the like
/// beside others with steps: they may be copies of these. Returns false where there are none.
bool leave_out_words(std::size_t first, Series& found) {
  const auto named = names_from(found, first, has_only_word);
  const auto others = names_from(found, first, std::not_fn(has_only_word));
  if (named.empty() || others.size() < 2 || steps_of(others).counted) return false;
  for (const auto& name : named)
    found.remarks.push_back(
        formatted("left out {}: the name has no step, but {} has one; to take all, list them in a "
                  "text file (.txt, one per line)",
                  name,
                  others.back().filename()));
  const auto begin = found.members.begin() + static_cast<std::ptrdiff_t>(first);
  const auto is_named = [](const Member& member) { return has_only_word(member.path); };
  found.members.erase(std::remove_if(begin, found.members.end(), is_named), found.members.end());
  return true;
}

/// Says what becomes of members of one source, from the `first` on, whose names have no step beside
/// others that have one: they are left out, or the series has no order.
void settle_unnumbered(std::size_t first, Series& found) {
  const auto all = steps_of(names_from(found, first, [](const fs::path&) { return true; }));
  if (!all.counted || !all.stages.empty() || !all.conflict.empty()) return;
  const auto numbered = names_from(found, first, has_number);
  if (numbered.empty() || leave_out_words(first, found)) return;
  const auto others = names_from(found, first, std::not_fn(has_number));
  const bool series = numbered.size() > 1 || series_name(numbered.front()).word;
  if (others.empty() || !series || steps_of(numbered).counted) return;
  found.unordered = formatted("the name of '{}' has no step, but that of '{}' has one",
                              others.front().filename(),
                              numbered.back().filename());
  found.remarks.push_back(formatted("the checkpoints have no order: {}", found.unordered));
}

/// Throws std::invalid_argument for shards of torch.distributed.checkpoint alone: a .metadata file
/// says where tensors lie in them.
void require_no_lone_shards(const fs::path& folder, std::string_view scope) {
  std::set<fs::path> shards;
  for (const auto& item : fs::directory_iterator(folder))
    if (item.path().extension() == ".distcp") shards.insert(item.path().filename());
  require(shards.empty(),
          "[{}] needs snapshots or weights, but '{}' has none that can be read: {} needs a "
          ".metadata file in the same folder",
          scope,
          folder,
          shards.empty() ? fs::path() : *shards.begin());
}

void find_in_folder(const fs::path& folder, std::string_view scope, Series& found) {
  auto content = content_of(folder);
  auto& [indices, own, other, nested, rest, unknown] = content;
  if (indices.empty()) require_snapshots_of_run(folder, found.open ? &*found.open : nullptr);
  auto& files = !indices.empty() ? indices : !own.empty() ? own : other;
  if (!files.empty()) {
    require_none_nested(folder, nested, scope);
    for (const auto& file : files) require_whole(file, scope);
  } else {
    require_no_merge(nested, folder, scope);
  }
  const auto& taken = files.empty() ? nested : files;
  if (taken.empty()) require_finished_ones(rest, folder, scope);
  if (taken.empty()) require_no_lone_shards(folder, scope);
  require(!taken.empty(),
          "[{}] needs snapshots (.h5) or weight files (.safetensors, .ckpt, .pt, .pth, .bin), but "
          "the folder '{}' has none",
          scope,
          folder);
  remark_on(rest, taken, found.remarks);
  if (files.empty())
    settle_other_folders(folder, content, scope, found.remarks);
  else
    remark_on_folders(rest, files, found.remarks);
  remark_on_formats(content, taken, found.remarks);
  if (auto remark = unlisted(folder); !remark.empty()) found.remarks.push_back(remark);
  const auto before = found.members.size();
  for (const auto& file : taken) add_member(look(file), found);
  settle_unnumbered(before, found);
}

void find_one(const Artifact& artifact, std::string_view scope, Series& found) {
  if (artifact.kind == ArtifactKind::folder) require_one_meaning(artifact.path, scope);
  require_whole(artifact.path, scope);
  const bool named = artifact.weights.empty() || artifact.weights == artifact.path;
  if (!named && !is_file(artifact.weights))
    refuse("[{}] needs snapshots or weights, but '{}' has none that can be read: {}",
           scope,
           artifact.path,
           reason_of(artifact.path));
  add_member(named ? artifact : look(artifact.weights), found);
}

/// Throws std::invalid_argument where a line of a list names anything but one checkpoint.
void require_one_in_list(const Artifact& artifact, const fs::path& list, std::string_view scope) {
  const auto& [path, kind, weights] = artifact;
  const char* what = kind == ArtifactKind::pattern  ? "a pattern"
                     : kind == ArtifactKind::list   ? "a list"
                     : kind == ArtifactKind::run    ? "a run"
                     : kind == ArtifactKind::state  ? "a state of a run"
                     : kind == ArtifactKind::series ? "a folder of several checkpoints"
                                                    : nullptr;
  require(what == nullptr,
          "[{}] needs one checkpoint in each line of the list '{}', received {}, '{}'; list the "
          "single files, or give this path instead of the list",
          scope,
          list,
          what == nullptr ? "" : what,
          path);
}

void require_finished(const fs::path& path, std::string_view scope) {
  require(!is_unfinished(path),
          "[{}] '{}' is unfinished, as the name says; give a finished checkpoint",
          scope,
          path);
}

void find_in_list(const fs::path& list, std::string_view scope, Series& found) {
  for (auto path : listed_paths(list)) {
    path = path.lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // step1/
    require_finished(path, scope);
    const auto artifact = look(path);
    require_one_in_list(artifact, list, scope);
    find_one(artifact, scope, found);  // its reader says what is wrong with it
  }
}

void find_at(const fs::path& path, std::string_view scope, Series& found);

void find_matching(const fs::path& pattern, std::string_view scope, Series& found) {
  require(pattern.string().find("**") == std::string::npos,
          "[{}] needs a pattern without **, received '{}'; write one * for each folder",
          scope,
          pattern);
  auto paths = paths_matching(pattern, scope);
  for (auto& path : paths)
    if (!path.has_filename()) path = path.parent_path();  // step1/
  std::erase_if(paths,
                [](const fs::path& path) { return is_of_previews(path) || is_frozen_part(path); });
  const bool folders = is_pattern(pattern.parent_path().filename());  // checkpoint-*/w.safetensors
  const auto is_in_unfinished = [&](const fs::path& path) {
    const auto folder = path.parent_path();
    return is_unfinished(folder) || (folders && is_unfinished_name(folder));
  };
  const auto rest = std::ranges::stable_partition(paths, [&](const fs::path& path) {
    return !is_note(path) && !is_unfinished_at(path, weights_at(path)) && !is_in_unfinished(path);
  });
  Paths left_out;
  for (const auto& path : rest) {
    auto said = is_in_unfinished(path) ? path.parent_path() : path;
    if (std::ranges::find(left_out, said) == left_out.end()) left_out.push_back(std::move(said));
  }
  paths.erase(rest.begin(), rest.end());
  if (paths.empty()) require_finished_ones(left_out, pattern, scope);
  require(
      !paths.empty(), "[{}] needs snapshots or weights, but nothing matches '{}'", scope, pattern);
  sort_naturally(paths);
  const auto before = found.members.size();
  for (const auto& path : paths) {
    // A dangling link whose name is a pattern matches itself.
    require(type_at(path) != fs::file_type::not_found,
            "[{}] needs snapshots or weights, but '{}' does not exist",
            scope,
            path);
    find_at(path, scope, found);
  }
  auto taken = member_weights(found);
  taken.erase(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(before));
  require_no_merge(taken, pattern, scope);
  remark_on(left_out, taken, found.remarks);
  settle_unnumbered(before, found);
}

/// Throws std::invalid_argument where members are different networks, or raw and averaged weights,
/// by their names. A list takes them, and a remark says so.
void settle_roles(bool listed, std::string_view scope, Series& found) {
  const auto difference = different_roles(called(found));
  if (!difference) return;
  const auto& [one, other, role, other_role] = *difference;
  const auto why = role.empty()
                       ? formatted("only the second name has the word \"{}\"", other_role)
                       : formatted("the names have the words \"{}\" and \"{}\"", role, other_role);
  require(listed,
          "[{}] needs checkpoints of one network, but '{}' and '{}' have different roles: {}; give "
          "the checkpoints of one role, or, to use all, list them in a text file (.txt, one per "
          "line)",
          scope,
          one,
          other,
          why);
  found.remarks.push_back(formatted("{} and {} may be different networks: {}", one, other, why));
}

void find_at(const fs::path& path, std::string_view scope, Series& found) {
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
  // The first four may also be words of an ordinary name, as in creative-writing; behind the first
  // two, a number may be a temperature or that of a part.
  static constexpr std::array<std::string_view, 13> words{"temp",
                                                          "part",
                                                          "saving",
                                                          "writing",
                                                          "tmp",
                                                          "partial",
                                                          "incomplete",
                                                          "unfinished",
                                                          "in[-_ ]?progress",
                                                          "downloading",
                                                          "filepart",
                                                          "crdownload",
                                                          "gstmp"};
  static const auto ordinary = joined(std::span(words).first(4), "|");
  static const auto others = joined(std::span(words).subspan(4), "|");
  static constexpr std::string_view number = "(?:[-_.]?[0-9]+)?";
  static constexpr std::string_view step_word = "step|iter(?:ation)?|checkpoint|ckpt|epoch";
  static const auto checkpoint = formatted(
      "(?:(?:pytorch_)?model|weights|.*\\.(?:safetensors|bin|ckpt|pth?)|"
      ".*(?:{})s?[-_=. ]?[0-9]*[kmb]?)",
      step_word);
  static const std::regex at_an_end(
      formatted("_*(?:tmp[0-9]*|(?:{})(?![-_.][0-9]))[-_.].*|.*[-_.](?:{}){}|.*\\.tmp[-_.][^.]*|"
                "_*(?:temp\\.(?![0-9])|(?:{})[-_.](?:{}|model|weights)).*|.*\\.(?:{}){}|"
                "{}[-_](?:(?:saving|writing){}|temp|part)",
                others,
                others,
                number,
                ordinary,
                step_word,
                ordinary,
                number,
                checkpoint,
                number));
  const auto is_unfinished_text = [](const std::string& name) {
    if (name.starts_with('.') || name.starts_with('~') || name.ends_with('~')) return true;
    const auto within = [&](auto word) { return name.find(word) != name.npos; };
    return (std::ranges::any_of(words, within) || within("progress")) &&
           std::regex_match(name, at_an_end);
  };
  return is_unfinished_text(lower_case(path.filename().string())) ||
         is_unfinished_text(lower_case(bare_name(path)));
}

void require_one_meaning(const fs::path& folder, std::string_view scope) {
  auto nested = content_of(folder).nested;
  // The ranks' files in a folder of a Trainer's checkpoint are its own weights and optimizer.
  std::erase_if(nested, [&](const fs::path& weights) {
    return rank_file(weights) && side_folder_of(weights) == folder;
  });
  require_none_nested(folder, nested, scope);
}

Series members(const std::vector<fs::path>& sources, std::string_view scope, bool stay_open) {
  Series series;
  if (stay_open) series.open.emplace();
  for (const auto& source : sources) find_at(source, scope, series);
  const auto unnumbered = std::move(series.unordered);
  const bool listed = std::ranges::all_of(
      sources, [](const fs::path& source) { return look(source).kind == ArtifactKind::list; });
  settle_roles(listed, scope, series);
  if (auto remark = require_no_parts(called(series), scope, listed); !remark.empty())
    series.remarks.push_back(std::move(remark));
  take_steps(series);
  if (series.counted && series.unordered.empty()) series.unordered = unnumbered;
  return series;
}

void take_steps(Series& series) {
  const auto steps = steps_of(called(series));
  for (std::size_t i = 0; i < steps.of.size(); ++i) series.members[i].step = steps.of[i];
  series.counted = steps.counted;
  series.unordered = steps.conflict;
  if (!steps.stages.empty()) series.unordered = "the names belong to " + steps.stages;
}

void sort_by_step(Series& series) {
  std::ranges::stable_sort(series.members, {}, &Member::step);
  const auto twice = std::ranges::adjacent_find(series.members, {}, &Member::step);
  if (twice != series.members.end())
    series.unordered = formatted(
        "'{}' and '{}' both belong to step {}", twice->path, (twice + 1)->path, twice->step);
}

void put_in_order(Series& series, bool is_list) {
  series.listed = is_list;
  if (series.counted || (is_list && !series.unordered.empty())) return;
  std::set<std::int64_t> steps;
  for (const auto& member : series.members) steps.insert(member.step);
  if (!is_list || steps.size() == series.members.size()) return sort_by_step(series);
  const auto falls =
      std::ranges::adjacent_find(series.members, std::ranges::greater(), &Member::step);
  if (falls == series.members.end()) return;
  series.remarks.push_back(
      formatted("the list has {} before {}, against the steps in their names; the order of the "
                "list counts, because two have the same step",
                falls->path,
                (falls + 1)->path));
}

void require_order(const Series& series, std::string_view scope, std::string_view who) {
  require(series.unordered.empty(),
          "[{}] {} needs the order of the checkpoints, but {}; only the plain mean works without "
          "an order",
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
