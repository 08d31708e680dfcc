#include <utility>

#include "checkpoints/state.h"
#include "checkpoints/step_names.h"
#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

void remove_temporary_folders(const fs::path& folder) {
  std::vector<fs::path> stale;
  for (const auto& item : fs::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    if (name.starts_with(kStateNames.prefix) && name.ends_with(".tmp"))
      stale.push_back(item.path());
  }
  for (const fs::path& path : stale) fs::remove_all(path);
}

std::int64_t step_of(const State& state) {
  const auto step = state.scalars.find("step");
  require(step != state.scalars.end() && step->is_number_integer(),
          "[StateStore] needs an integer scalar 'step'");
  return step->get<std::int64_t>();
}

}  // namespace

StateStore::StateStore(fs::path folder, std::int64_t keep)
    : folder_(std::move(folder)), keep_(keep) {
  require(keep >= 1, "[StateStore] needs keep >= 1, received {}", keep);
}

fs::path StateStore::save(const State& state) const {
  fs::path path = folder_ / kStateNames.name_of(step_of(state));
  create_folders_inside(folder_.parent_path(), folder_);
  remove_temporary_folders(folder_);
  write_state(path, state);
  remove_oldest(folder_, kStateNames, keep_, path);
  return path;
}

std::optional<State> StateStore::newest_valid(std::vector<std::string>* skipped,
                                              const VectorChoice& choose) const {
  std::vector<fs::path> paths = list();
  for (; !paths.empty(); paths.pop_back()) {
    try {
      return read_state(paths.back(), choose);
    } catch (const std::invalid_argument& error) {  // state.json is missing
      if (skipped != nullptr) skipped->emplace_back(error.what());
    } catch (const std::runtime_error& error) {
      if (skipped != nullptr) skipped->emplace_back(error.what());
    }
  }
  return std::nullopt;
}

std::vector<fs::path> StateStore::list() const { return list_steps(folder_, kStateNames); }

}  // namespace dimred::checkpoints
