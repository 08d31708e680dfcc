#include "checkpoints/file_names.h"

#include <algorithm>
#include <array>
#include <system_error>

namespace dimred::checkpoints {

namespace fs = std::filesystem;

namespace {

/// As torchvision's reference scripts and many others end the names of plain PyTorch files.
constexpr std::string_view called_archive = ".pth.tar";

}  // namespace

bool is_weight_name(const fs::path& file) {
  constexpr std::array<std::string_view, 5> endings{".safetensors", ".ckpt", ".pt", ".pth", ".bin"};
  return std::ranges::find(endings, file.extension().string()) != endings.end() ||
         file.filename().string().ends_with(called_archive);
}

fs::file_type type_at(const fs::path& path) {
  std::error_code error;
  const auto type = fs::status(path, error).type();
  if (type != fs::file_type::none) return type;
  const bool none = error == std::errc::too_many_symbolic_link_levels ||
                    error == std::errc::filename_too_long;  // which no file can have
  return none ? fs::file_type::not_found : fs::status(path).type();
}

std::string bare_name(const fs::path& path) {
  auto name = path.filename().string();
  if (name.ends_with(called_archive)) {
    name.resize(name.size() - called_archive.size());
    return name;
  }
  const bool weights = is_weight_name(path) || path.extension() == ".h5";
  return weights ? path.stem().string() : name;
}

}  // namespace dimred::checkpoints
