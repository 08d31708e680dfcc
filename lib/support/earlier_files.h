#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace dimred {

/// A result's files during their replacement, each kept as `NAME.dimred_old.tmp`: a file, and what
/// describes it and may stand beside no other. Destroyed, it changes nothing.
class EarlierFiles {
 public:
  /// Changes nothing. Throws std::invalid_argument where a name, or that under which it would be
  /// kept, is that of a folder, device, pipe, socket or link; std::runtime_error where it is too
  /// long.
  explicit EarlierFiles(const std::vector<std::filesystem::path>& names);

  /// Keeps the first file by a hard link, so that it stays until another is renamed to its name;
  /// file systems without hard links keep none, nor does a folder where another user's link would
  /// stay. Moves the others away. If a killed process has moved the second file away and put no
  /// other in its place, its kept files stay kept. Throws std::runtime_error where a file cannot
  /// be renamed or removed.
  void keep();
  /// Puts back what was there at keep(), in order, until one cannot be: it and the next stay kept.
  void restore() const;
  /// Removes what is kept.
  void forget() const;

  /// Says what is kept, as part of a message: "" or " (a command that was killed has left ...)".
  std::string remark() const;

 private:
  struct File {
    std::filesystem::path name, kept;
    bool was_there = false, is_kept = false;
    ino_t number = 0;
  };

  static void keep_one(File& file, bool in_place);
  static bool restore_one(const File& file);

  std::vector<File> files_;
  std::size_t seen_ = 0;  // by keep()
};

}  // namespace dimred
