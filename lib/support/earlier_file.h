#pragma once

#include <sys/types.h>

#include <filesystem>

namespace dimred {

/// A file during its replacement, kept as `NAME.dimred_old.tmp`. A file of that name is what a
/// killed process has kept, and goes. Destroyed, it changes nothing.
class EarlierFile {
 public:
  /// in_place: by a hard link, so that the file stays until another is renamed to its name; file
  /// systems without hard links keep none, nor does a folder where another user's link would stay.
  /// away: by a rename.
  enum class Keep { in_place, away };
  /// Throws std::invalid_argument where either name is that of a folder, device, pipe, socket or
  /// link, std::runtime_error where the file cannot be renamed.
  EarlierFile(const std::filesystem::path& path, Keep keep);

  /// Puts back what was there. Returns false if that is not possible: what is kept stays so.
  bool restore() const;
  /// Removes what is kept.
  void forget() const;

 private:
  std::filesystem::path path_, kept_;
  bool was_there_ = false, is_kept_ = false;
  ino_t number_ = 0;
};

}  // namespace dimred
