#include "support/earlier_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred {

namespace fs = std::filesystem;

EarlierFile::EarlierFile(const fs::path& path, Keep keep)
    : path_(path), kept_(path.string() + ".dimred_old.tmp") {
  for (const auto& name : {path_, kept_}) require_regular_or_absent(name);
  forget();
  struct stat status {};
  was_there_ = ::lstat(path_.c_str(), &status) == 0;
  if (!was_there_) return;
  number_ = status.st_ino;
  if (keep == Keep::away) {
    require_call(::rename(path_.c_str(), kept_.c_str()) == 0, "rename", kept_);
    is_kept_ = true;
  } else if (::geteuid() == 0 || status.st_uid == ::geteuid()) {
    is_kept_ = ::link(path_.c_str(), kept_.c_str()) == 0;
  }
}

bool EarlierFile::restore() const {
  std::error_code failed;
  if (is_kept_) {
    fs::rename(kept_, path_, failed);  // of two links to one file, both stay
    if (!failed) forget();
    return !failed;
  }
  if (!was_there_) {
    fs::remove(path_, failed);
    return !failed;
  }
  struct stat status {};
  return ::lstat(path_.c_str(), &status) == 0 && status.st_ino == number_;
}

void EarlierFile::forget() const {
  std::error_code ignored;
  fs::remove(kept_, ignored);
}

}  // namespace dimred
