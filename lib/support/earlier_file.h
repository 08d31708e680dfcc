#pragma once

#include <filesystem>

namespace dimred {

/// A file during its replacement, kept under a second name. The constructor removes a file of that
/// name, which a killed process has left; the destructor removes what was kept. A file system
/// without hard links keeps none.
class EarlierFile {
 public:
  explicit EarlierFile(const std::filesystem::path& path);
  ~EarlierFile();
  EarlierFile(const EarlierFile&) = delete;
  EarlierFile& operator=(const EarlierFile&) = delete;

  /// Puts back what was there; false: it was not kept, and what is there now stays.
  bool restore() const;

 private:
  void remove_kept() const;

  std::filesystem::path path_, kept_;
  bool was_there_, is_kept_ = false;
};

}  // namespace dimred
