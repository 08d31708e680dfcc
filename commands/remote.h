#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "options/options.h"

// URLs in options: what they name is brought here before the command's work, and what the command
// leaves at an --output is sent there after it.
namespace dimred::commands {

/// The rows of group "Remote stores", for a table with options that may be URLs. `uploads`: with
/// upload_checkpoints. `shards_alone`: of a folder at --data the training set's record files are
/// brought, and nothing else.
void add_store_options(OptionTable& table, bool uploads = false, bool shards_alone = false);

/// Throws std::invalid_argument for upload_checkpoints without an --output that is a URL.
void check_store_options(const OptionTable& table);

/// Runs `command` ("stage1", "pca", ...) with such options; returns its exit code, or 1 when an
/// output could not be sent (the local copy stays, and the one line names it). A failed output is
/// not sent; what a signal stopped (130, 143) is.
int with_remote_urls(const std::string& command, const std::function<int()>& work);

/// Sends the run folder's checkpoints ahead while it lives, with --upload_checkpoints; a no-op for
/// other runs and ranks.
class CheckpointUploads {
 public:
  explicit CheckpointUploads(const std::filesystem::path& run);
  ~CheckpointUploads();
  CheckpointUploads(const CheckpointUploads&) = delete;
  CheckpointUploads& operator=(const CheckpointUploads&) = delete;

  /// Ends; an upload under way is broken off, for the last one to go on. For manifest.json; null
  /// for a run without a URL.
  nlohmann::json finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dimred::commands
