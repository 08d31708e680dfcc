#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/snapshot.h"

// Which snapshots a run has: its states say so, so that one that is gone or replaced is known.
namespace dimred::checkpoints {

/// The snapshots that a run has saved in its folder snapshots/: the newest `keep`, each with the
/// digest in its head.
struct SnapshotList {
  struct Older {
    bool operator()(const std::string& a, const std::string& b) const;
  };
  std::int64_t keep = std::numeric_limits<std::int64_t>::max();
  std::map<std::string, std::string, Older> digests;  // by file name
  bool ended = false;  // the run has ended, so that there are no newer ones; no part of the JSON

  /// One more; the oldest beyond `keep` is no longer expected.
  void add(const std::string& name, const std::string& digest);
};
nlohmann::json to_json(const SnapshotList& list);
SnapshotList snapshot_list_from_json(const nlohmann::json& json);

/// How a folder's .h5 files differ from what the run has written; empty when they do not: "36 of
/// 40 snapshots of FOLDER are there, missing: ...". Snapshots that are newer than the list are the
/// run's, saved after the state, unless it has ended or they hold another step than their names
/// say. The first snapshots whose heads were read stay in `open`, as many as the process may have.
std::string difference(const SnapshotList& list,
                       const std::filesystem::path& folder,
                       OpenSnapshots* open = nullptr);

/// The folder that has `folder` as its snapshots/; empty for one of another name.
std::filesystem::path run_above(const std::filesystem::path& folder);

/// The list in the newest readable state beside `folder`, which is the snapshots/ of a run; nullopt
/// for other folders, and where no state has one: of a run that was killed before its first.
std::optional<SnapshotList> list_of_run(const std::filesystem::path& folder);

/// How a run's snapshots/ differs from what the run has written, as difference(); empty for other
/// folders and where nothing is known. Cost: the head of each file is read.
std::string difference_of_run(const std::filesystem::path& folder, OpenSnapshots* open = nullptr);

/// For a person, where `folder` is a run's and no state lists its snapshots; else empty.
std::string unlisted(const std::filesystem::path& folder);

/// Throws std::runtime_error where a folder is a run's snapshots/ and differs from its state's
/// list. Cost: the head of each file is read. `open`: as difference() fills it.
void require_snapshots_of_run(const std::filesystem::path& folder, OpenSnapshots* open = nullptr);

/// The paths that a text file lists line by line, relative to its own folder; lines that begin with
/// # are comments. Throws std::invalid_argument where it lists none, or one twice.
std::vector<std::filesystem::path> listed_paths(const std::filesystem::path& list);

}  // namespace dimred::checkpoints
