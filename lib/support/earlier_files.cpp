#include "support/earlier_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/open_file.h"

namespace dimred {

namespace fs = std::filesystem;

EarlierFiles::EarlierFiles(const std::vector<fs::path>& names) {
  for (const auto& name : names) {
    files_.push_back({.name = name, .kept = name.string() + ".dimred_old.tmp"});
    for (const auto& path : {name, files_.back().kept}) require_regular_or_absent(path);
  }
}

void EarlierFiles::keep_one(File& file, bool in_place) {
  const int removed = ::unlink(file.kept.c_str());
  require_call(removed == 0 || errno == ENOENT, "unlink", file.kept);
  struct stat status {};
  file.was_there = ::lstat(file.name.c_str(), &status) == 0;
  if (!file.was_there) return;
  file.number = status.st_ino;
  if (!in_place) {
    require_call(::rename(file.name.c_str(), file.kept.c_str()) == 0, "rename", file.kept);
    file.is_kept = true;
  } else if (::geteuid() == 0 || status.st_uid == ::geteuid()) {
    file.is_kept = ::link(file.name.c_str(), file.kept.c_str()) == 0;
  }
}

void EarlierFiles::keep() {
  const bool killed =
      !fs::exists(files_[1].name) && fs::exists(files_[0].kept) && fs::exists(files_[1].kept);
  for (auto& file : files_) {
    if (killed && fs::exists(file.kept)) {
      file.was_there = file.is_kept = true;
    } else {
      keep_one(file, /*in_place=*/seen_ == 0);
    }
    ++seen_;  // what failed to be kept has not changed
  }
}

bool EarlierFiles::restore_one(const File& file) {
  std::error_code failed;
  if (file.is_kept) {
    fs::rename(file.kept, file.name, failed);  // of two links to one file, both stay
    if (failed) return false;
    fs::remove(file.kept, failed);
    return true;
  }
  if (!file.was_there) {
    fs::remove(file.name, failed);
    return !failed;
  }
  struct stat status {};
  return ::lstat(file.name.c_str(), &status) == 0 && status.st_ino == file.number;
}

void EarlierFiles::restore() const {
  for (std::size_t i = 0; i < seen_; ++i)
    if (!restore_one(files_[i])) return;
}

void EarlierFiles::forget() const {
  std::error_code ignored;
  for (const auto& file : files_) fs::remove(file.kept, ignored);
}

std::string EarlierFiles::remark() const {
  std::string list;
  for (const auto& file : files_) {
    if (fs::exists(file.kept)) list += formatted("{}'{}'", list.empty() ? "" : ", ", file.kept);
  }
  if (list.empty()) return list;
  return formatted(" (a command that was killed has left the earlier files as {})", list);
}

}  // namespace dimred
