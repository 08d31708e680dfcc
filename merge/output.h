#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/folder_lock.h"

namespace dimred::merge {

/// A folder that appears under its name when it is whole. Until then it is NAME.tmp, which a killed
/// process leaves and the next one with the same plan goes on with.
class OutputFolder {
 public:
  /// `plan`: a digest of all that decides its bytes. Throws std::invalid_argument where something
  /// has its name, or what is at NAME.tmp is not a merge's; std::runtime_error while another
  /// process writes it.
  OutputFolder(std::filesystem::path final_path, const std::string& plan);

  const std::filesystem::path& temporary() const { return temporary_; }
  /// What was recorded of a shard that an earlier process finished; nullopt: nothing that is JSON.
  std::optional<nlohmann::json> record(const std::string& shard) const;
  /// Says that the shard is whole.
  void add_record(const std::string& shard, const nlohmann::json& record) const;
  /// Gives the folder its name; its files are durable already.
  void commit();
  /// Removes all that was written.
  void discard();

 private:
  /// Removes all but the plan, which tells the next process that the folder is a merge's.
  void clear();

  std::filesystem::path final_path_;
  std::filesystem::path temporary_;
  std::unique_ptr<checkpoints::FolderLock> lock_;
};

/// Copies what lies in a checkpoint's folder beside its weights and training state: configuration,
/// tokenizer and the like. A configuration's entry for the type of the weights becomes `dtype`
/// (empty: it stays).
void copy_side_files(const std::filesystem::path& from,
                     const std::filesystem::path& to,
                     std::string_view dtype);

/// The names of what copy_side_files leaves in a folder, but for these files (the weights merged),
/// their index and hidden ones.
std::vector<std::string> left_behind(const std::filesystem::path& folder,
                                     const std::vector<std::filesystem::path>& weights);

}  // namespace dimred::merge
