#include <algorithm>
#include <fstream>
#include <set>

#include "checkpoints/list_files.h"
#include "pca/npy_matrix.h"
#include "pca/source.h"
#include "support/errors.h"

namespace dimred::pca {
namespace {

std::vector<std::filesystem::path> listed_files(const std::filesystem::path& list) {
  std::ifstream lines(list);
  std::set<std::filesystem::path> seen;
  std::vector<std::filesystem::path> files;
  for (std::string line; std::getline(lines, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    files.push_back(list.parent_path() / line);
    require(seen.insert(files.back().lexically_normal()).second,
            "pca::open_source",
            "needs each snapshot once, '",
            list.string(),
            "' lists twice: ",
            line);
  }
  require(
      !files.empty(), "pca::open_source", "needs a list of files, '", list.string(), "' is empty");
  return files;
}

}  // namespace

std::unique_ptr<SnapshotSource> open_source(const std::filesystem::path& path) {
  require(std::filesystem::exists(path),
          "pca::open_source",
          "needs snapshots, '",
          path.string(),
          "' does not exist");
  if (std::filesystem::is_directory(path)) {
    const auto files = checkpoints::list_files(path, {".h5", ".safetensors"});
    require(!files.empty(),
            "pca::open_source",
            "needs .h5 or .safetensors files, the folder '",
            path.string(),
            "' has none");
    return open_files(files);
  }
  if (path.extension() == ".npy") return npy_matrix(path, "pca::open_source");
  if (path.extension() == ".txt") return open_files(listed_files(path));
  require(path.extension() == ".h5" || path.extension() == ".safetensors",
          "pca::open_source",
          "needs a folder, a .txt list or an .npy matrix, received '",
          path.string(),
          "'");
  return open_files({path});
}

}  // namespace dimred::pca
