#include "checkpoints/part_names.h"

#include <regex>

#include "checkpoints/artifact.h"
#include "checkpoints/rank_files.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

/// Whether the folder has a file of the same name with the number 01 in the place of 00.
bool has_second(const fs::path& file, const std::string& zero, const std::string& one) {
  auto name = file.filename().string();
  const auto at = lower_case(name).find(zero);
  return at != std::string::npos &&
         fs::exists(file.parent_path() / name.replace(at, zero.size(), one));
}

/// The shards of an index, named as Hugging Face names them: the index that their folder needs.
std::optional<std::string> index_of_shard(const fs::path& file) {
  static const std::regex shard("(.+)-[0-9]{5}-of-[0-9]{5}(\\.[a-z]+)");
  const auto name = file.filename().string();
  std::smatch match;
  if (!std::regex_match(name, match, shard)) return {};
  return match[1].str() + match[2].str() + std::string(index_ending);
}

}  // namespace

std::optional<std::string> part_in_name(const fs::path& file) {
  // The first letter stands at a word's start: behind no letter and no digit.
  static const std::regex counted("(?:^|[^a-z0-9])([0-9]+[-_]of[-_]([0-9]+))(?![0-9])");
  static const std::regex progress("(?:epoch|step)s?[-_]?[0-9]+[-_]of[-_][0-9]+");
  static const std::regex only("(?:^|[^a-z0-9])world_size_1_rank_0(?![0-9])");
  static const std::regex adapter("(?:^|[^a-z0-9])lora_rank_[0-9]+");
  static const std::regex numbered(
      "(?:^|[^a-z0-9])(rank_[0-9]+|consolidated\\.[0-9]+|(?:tp|pp)_(?:rank_|stage_)?[0-9]+|"
      "layer_[0-9]+-model_[0-9]+|model_part-[0-9]+|shard[-_]?[0-9]+)(?![a-z0-9])");
  const auto name = lower_case(file.filename().string());
  std::smatch match;
  if (std::regex_search(name, match, counted) && !std::regex_search(name, progress))
    return match[2] == "1" ? std::nullopt : std::optional(match[1].str());
  if (std::regex_search(name, only)) return {};
  if (name.starts_with("mp_rank_00_model_states") && !has_second(file, "mp_rank_00", "mp_rank_01"))
    return {};
  if (name.starts_with("consolidated.00") &&
      !has_second(file, "consolidated.00", "consolidated.01"))
    return {};
  const auto whole = std::regex_replace(name, adapter, "");
  if (!std::regex_search(whole, match, numbered)) return {};
  return match[1].str();
}

void require_whole(const fs::path& file, std::string_view scope) {
  const auto part = fs::is_directory(file) ? std::nullopt : part_in_name(file);
  if (!part) return;
  if (const auto index = index_of_shard(file))
    refuse("[{}] '{}' is a shard; name its folder, which needs {}", scope, file, *index);
  if (rank_file(file))
    refuse(
        "[{}] '{}' is a part of one checkpoint, as '{}' in its name says; name its folder, '{}', "
        "which is read as one",
        scope,
        file,
        *part,
        fs::absolute(file).parent_path());
  refuse(
      "[{}] '{}' is a part of one checkpoint, as '{}' in its name says; needs whole checkpoints, "
      "so write the parts into one first",
      scope,
      file,
      *part);
}

}  // namespace dimred::checkpoints
