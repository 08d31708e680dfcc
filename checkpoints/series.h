#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/artifact.h"
#include "checkpoints/snapshot.h"

// The checkpoints that a folder, list, pattern or run holds.
namespace dimred::checkpoints {

struct Member {
  std::filesystem::path path;     // as a person calls it: a checkpoint's own folder, or a file
  std::filesystem::path weights;  // the file, index or .metadata in which its tensors lie
  std::int64_t step = 0;          // by its name, or its place from 1 on
  ArtifactKind kind = ArtifactKind::missing;  // of `weights`
};

struct Series {
  std::vector<Member> members;        // by name, in natural number order; of a list in its order
  bool counted = false;               // no steps in the names: places stand for them
  bool listed = false;                // a list, whose order counts where names give none
  std::string unordered;              // why the members have no order; empty: they have one
  std::vector<std::string> remarks;   // what was left out and why, a line each
  std::optional<OpenSnapshots> open;  // those whose heads were read; unset: none stays open
};

/// Finds the members of each source: of a folder its snapshots (.h5) and .safetensors, else its
/// other weight files (.ckpt, .pt, .pth, .bin), or the weights in each folder within it; of a run
/// those in its snapshots/; of a text file (.txt) the paths that it lists; of a pattern those of
/// each path that it matches; else the path itself. Names of unfinished checkpoints
/// (is_unfinished_name(), or the note of aria2 or NeMo beside them) are left out with a remark, and
/// so are unreadable files and folders with a further member's name. Throws
/// std::invalid_argument("[scope] ...") for a source without any, one that is named in .tmp, a
/// pattern with **, parts of a checkpoint (checkpoints/part_names.h), merges among others, a folder
/// that has weights of its own and folders with others, folders of several networks, and, unless a
/// list names them, members of different roles (checkpoints/role_names.h); std::runtime_error for a
/// run's snapshots that differ from its state's list. `stay_open`: snapshots that were read for
/// this list stay open.
Series members(const std::vector<std::filesystem::path>& sources,
               std::string_view scope,
               bool stay_open = false);

/// Reads the steps of the members from their names, and whether the names give an order.
void take_steps(Series& series);

/// Sorts the members by their steps; those of one step stay in their order, and `unordered` says
/// so.
void sort_by_step(Series& series);

/// Sorts the members of one source by their steps where names have some. A list whose names give no
/// order keeps its own; with two members of one step, a remark says where the steps fall.
void put_in_order(Series& series, bool is_list);

/// Throws std::invalid_argument where the series has no order; `who` needs it: "--kind ema".
void require_order(const Series& series, std::string_view scope, std::string_view who);

/// The weights of each member.
std::vector<std::filesystem::path> member_weights(const Series& series);

/// Whether a name is one of what a program is still writing, as transformers, huggingface_hub and
/// others call it: .NAME, ~NAME, NAME~, and in either case of letters NAME with one of the words
/// tmp, partial, incomplete, unfinished, inprogress, downloading, filepart, crdownload, gstmp at
/// its beginning or end, parted from NAME by one of "._-". The words temp, part, saving and writing
/// count at the end behind a dot, and behind "-" or "_" where a checkpoint's word or step (model,
/// checkpoint, step3) or an extension of weights stands before them; and at the beginning before
/// such a word: creative-writing and low-temp are ordinary names. A number may follow at the end,
/// behind temp and part only where a dot stands before them: temp_1 may be a temperature, part_1 a
/// part. An extension of weights does not count.
bool is_unfinished_name(const std::filesystem::path& path);

/// Throws std::invalid_argument("[scope] ...") where folders within the folder, which has weights
/// of its own, have weights, too, as a Trainer's folder does: either could be meant.
void require_one_meaning(const std::filesystem::path& folder, std::string_view scope);

}  // namespace dimred::checkpoints
