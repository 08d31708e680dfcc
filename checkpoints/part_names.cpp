#include "checkpoints/part_names.h"

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <span>
#include <utility>

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

// Words before the number of a part; the rank of a matrix counts no parts. The last ones count
// processes: a folder gpu0 holds what one of them saved, which is whole.
constexpr std::array<std::string_view, 22> part_words{"rank",
                                                      "part",
                                                      "partition",
                                                      "sharded",
                                                      "shard",
                                                      "slice",
                                                      "chunk",
                                                      "tensor_parallel",
                                                      "pipeline_parallel",
                                                      "tp",
                                                      "pp",
                                                      "mp",
                                                      "expert",
                                                      "fsdp",
                                                      "gpu",
                                                      "process",
                                                      "proc",
                                                      "worker",
                                                      "device",
                                                      "node",
                                                      "cuda",
                                                      "dp"};
constexpr std::size_t process_words = 8;
constexpr auto of_count = "[-_. ]?of[-_. ]?";
constexpr auto pipeline_stage = "(?:tp|pp|pipeline)_?stage_?";
constexpr auto matrix_rank =
    "(?:^|[^a-z0-9])(?:[a-z]*lora|dora|adapter|svd|low)[-_]?rank[-_]?[0-9]+";

/// Whether N-of-M counts what is no part: step_10_of_100, fold-1-of-5. Five digits behind
/// checkpoint are a shard's, as Hugging Face numbers shards: checkpoint-00001-of-00002.
bool is_progress(const std::string& name) {
  static const std::regex progress(
      formatted("(?:(?:epoch|step|(?:^|[^a-z0-9])(?:fold|seed|run|trial))s?[-_. ]?|"
                "(?:iter(?:ation)?|checkpoint|ckpt)s?[-_. ]?(?!0[0-9]{{4}}-of-))[0-9]+{}[0-9]+",
                of_count));
  return std::regex_search(name, progress);
}

/// The words before the number of a part, as a regular expression has them.
struct PartNumbers {
  explicit PartNumbers(const std::string& words)
      : counted(formatted("(^|[^a-z0-9])(?:((?:{})[-_.= ]?|{})[0-9]+|"
                          "(mp_rank_)[0-9]+_[0-9]{{3}})(?![a-z0-9])",
                          words,
                          pipeline_stage)),
        numbered(formatted(
            "(^|[^a-z0-9])((?:(?:{})[-_.= ]?)?)[0-9]+({}[0-9]+)(?![0-9])", words, of_count)) {}
  std::regex counted, numbered;
};

/// Returns the name of a folder or file with # for each number that counts ranks or parts, and as
/// the name is without such a number. `words`: those before the numbers.
std::string shape_of_parts(const std::string& part, std::span<const std::string_view> words) {
  const auto name = lower_case(part);
  const auto within = [&](auto word) { return name.find(word) != name.npos; };
  if (!within("of") && !within("stage") && std::ranges::none_of(words, within)) return part;
  static const std::regex adapter(matrix_rank);
  static const PartNumbers of_files(joined(part_words, "|"));
  static const PartNumbers of_folders(
      joined(std::span(part_words).first(part_words.size() - process_words), "|"));
  static const std::regex parallel("[tpm]p[-_.=]?#");
  static const std::regex expert_parallel("(^|[^a-z0-9])([ec]p[-_.=]?)[0-9]+");
  if (std::regex_search(name, adapter)) return part;
  const auto& [counted, numbered] = words.size() == part_words.size() ? of_files : of_folders;
  auto shape = std::regex_replace(name, counted, "$1$2$3#");
  if (!is_progress(name)) shape = std::regex_replace(shape, numbered, "$1$2#$3");
  if (shape == name) return part;
  if (!std::regex_search(shape, parallel)) return shape;  // alone, ep is an epoch, cp a checkpoint
  return std::regex_replace(shape, expert_parallel, "$1$2#");
}

/// Which numbers of processes count parts, too: none, those in the names of files, or all.
enum class Processes { none, of_files, all };

/// Paths whose names have # for the numbers of parts.
class PartShapes {
 public:
  explicit PartShapes(Processes processes) : processes_(processes) {}
  fs::path of(const fs::path& path) {
    static const std::regex rank("rank[-_.= ]?[0-9]+");
    const bool is_file = is_weight_name(path) || path.extension() == ".h5";
    const auto file = is_file ? std::prev(path.end()) : path.end();
    fs::path shape;
    for (auto part = path.begin(); part != path.end(); ++part) {
      const auto& name = part->native();
      const bool all =
          processes_ == Processes::all || (processes_ == Processes::of_files && part == file);
      // MindSpore writes the slices of a file into rank_0, rank_1, ... under one name.
      const bool whole =
          processes_ != Processes::all && !is_file && std::regex_match(lower_case(name), rank);
      shape /= whole ? name : known_shape(name, all);
    }
    return shape;
  }

 private:
  /// Most names above files are those of other members' folders, too.
  const std::string& known_shape(const std::string& name, bool all) {
    auto& shapes = all ? of_all_ : of_pieces_;
    const auto known = shapes.find(name);
    if (known != shapes.end()) return known->second;
    const auto words = std::span(part_words).first(part_words.size() - (all ? 0 : process_words));
    return shapes.emplace(name, shape_of_parts(name, words)).first->second;
  }

  Processes processes_;
  std::map<std::string, std::string> of_all_, of_pieces_;
};

/// Returns two members whose paths differ in such numbers alone.
std::optional<std::pair<fs::path, fs::path>> alike(const std::vector<fs::path>& members,
                                                   Processes processes) {
  PartShapes shapes(processes);
  std::map<fs::path, fs::path> seen;
  for (const auto& member : members) {
    auto shape = shapes.of(member);
    if (shape == member) continue;
    const auto& first = seen.emplace(std::move(shape), member).first->second;
    if (first != member) return std::pair(first, member);
  }
  return {};
}

}  // namespace

std::optional<std::string> part_in_name(const fs::path& file) {
  // The first letter stands at a word's start: behind no letter and no digit.
  static const std::regex counted(
      formatted("(?:^|[^a-z0-9])((?:(?:{})[-_.]?)?[0-9]+{}([0-9]+))(?![0-9])",
                joined(part_words, "|"),
                of_count));
  static const std::regex only("(?:^|[^a-z0-9])world_size_1_rank_0(?![0-9])");
  static const std::regex adapter(matrix_rank);
  // A pipeline's stage may be one of training: only beside another stage it is a part.
  static const std::regex numbered(
      "(?:^|[^a-z0-9])(rank_[0-9]+|consolidated\\.[0-9]+|(?:tp|pp)_(?:rank_)?[0-9]+|"
      "(?:tp|pp)_?stage_?[0-9]+|layer_[0-9]+-model_(?:[0-9]+|states)|model_part-[0-9]+|"
      "shard(?:ed)?[-_]?[0-9]+)(?![a-z0-9])");
  const auto name = lower_case(file.filename().string());
  std::smatch match;
  if (name.find("of") != name.npos && std::regex_search(name, match, counted) && !is_progress(name))
    return number_in<std::int64_t>(match[2].str()) == 1 ? std::nullopt
                                                        : std::optional(match[1].str());
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

std::string require_no_parts(const std::vector<fs::path>& members,
                             std::string_view scope,
                             bool listed) {
  if (const auto parts = alike(members, listed ? Processes::none : Processes::of_files)) {
    const bool of_processes = !alike({parts->first, parts->second}, Processes::none);
    refuse(
        "[{}] the names of '{}' and '{}' say that both are parts of one checkpoint; write the "
        "parts into one file first, or, if each file is a whole checkpoint, {}",
        scope,
        parts->first,
        parts->second,
        of_processes ? "list the files in a text file (.txt, one per line)"
                     : "rename the files or folders");
  }
  const auto whole = alike(members, Processes::all);
  if (!whole) return {};
  return formatted(
      "{} and {} differ only in the number of a GPU, process or rank; each of them "
      "counts as a whole checkpoint",
      whole->first,
      whole->second);
}

void require_whole(const fs::path& file, std::string_view scope) {
  const auto part = fs::is_directory(file) ? std::nullopt : part_in_name(file);
  if (!part) return;
  if (const auto index = index_of_shard(file))
    refuse("[{}] '{}' is one shard of a checkpoint; give the folder with {} and all shards",
           scope,
           file,
           *index);
  if (rank_file(file))
    refuse(
        "[{}] '{}' is only a part of a checkpoint, as '{}' in the name says; give the folder '{}' "
        "instead",
        scope,
        file,
        *part,
        fs::absolute(file).parent_path());
  refuse(
      "[{}] '{}' is only a part of a checkpoint, as '{}' in the name says; write the parts into "
      "one file first, or, if the file is a whole checkpoint, give it another name",
      scope,
      file,
      *part);
}

}  // namespace dimred::checkpoints
