#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "stores/cache.h"
#include "stores/upload.h"
#include "support/file_lock.h"

// Outputs at URLs: made below the cache, and sent when the command has ended.
namespace dimred::commands {

/// How a command treats what is at its output.
enum class OutputKind {
  run,    // goes on from the newer one of the copies here and there
  added,  // beside what is there
  made,   // by this command: nothing may be there
};

struct RemoteOutput {
  stores::Url url;
  stores::CachePaths paths;
  OutputKind kind = OutputKind::run;
  bool quiet = false;
  std::unique_ptr<FileLock> lock;  // of the place, until this process ends
  stores::DigestMemory memory;     // of files that were sent ahead
};

/// The place of a checkpoint while it is sent ahead.
inline std::filesystem::path staging_of(const RemoteOutput& output) {
  return output.paths.entry / "staging";
}

/// The place in the cache that `url` is made at, by this process alone. Throws
/// std::invalid_argument where nothing can be written, a run of this machine has a part or would
/// have one, something else lies, or (`made`) anything,
/// but for `overwrite` (unset: the command has no such option); where an earlier command's work has
/// not been sent; with `overwrite`, of a file that a folder's listing names; std::runtime_error
/// while another process works there.
std::filesystem::path open_output(const stores::Url& url,
                                  OutputKind kind,
                                  std::optional<bool> overwrite,
                                  bool quiet,
                                  const stores::StoreOptions& options);

/// The output of this process at this path in the cache; null for other paths.
RemoteOutput* output_at(const std::filesystem::path& content);

/// Sends what open_output() has opened and the command has made; returns `code`, or 1 after one
/// line that names the local copy, which is kept then. A stop signal ends this process with a line.
int send_outputs(const std::string& command, int code, const stores::StoreOptions& options);

/// "3 files, 20.1 kB, 4 there already".
std::string moved_text(const stores::Transfer& transfer);

}  // namespace dimred::commands
