#include "checkpoints/lock_reach.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

#include "support/formatted.h"

namespace dimred::checkpoints {
namespace fs = std::filesystem;

namespace {

/// Locks on file systems of `type` stay on the host where the mount has `option`. An empty option
/// stands for all mounts: they do not show whether locks go further.
struct LocalLocks {
  std::string_view type, option;
};

constexpr std::array local{
    LocalLocks{"nfs", "nolock"},
    LocalLocks{"nfs", "local_lock=all"},
    LocalLocks{"nfs", "local_lock=flock"},
    LocalLocks{"nfs4", "nolock"},
    LocalLocks{"nfs4", "local_lock=all"},
    LocalLocks{"nfs4", "local_lock=flock"},
    LocalLocks{"cifs", "nobrl"},
    LocalLocks{"smb3", "nobrl"},
    LocalLocks{"lustre", "localflock"},
    LocalLocks{"gfs2", "localflocks"},
    LocalLocks{"ocfs2", "localflocks"},
    LocalLocks{"beegfs", ""},  // tuneUseGlobalFileLocks, which no mount shows
    LocalLocks{"virtiofs", ""},
    LocalLocks{"9p", ""},
    LocalLocks{"fuse", ""},  // sshfs and most others; which of them pass flock on is not shown
};

/// FUSE file systems that lie on a disk of this host, or pass flock on.
constexpr std::array reaching{"fuse.fuse-overlayfs", "fuse.glusterfs", "fuse.ceph-fuse"};

struct Mount {
  std::string point, type, options;  // ",a,b=c,", of the file system
};

/// A field of mountinfo, where \040 stands for a space and so on.
std::string unescaped(std::string_view field) {
  std::string text;
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (field[i] == '\\' && i + 3 < field.size()) {
      text += static_cast<char>(64 * (field[i + 1] - '0') + 8 * (field[i + 2] - '0') +
                                field[i + 3] - '0');
      i += 3;
    } else {
      text += field[i];
    }
  }
  return text;
}

Mount mount_of(const std::string& line) {
  std::istringstream words(line);
  const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
  const auto dash = std::ranges::find(fields, "-") - fields.begin();
  if (dash < 6 || std::ssize(fields) < dash + 4) return {};
  return {unescaped(fields[4]), fields[dash + 1], formatted(",{},", fields[dash + 3])};
}

bool lies_below(const fs::path& folder, const fs::path& point) {
  return std::ranges::mismatch(point, folder).in1 == point.end();
}

/// The mount of the file system that the folder lies in.
Mount mount_holding(const fs::path& folder, const std::string& mounts) {
  std::istringstream lines(mounts);
  Mount found;
  for (std::string line; std::getline(lines, line);) {
    auto mount = mount_of(line);
    // A later mount hides an earlier one at the same place.
    if (lies_below(folder, mount.point) && mount.point.size() >= found.point.size())
      found = std::move(mount);
  }
  return found;
}

}  // namespace

std::string local_locks(const fs::path& folder, const std::string& mounts) {
  const auto mount = mount_holding(fs::weakly_canonical(folder), mounts);
  if (std::ranges::find(reaching, mount.type) != reaching.end()) return {};
  const std::string_view family =
      mount.type.starts_with("fuse.") ? "fuse" : std::string_view(mount.type);
  for (const auto& [type, option] : local) {
    if (family != type) continue;
    if (option.empty()) return mount.type;
    if (mount.options.find(formatted(",{},", option)) != std::string::npos)
      return formatted("{}, {}", mount.type, option);
  }
  return {};
}

}  // namespace dimred::checkpoints
