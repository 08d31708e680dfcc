#include "checkpoints/file_names.h"

#include <algorithm>
#include <array>

namespace dimred::checkpoints {

namespace fs = std::filesystem;

bool is_weight_name(const fs::path& file) {
  constexpr std::array<std::string_view, 5> endings{".safetensors", ".ckpt", ".pt", ".pth", ".bin"};
  return std::ranges::find(endings, file.extension().string()) != endings.end();
}

std::string bare_name(const fs::path& path) {
  const bool weights = is_weight_name(path) || path.extension() == ".h5";
  return (weights ? path.stem() : path.filename()).string();
}

}  // namespace dimred::checkpoints
