#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dimred::data {

/// A folder that a tool fills with files, so that a killed tool goes on where it was:
/// dimred-data.txt says in one line what is made from what, and every other file has its final name
/// only when it is whole. A second start of the same job keeps the files that are there; anything
/// else in the folder is refused.
class OutputFolder {
 public:
  /// Creates it. Throws std::invalid_argument when it holds other files, or those of another job.
  OutputFolder(std::filesystem::path folder, std::string_view job);
  const std::filesystem::path& path() const { return folder_; }
  /// Whether an earlier start has finished this file.
  bool has(const std::string& name) const;

 private:
  std::filesystem::path folder_;
};

/// Throws std::invalid_argument where the folder `path` of several OutputFolders holds another
/// entry than these folders.
void require_only_parts(const std::filesystem::path& path, const std::vector<std::string>& parts);

}  // namespace dimred::data
