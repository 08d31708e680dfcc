#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "checkpoints/list_files.h"
#include "pca/exchange.h"
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

/// What open_source(path) reads.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  require(std::filesystem::exists(path),
          "pca::open_source",
          "needs snapshots, '",
          path.string(),
          "' does not exist");
  if (std::filesystem::is_directory(path)) {
    auto files = checkpoints::list_files(path, {".h5", ".safetensors"});
    require(!files.empty(),
            "pca::open_source",
            "needs .h5 or .safetensors files, the folder '",
            path.string(),
            "' has none");
    return files;
  }
  if (path.extension() == ".txt") return listed_files(path);
  require(
      path.extension() == ".npy" || path.extension() == ".h5" || path.extension() == ".safetensors",
      "pca::open_source",
      "needs a folder, a .txt list or an .npy matrix, received '",
      path.string(),
      "'");
  return {path};
}

/// What files_of(path) is on rank 0, so that a folder which grows meanwhile is the same for all.
std::vector<std::filesystem::path> agreed_files(const std::filesystem::path& path,
                                                const Ranks& ranks) {
  std::vector<std::filesystem::path> files;
  on_first_rank(ranks, [&] { files = files_of(path); });
  if (ranks.size == 1) return files;
  std::string text;  // each name ends in the one byte that none holds
  for (const std::filesystem::path& file : files) text += file.string() + '\0';
  std::istringstream names(ranks.gather(text).front());
  files.clear();
  for (std::string name; std::getline(names, name, '\0');) files.emplace_back(name);
  return files;
}

}  // namespace

std::unique_ptr<SnapshotSource> open_source(const std::filesystem::path& path, const Ranks& ranks) {
  const std::vector<std::filesystem::path> files = agreed_files(path, ranks);
  if (files.front() != path || path.extension() != ".npy") return open_files(files, ranks);
  std::unique_ptr<SnapshotSource> matrix;
  agree(ranks, [&] { matrix = npy_matrix(path, "pca::open_source"); });
  return matrix;
}

}  // namespace dimred::pca
