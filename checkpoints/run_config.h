#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "checkpoints/runs.h"
#include "options/options.h"
#include "options/options_file.h"

// The configuration of a run folder, and whether it is still what the run was made with.
namespace dimred::checkpoints {

/// The text of a run's config.toml, and what its rows say of a run that is taken up again.
struct RunConfig {
  std::string toml;
  std::filesystem::path module;  // a TorchScript module's file, which the folder keeps a copy of
  std::string persistent;  // what the weights depend on, as TOML: states and snapshots keep it
  std::set<std::string> may_change = {};            // options whose value may be another one
  std::map<std::string, std::string> ways_on = {};  // Option::way_on
  std::string command = {};                         // stage1 or stage2; empty in tests without
  std::vector<Removed> removed = {};                // options that earlier revisions had
  RunIdentity run = {};  // of a run that begins: by its options that may not change
};

/// The configuration that a table with resolved values gives. Its module is still empty.
RunConfig run_config(const OptionTable& table);

/// The bytes of a run's small file. Throws std::invalid_argument naming it where it is none.
std::string read_text(const std::filesystem::path& file);

/// config.toml of a run, without its first line, which holds the digest of the rest. Throws
/// std::runtime_error when it is missing or does not begin so, or its digest differs.
std::string read_config(const std::filesystem::path& folder);

/// `toml` behind the line that read_config checks.
std::string with_digest(const std::string& toml);

/// A run, opened for later use.
struct OpenedRun {
  std::filesystem::path folder;  // empty: a state or snapshot outside its run, or no run at all
  std::filesystem::path source;  // of the configuration: config.toml, or that state or snapshot
  std::string config;            // empty: nothing is known
};

/// The entries of its configuration, with their places in its file.
std::vector<ConfigEntry> entries_of(const OpenedRun& run);

/// The run that `path` (a run folder, or a state, snapshot or other file in one) belongs to. Throws
/// std::runtime_error when its config.toml is missing or damaged, or says other things than the
/// state or snapshot at `path`, or else the run's newest state, or that state says nothing. A state
/// or snapshot outside a run says itself what it needs.
OpenedRun open_run(const std::filesystem::path& path);

/// Returns the JSON that the weights at `path` record of their run, or else, as for an export, the
/// record of the newest state in the run around them; empty: there is none. Nothing is compared
/// with config.toml.
std::string record_of(const std::filesystem::path& path);

/// Throws std::runtime_error for weights (.h5) whose digest is another than the manifest.json
/// beside them says, and for a manifest.json that is damaged. Cost: the manifest and the head of
/// the weights' file are read.
void require_own(const std::filesystem::path& file);

/// Throws std::invalid_argument naming `folder` and the first option whose value is another than in
/// `earlier`, the TOML of the run there, and may not change; or a removed option there that has
/// another value than its old default.
void require_same_configuration(const std::filesystem::path& folder,
                                const std::string& earlier,
                                const RunConfig& config);

/// The TOML of a run that goes on: that of `config`, and the removed options that `earlier` has,
/// which states and snapshots of the earlier revision are checked by.
std::string continued_toml(const RunConfig& config, const std::string& earlier);

}  // namespace dimred::checkpoints
