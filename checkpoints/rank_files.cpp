#include "checkpoints/rank_files.h"

#include <regex>
#include <string>

#include "checkpoints/file_names.h"
#include "support/atomic_file.h"
#include "support/list_files.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

/// The first rank file that lies in the folder itself. An optimizer's comes before a model's: its
/// folder has weights that no model file has.
fs::path first_rank_file(const fs::path& folder) {
  std::vector<fs::path> models, files;
  for (const auto& item : fs::directory_iterator(folder)) {
    const auto file = rank_file(item.path());
    if (!file || type_at(item.path()) != fs::file_type::regular) continue;
    (file->kind == RankKind::zero_model ? models : files).push_back(item.path());
  }
  auto& found = files.empty() ? models : files;
  sort_naturally(found);
  return found.empty() ? fs::path() : found.front();
}

/// The folder that DeepSpeed's file `latest` names; empty: there is none.
fs::path latest_of(const fs::path& folder) {
  constexpr std::uintmax_t longest_name = 256;
  const auto latest = folder / "latest";
  if (type_at(latest) != fs::file_type::regular || fs::file_size(latest) > longest_name) return {};
  const fs::path name(trimmed(head_line(InputFile(latest).text(longest_name))));
  const bool inside = !name.empty() && name.filename() == name && name != "." && name != "..";
  return inside && fs::is_directory(folder / name) ? folder / name : fs::path();
}

/// The rank files of the one of these folders that has some; empty: none or several have.
fs::path only_one_of(const std::vector<fs::path>& folders) {
  fs::path found;
  for (const auto& folder : folders) {
    const bool there = type_at(folder) == fs::file_type::directory;
    const auto file = there ? first_rank_file(folder) : fs::path();
    if (file.empty()) continue;
    if (!found.empty()) return {};
    found = file;
  }
  return found;
}

std::int64_t number_of(const std::ssub_match& digits) {
  return number_in<std::int64_t>(digits.str()).value_or(-1);
}

}  // namespace

std::optional<RankFile> rank_file(const fs::path& file) {
  static const std::regex fsdp("model_world_size_([0-9]+)_rank_([0-9]+)\\.pt");
  static const std::regex zero(
      "(?:bf16_|fp16_)?zero_pp_rank_([0-9]+)_mp_rank_([0-9]+)_(model|optim)_states\\.pt");
  const auto name = file.filename().string();
  std::smatch match;
  if (std::regex_match(name, match, fsdp))
    return RankFile{RankKind::fsdp, number_of(match[2]), number_of(match[1]), 0};
  if (!std::regex_match(name, match, zero)) return {};
  const auto kind = match[3] == "model" ? RankKind::zero_model : RankKind::zero_optimizer;
  return RankFile{kind, number_of(match[1]), 0, number_of(match[2])};
}

fs::path rank_weights_in(const fs::path& folder) {
  if (auto own = first_rank_file(folder); !own.empty()) return own;
  if (const auto latest = latest_of(folder); !latest.empty()) {
    std::vector<fs::path> folders;
    for (const auto& item : fs::directory_iterator(folder))
      if (type_at(item.path()) == fs::file_type::directory) folders.push_back(item.path());
    auto found = only_one_of(folders);
    return found.parent_path() == latest ? found : fs::path();
  }
  return only_one_of({folder / "actor", folder / "critic"});
}

fs::path side_folder_of(const fs::path& rank_file) {
  const auto own = rank_file.parent_path();
  auto hugging_face = own / "huggingface";
  if (fs::is_directory(hugging_face)) return hugging_face;
  const auto above = own.parent_path();
  return !above.empty() && latest_of(above) == own ? above : own;
}

}  // namespace dimred::checkpoints
