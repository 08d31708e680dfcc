#include "checkpoints/step_names.h"

#include <algorithm>

#include "checkpoints/folder_commit.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/text.h"

namespace dimred::checkpoints {

std::string StepNames::name_of(std::int64_t step) const {
  require(step >= 0, "[checkpoints] needs step >= 0, received {}", step);
  return formatted("{}{}{}", prefix, padded(step, 8), suffix);
}

bool StepNames::matches(std::string_view name) const {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return false;
  if (name.size() < prefix.size() + suffix.size() + 8) return false;
  name.remove_prefix(prefix.size());
  name.remove_suffix(suffix.size());
  return std::ranges::all_of(name, is_digit);
}

std::vector<std::filesystem::path> list_steps(const std::filesystem::path& folder,
                                              StepNames names) {
  std::vector<std::filesystem::path> found;
  if (!std::filesystem::is_directory(folder)) return found;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    if (names.matches(item.path().filename().string())) found.push_back(item.path());
  }
  sort_naturally(found);
  return found;
}

void remove_oldest(const std::filesystem::path& folder,
                   StepNames names,
                   std::int64_t keep,
                   const std::filesystem::path& newest) {
  const auto found = list_steps(folder, names);
  std::int64_t excess = std::ssize(found) - keep;
  for (const auto& path : found) {
    if (excess <= 0) return;
    if (path.filename() == newest.filename()) continue;
    if (std::filesystem::is_directory(path)) {
      remove_folder(path);
    } else {
      std::filesystem::remove(path);
    }
    --excess;
  }
}

}  // namespace dimred::checkpoints
