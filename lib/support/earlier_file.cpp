#include "support/earlier_file.h"

#include <system_error>

namespace dimred {

namespace fs = std::filesystem;

EarlierFile::EarlierFile(const fs::path& path)
    : path_(path), kept_(path.string() + ".dimred_old.tmp"), was_there_(fs::exists(path)) {
  remove_kept();
  std::error_code failed;
  if (was_there_) fs::create_hard_link(path_, kept_, failed);
  is_kept_ = was_there_ && !failed;
}

EarlierFile::~EarlierFile() { remove_kept(); }

bool EarlierFile::restore() const {
  std::error_code failed;
  if (is_kept_) fs::rename(kept_, path_, failed);
  if (!was_there_) fs::remove(path_, failed);
  return (is_kept_ || !was_there_) && !failed;
}

void EarlierFile::remove_kept() const {
  std::error_code ignored;
  if (fs::is_regular_file(fs::symlink_status(kept_, ignored))) fs::remove(kept_, ignored);
}

}  // namespace dimred
