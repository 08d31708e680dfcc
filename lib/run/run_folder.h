#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoints/folder_lock.h"
#include "checkpoints/run_config.h"
#include "engine/setup.h"
#include "run/events/event_log.h"
#include "run/options.h"
#include "run/record.h"

namespace dimred::run {

/// The copy's name in a run folder.
inline constexpr auto module_file = "model.pt";

/// The TorchScript module of resolved options; empty for a network by name.
std::filesystem::path module_of(const engine::ModelOptions& options);

/// Throws std::invalid_argument where no run can be: an empty path, a file, a folder of other files
/// or a place within a run. For a check before the data are read.
void require_run_place(const std::filesystem::path& path);

/// config.toml, manifest.json, curve.csv, checkpoints/, snapshots/ of one run, and model.pt of a
/// TorchScript module.
class RunFolder {
 public:
  /// Creates the folder, or takes it up again when its config.toml says the same (how far the run
  /// goes and how it is shown aside: epochs, threads, prefetch, quiet). Throws
  /// std::invalid_argument naming the first option that differs, or when the folder holds something
  /// that is not a run of ours, or would be a part of one; std::runtime_error while another process
  /// trains in it. Rank 0 alone creates, locks and writes; all ranks throw its error.
  RunFolder(std::filesystem::path path,
            const checkpoints::RunConfig& config,
            Communicator& communicator,
            const EventOptions& events = {});

  const std::filesystem::path& path() const { return path_; }
  const RunRecord& record() const { return record_; }  // as the configuration has it
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path snapshots() const { return path_ / "snapshots"; }
  /// As FolderLock's; empty on the other ranks.
  std::string lock_limit() const { return lock_ ? lock_->limit() : std::string(); }
  /// Files that rank 0 writes a line at a time, with their events; empty on the other ranks.
  LineFile curve() const;
  LineFile steps() const;

  /// Writes manifest.json: seed, revision, library versions, device, ranks, data, layout hash, and
  /// `outcome` (running | finished | interrupted | failed) with `details`; of a run that has ended
  /// well, the bytes of each of its files.
  void write_manifest(const engine::Setup& setup,
                      const std::string& command,
                      const std::string& outcome,
                      const nlohmann::json& details) const;

  /// On rank 0, where no state is there: throws std::invalid_argument if the manifest that the last
  /// start left lists states, because training would start again over that run.
  void require_states_of_earlier() const;

  /// After a failure before any work (a curve row, a state, a basis, a snapshot, a trace): leaves
  /// things as they were found, so that what was refused leaves no trace.
  void abandon() const;

 private:
  void take(const checkpoints::RunConfig& wanted);
  std::filesystem::path manifest() const { return path_ / "manifest.json"; }
  std::string work() const;  // a text that changes when training leaves something behind

  std::filesystem::path path_;
  RunRecord record_;
  EventOptions events_;
  bool writes_ = true;    // rank 0
  bool created_ = false;  // the folder
  bool new_run_ = false;  // its config.toml
  std::string earlier_config_, earlier_manifest_;
  std::string earlier_work_;
  std::unique_ptr<dimred::checkpoints::FolderLock> lock_;
};

}  // namespace dimred::run
