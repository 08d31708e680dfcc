#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace dimred::training {

/// What a run's config.toml says, and the options' values when nobody sets them (as TOML texts;
/// empty: unset), which is what a run of a version without an option had.
struct RunConfig {
  std::string toml;
  std::map<std::string, std::string> defaults;
  std::filesystem::path module;  // a TorchScript module's file, which the folder keeps a copy of
};

/// The bytes of a run's small file. Throws std::runtime_error naming it.
std::string read_text(const std::filesystem::path& file);

/// config.toml of a run, without its first line, which holds the digest of the rest. Throws
/// std::runtime_error when that differs.
std::string read_config(const std::filesystem::path& folder);

/// `toml` behind the line that read_config checks.
std::string with_digest(const std::string& toml);

/// Throws std::invalid_argument naming `folder` and the first option whose value is another than in
/// `earlier`, the TOML of the run there, but for those that say how far the run goes and how it is
/// computed and shown (epochs, threads, prefetch, quiet ...).
void require_same_configuration(const std::filesystem::path& folder,
                                const std::string& earlier,
                                const RunConfig& config);

}  // namespace dimred::training
