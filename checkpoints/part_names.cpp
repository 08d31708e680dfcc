#include "checkpoints/part_names.h"

#include <map>
#include <regex>

#include "checkpoints/file_names.h"
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

/// Whether N-of-M counts what is no part: step_10_of_100.
bool is_progress(const std::string& name) {
  static const std::regex progress("(?:epoch|step)s?[-_]?[0-9]+[-_]?of[-_]?[0-9]+");
  return std::regex_search(name, progress);
}

/// The name with # for each number that counts ranks or parts; empty without such a number.
std::string shape_of_parts(const fs::path& path) {
  static const std::regex adapter("lora[-_]?rank[-_]?[0-9]+");
  static const std::regex counted(
      "(^|[^a-z0-9])((?:rank|part|shard|tp|pp|mp|gpu|expert|process|fsdp)[-_.=]?|"
      "(?:tp|pp)_stage_)[0-9]+(?![a-z0-9])");
  static const std::regex of_all("(^|[^a-z0-9])[0-9]+([-_]?of[-_]?[0-9]+)(?![0-9])");
  static const std::regex parallel("[tpm]p[-_.=]?#");
  static const std::regex expert_parallel("(^|[^a-z0-9])(ep[-_.=]?)[0-9]+");
  const auto name = lower_case(path.filename().string());
  if (std::regex_search(name, adapter)) return {};
  auto shape = std::regex_replace(name, counted, "$1$2#");
  if (!is_progress(name)) shape = std::regex_replace(shape, of_all, "$1#$2");
  if (shape == name) return {};
  if (!std::regex_search(shape, parallel)) return shape;  // alone, ep is an epoch
  return std::regex_replace(shape, expert_parallel, "$1$2#");
}

}  // namespace

std::optional<std::string> part_in_name(const fs::path& file) {
  // The first letter stands at a word's start: behind no letter and no digit.
  static const std::regex counted("(?:^|[^a-z0-9])([0-9]+[-_]?of[-_]?([0-9]+))(?![0-9])");
  static const std::regex only("(?:^|[^a-z0-9])world_size_1_rank_0(?![0-9])");
  static const std::regex adapter("(?:^|[^a-z0-9])lora_rank_[0-9]+");
  static const std::regex numbered(
      "(?:^|[^a-z0-9])(rank_[0-9]+|consolidated\\.[0-9]+|(?:tp|pp)_(?:rank_|stage_)?[0-9]+|"
      "layer_[0-9]+-model_(?:[0-9]+|states)|model_part-[0-9]+|shard[-_]?[0-9]+)(?![a-z0-9])");
  const auto name = lower_case(file.filename().string());
  std::smatch match;
  if (std::regex_search(name, match, counted) && !is_progress(name))
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

void require_no_parts(const std::vector<fs::path>& members, std::string_view scope) {
  std::map<fs::path, fs::path> seen;
  for (const auto& member : members) {
    const auto shape = shape_of_parts(member);
    if (shape.empty()) continue;
    const auto& first = seen.emplace(member.parent_path() / shape, member).first->second;
    require(first.filename() == member.filename(),
            "[{}] '{}' and '{}' are parts of one checkpoint, as their names say; write the parts "
            "into one file first",
            scope,
            first,
            member);
  }
}

void require_whole(const fs::path& file, std::string_view scope) {
  const auto part = fs::is_directory(file) ? std::nullopt : part_in_name(file);
  if (!part) return;
  if (const auto index = index_of_shard(file))
    refuse("[{}] '{}' is a shard; give the path of its folder, which must hold {}",
           scope,
           file,
           *index);
  if (rank_file(file))
    refuse(
        "[{}] '{}' is a part of one checkpoint, as '{}' in its name says; give its folder '{}' "
        "instead",
        scope,
        file,
        *part,
        fs::absolute(file).parent_path());
  refuse(
      "[{}] '{}' is a part of one checkpoint, as '{}' in its name says; write the parts into one "
      "file first",
      scope,
      file,
      *part);
}

}  // namespace dimred::checkpoints
