#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/folder_lock.h"

namespace dimred::checkpoints {

/// The files that an output will have, and what decides their bytes.
struct OutputPlan {
  std::string command;  // that makes it: "merge"
  std::string digest;   // of all that decides its bytes
  bool one_file = false;
  std::vector<std::filesystem::path> names;  // of its files, below it; of one file its own
};

/// Throws std::invalid_argument("[command] ...") where an output would lie within a folder that is
/// read, through links or not: who reads the folder again would read something else.
void require_outside(std::string_view command,
                     const std::filesystem::path& output,
                     const std::filesystem::path& source);

/// Throws std::invalid_argument where a file to be written would match a pattern that is read; any
/// other source is passed over.
void require_unmatched(std::string_view command,
                       const std::filesystem::path& file,
                       const std::filesystem::path& source);

/// A folder or one file that appears under its name when it is whole. Until then it is the folder
/// NAME.tmp, which a killed process leaves and the next one with the same plan goes on with. It
/// removes only files named by a plan in that folder.
class Output {
 public:
  /// Throws std::invalid_argument where something has its name, where it would be a part of a run,
  /// or NAME.tmp holds what no output has written; std::runtime_error while another process writes
  /// it.
  Output(std::filesystem::path final_path, OutputPlan plan);

  /// The place of a file of the plan until commit(), in a folder that is there.
  std::filesystem::path path(const std::filesystem::path& name) const;
  /// Returns the record of a shard that an earlier process finished; nullopt without a JSON record.
  std::optional<nlohmann::json> record(const std::filesystem::path& shard) const;
  /// Says that the shard is whole.
  void add_record(const std::filesystem::path& shard, const nlohmann::json& record) const;
  /// Runs `write`, which makes its files. Removes all of them where it throws
  /// std::invalid_argument: a value is refused.
  void fill(const std::function<void()>& write);
  /// Gives the output its name; its files are durable already.
  void commit();
  /// Removes all that was written.
  void discard();

 private:
  void require_own() const;
  /// Removes all but the plan and the lock.
  void clear() const;

  std::filesystem::path final_path_;
  std::filesystem::path temporary_;
  OutputPlan plan_;
  std::optional<FolderLock> lock_;
};

}  // namespace dimred::checkpoints
