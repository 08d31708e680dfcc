#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "stores/listing.h"

namespace dimred::stores {

/// A file that is found, and the local one that it shall be.
struct Wanted {
  Found found;
  std::filesystem::path to;
};

/// Which files were brought below a folder, and what they were: a line each as soon as it is whole,
/// so that a start after a kill need not download it again.
class Journal {
 public:
  /// Reads `file`; damaged and foreign lines count as none: everything is looked at again. `of`:
  /// where the files come from, in the first line; a journal of another place is begun again. An
  /// empty `of` means a `file` of one place only.
  Journal(std::filesystem::path file, std::filesystem::path root, const std::string& of = {});

  /// Whether `file` is the journal of files that come from `of`: a call that was cut has left it.
  static bool is_of(const std::filesystem::path& file, const std::string& of);

  /// Whether `to` is still that file, by size, etag and the local file's time; or by the digest of
  /// a listing.
  bool knows(const Wanted& wanted) const;
  /// Whether these, and no others, were brought and are still those files. Notes answers that need
  /// a digest, so that each file is read once.
  bool knows_just(const std::vector<Wanted>& all);
  void note(const Wanted& wanted);

  /// Removes what was brought or begun of other files, with folders that this empties, so that
  /// these have their places; what others put beside it stays.
  void make_room(const std::vector<Wanted>& all);
  /// Notes that these are all files from now on.
  void settle(const std::vector<Wanted>& all);

 private:
  struct Seen {
    std::int64_t size = 0;
    std::string etag;   // of the store, or the listing's digest
    std::string stamp;  // of the local file
    bool operator==(const Seen&) const = default;
  };

  std::string name_of(const Wanted& wanted) const;
  std::map<std::string, const Wanted*> by_name(const std::vector<Wanted>& all) const;
  /// Takes it as it is now; returns its line.
  std::string see(const Wanted& wanted);
  bool is_noted(const Wanted& wanted) const;
  void remove_file(const std::string& name) const;

  std::filesystem::path file_;
  std::filesystem::path root_;
  std::map<std::string, Seen> seen_;  // by name below root
};

}  // namespace dimred::stores
