#pragma once

#include <filesystem>

// What lies at a path, by names and first bytes alone. Nothing else asks what an input is.
namespace dimred::checkpoints {

/// The name of a run's configuration in its folder.
inline constexpr auto config_name = "config.toml";

enum class ArtifactKind {
  missing,
  run,          // a folder with a configuration or states of ours
  state,        // a folder with all that a run resumes from
  snapshot,     // weights of ours, .h5
  weights,      // a weight file of another program
  index,        // of shards
  part,         // a weight file of one rank or shard (checkpoints/part_names.h)
  distributed,  // .metadata of torch.distributed.checkpoint
  folder,       // of one checkpoint: weights under a customary name, or an export's
  ranks,        // a folder whose files of ranks are one checkpoint (checkpoints/rank_files.h)
  matrix,       // .npy
  list,         // .txt, a path a line
  pattern,      // with * ? [ ] {a,b}
  series,       // another folder, of several checkpoints
  unknown       // a file of another kind
};

struct Artifact {
  std::filesystem::path path;  // as named
  ArtifactKind kind = ArtifactKind::missing;
  /// The file, index, .metadata or first rank's file in which one set of weights lies; empty for
  /// other kinds, and for a run or state, which say more than weights.
  std::filesystem::path weights;

  /// Whether the path stands for one set of weights.
  bool is_one() const;
  /// Returns true for several sets: a folder, list or pattern.
  bool is_several() const;
};

/// Cost: some names are looked up; of a file of unknown name the first bytes are read.
Artifact look(const std::filesystem::path& path);

/// Whether a folder has a config.toml or a state of ours.
bool is_run(const std::filesystem::path& folder);

/// Returns true for a missing folder, and for what a run's start left that was killed at once.
bool holds_nothing(const std::filesystem::path& folder);

/// The run folder that a path belongs to: itself, or the one above checkpoints/ or snapshots/;
/// empty when there is none.
std::filesystem::path run_of(const std::filesystem::path& path);

/// The folder snapshots/ of a run, whose own folder stands for it; any other path as it is.
std::filesystem::path snapshots_of(const std::filesystem::path& path);

/// The file of all weights that lies beside an index of shards, else the index: what is saved in
/// one file leaves the index of an earlier save, and transformers reads the file.
std::filesystem::path whole_or_index(const std::filesystem::path& index);

/// The file, index or only shard (1-of-1) of the weights in a checkpoint's own folder, as Hugging
/// Face, PEFT and torch.distributed.checkpoint (.metadata) name them, else the first of its files
/// of ranks; empty: the folder has none. May be a link that leads nowhere.
std::filesystem::path weights_in(const std::filesystem::path& folder);

/// Returns true for the names that Hugging Face and PEFT give to the weights in a checkpoint's own
/// folder.
bool is_customary_name(const std::filesystem::path& file);

/// The weights of PEFT, their index or a shard, beside other weights of the same folder, which are
/// read in their place; empty: there are none.
std::filesystem::path adapter_beside(const std::filesystem::path& weights);

/// Weights in a checkpoint's own folder, by the folder as what a person calls it; others as they
/// are.
std::filesystem::path name_of(const std::filesystem::path& weights);

}  // namespace dimred::checkpoints
