#include "stores/local_files.h"

#include <fts.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "stores/store.h"
#include "support/atomic_file.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

/// Deleted or replaced since its name was read.
bool has_vanished(int error) { return error == ENOENT || error == ENOTDIR; }

[[noreturn]] void fail_local(const char* doing, const fs::path& path, int error) {
  throw fs::filesystem_error(doing, path, std::error_code(error, std::generic_category()));
}

/// A link leads to nothing also in a circle; where nobody can tell, it may be a file, and leaving
/// it out would make a folder of a part of it.
void require_dangling(const fs::path& link) {
  struct stat state {};
  if (::stat(link.c_str(), &state) != 0 && errno != ELOOP && !has_vanished(errno))
    fail_local("look at", link, errno);
}

}  // namespace

Walked walk(const fs::path& folder) {
  Walked walked;
  auto root = folder.string();
  char* const roots[] = {root.data(), nullptr};
  const std::unique_ptr<FTS, int (*)(FTS*)> tree(
      fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, nullptr), fts_close);
  if (!tree) fail_local("list", folder, errno);
  while (const auto* const entry = fts_read(tree.get())) {
    const fs::path path = entry->fts_path;
    const auto name = [&] { return path.lexically_relative(folder).string(); };
    switch (entry->fts_info) {
      case FTS_F:
        walked.files.push_back(name());
        break;
      case FTS_SLNONE:
        require_dangling(path);
        [[fallthrough]];
      case FTS_DEFAULT:
        walked.others.push_back(name());
        break;
      case FTS_DC:
        throw std::runtime_error(
            formatted("[stores] {} is a link to a folder that it lies in", path.string()));
      case FTS_DNR:
      case FTS_ERR:
      case FTS_NS:
        if (!has_vanished(entry->fts_errno)) fail_local("list", path, entry->fts_errno);
        break;
      default:
        break;
    }
  }
  std::ranges::sort(walked.files);
  std::ranges::sort(walked.others);
  return walked;
}

bool is_own_cache(const fs::path& name) {
  const auto folder = name.parent_path();
  return std::ranges::find(folder, fs::path(".dimred")) != folder.end();
}

std::string text_or_none(const fs::path& file) {
  if (!fs::exists(file)) return "";
  const InputFile in(file);
  return in.text(in.size());
}

std::string stamp_of(const fs::path& file) {
  struct stat state {};
  if (::stat(file.c_str(), &state) != 0 || !S_ISREG(state.st_mode)) return {};
  const auto& time = state.st_mtim;
  return formatted("{} {}.{}-{}", state.st_size, time.tv_sec, time.tv_nsec, state.st_ino);
}

}  // namespace dimred::stores
