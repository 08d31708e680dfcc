#pragma once

#include <filesystem>
#include <string>

namespace dimred::checkpoints {

/// Why locks of files in `folder` may not keep other hosts out, such as "fuse.sshfs" or "nfs4,
/// nolock"; empty where they do, and on a local file system. `mounts` has the lines of
/// /proc/self/mountinfo (proc(5)).
std::string local_locks(const std::filesystem::path& folder, const std::string& mounts);

}  // namespace dimred::checkpoints
