#include "data/shard_names.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "data/class_names.h"
#include "data/read_file.h"
#include "data/splits.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

/// A shard and its compressed copy hold the same samples.
void require_no_twins(const std::vector<fs::path>& files) {
  std::set<fs::path> all(files.begin(), files.end());
  for (const auto& file : files) {
    if (file.extension() != ".gz") continue;
    const auto twin = fs::path(file).replace_extension();
    require(!all.contains(twin),
            "[shards] {} and {} have the same samples; give a pattern that matches only one of the "
            "two files, or remove one of them",
            file,
            twin.filename());
  }
}

std::vector<fs::path> files_matching(const fs::path& pattern) {
  auto files = paths_matching(pattern, "shards");
  std::erase_if(files, [](const auto& file) { return !fs::is_regular_file(file); });
  sort_naturally(files);
  return files;
}

/// Names that begin with a dot or _ (Spark's _SUCCESS), our caches, what is being written or
/// downloaded, texts and checksums are no shards.
bool may_be_shard(const fs::path& path) {
  const auto name = path.filename().string();
  if (name.starts_with('.') || name.starts_with('_')) return false;
  const auto ends = {".tmp",
                     ".part",
                     ".of",
                     ".txt",
                     ".json",
                     ".md",
                     ".index",
                     ".csv",
                     ".tsv",
                     ".pbtxt",
                     ".md5",
                     ".sha256",
                     ".crc",
                     ".yaml"};
  return std::ranges::none_of(ends, [&](const char* end) { return name.ends_with(end); });
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  if (folder.empty()) return files;
  for (const auto& item : fs::directory_iterator(folder))
    if (item.is_regular_file() && may_be_shard(item.path())) files.push_back(item.path());
  sort_naturally(files);
  return files;
}

/// The sets that the file's name says, which must not be both.
NamedSplits splits_of(const fs::path& file) {
  const auto said = splits_named_in(file.filename().string());
  require(!said.train || !said.test,
          "[shards] {}: the file name fits both the training set and the test set; give the files "
          "of each set by a pattern (--data, --test_data)",
          file);
  return said;
}

/// A shard's number of how many: "train-00003-of-00010.tfrecord".
struct ShardPart {
  std::string set, pattern;  // "train-.tfrecord", "train-*-of-00010.tfrecord"
  std::int64_t number = 0, count = 0;
};

/// nullopt: the name says no such number.
std::optional<ShardPart> part_of(const std::string& name) {
  constexpr std::string_view digits = "0123456789", of = "-of-";
  const auto at = name.rfind(of);
  if (at == std::string::npos || at == 0) return std::nullopt;
  const auto begin = name.find_last_not_of(digits, at - 1) + 1;
  const auto end = std::min(name.find_first_not_of(digits, at + of.size()), name.size());
  const auto number = number_in<std::int64_t>(name.substr(begin, at - begin));
  const auto count = number_in<std::int64_t>(name.substr(at + of.size(), end - at - of.size()));
  if (!number || !count) return std::nullopt;
  const auto head = name.substr(0, begin);
  auto tail = name.substr(end);
  if (tail.ends_with(".gz")) tail.resize(tail.size() - 3);  // some of a set may be compressed
  return ShardPart{head + tail, head + '*' + name.substr(at), *number, *count};
}

/// A folder stands for the whole set; a pattern or a list names a part of one.
void require_all_parts(const std::vector<fs::path>& files) {
  std::map<std::string, std::vector<ShardPart>> sets;
  for (const auto& file : files)
    if (auto part = part_of(file.filename().string())) sets[part->set].push_back(std::move(*part));
  for (const auto& [name, parts] : sets) {
    const auto& first = parts.front();
    std::set<std::int64_t> numbers;
    for (const auto& part : parts) {
      require(part.count == first.count,
              "[shards] {}: the shards {} and {} are from two sets; give the shards of one set by "
              "a pattern or a list",
              files.front().parent_path(),
              first.pattern,
              part.pattern);
      numbers.insert(part.number);
    }
    auto missing = numbers.contains(first.count) ? 1 : 0;  // some count from 1
    while (numbers.contains(missing)) ++missing;
    require(std::ssize(numbers) >= first.count,
            "[shards] {}: needs all {} shards, received {}; shard {} is missing; to read a part of "
            "the set, give a pattern or a list",
            files.front().parent_path() / first.pattern,
            first.count,
            numbers.size(),
            missing);
    require(std::ssize(parts) == first.count,
            "[shards] {}: needs {} shards, received {}",
            files.front().parent_path() / first.pattern,
            first.count,
            parts.size());
  }
}

/// Divides the test set's files from those whose names have a later word for a test set, and
/// returns the latter.
std::vector<fs::path> take_other_test_files(std::vector<fs::path>& files) {
  const auto name_of = [](const fs::path& file) { return splits_of(file).test_name; };
  const auto first = std::ranges::min_element(files, {}, name_of);
  if (first == files.end()) return {};
  const auto others = std::ranges::stable_partition(
      files, [&, least = name_of(*first)](const fs::path& file) { return name_of(file) == least; });
  std::vector<fs::path> left_out(others.begin(), others.end());
  files.erase(others.begin(), others.end());
  return left_out;
}

/// The files of a split among the shards in a folder and in its folder of that split, sorted.
/// Without either, the training set is all that `is_plain` takes in the folder, except the test
/// set's.
std::vector<fs::path> files_of_split(std::vector<fs::path> beside,
                                     std::vector<fs::path> inside,
                                     bool train,
                                     bool (*is_plain)(const fs::path&)) {
  auto named = beside;
  std::erase_if(named, [&](const auto& file) {
    const auto said = splits_of(file);
    return train ? !said.train : !said.test;
  });
  if (!train) take_other_test_files(named);
  require(named.empty() || inside.empty(),
          "[shards] the {} set is in two places, {} and {}; give one of them with --{}",
          split_text(train),
          named.empty() ? fs::path() : named.front(),
          inside.empty() ? fs::path() : inside.front().parent_path(),
          split_option(train));
  auto files = named.empty() ? std::move(inside) : std::move(named);
  if (files.empty() && train) {
    std::erase_if(beside,
                  [&](const auto& file) { return splits_of(file).test || !is_plain(file); });
    files = std::move(beside);
  }
  require_no_twins(files);
  require_all_parts(files);
  return files;
}

std::vector<fs::path> files_of_split(const fs::path& folder, bool train) {
  return files_of_split(
      files_in(folder), files_in(split_folder(folder, train)), train, [](const fs::path&) {
        return true;
      });
}

}  // namespace

std::vector<fs::path> parse_file_list(std::string_view text,
                                      const fs::path& list,
                                      bool (*is_file)(const fs::path&)) {
  std::vector<fs::path> files;
  for_each_line(text, [&](std::string_view line, std::int64_t number) {
    const auto where = formatted("{}:{}", list, number);
    require_environment(line.find('\0') == std::string_view::npos,
                        "[shards] {}: needs a file name in each line, received {}",
                        where,
                        printable(line));
    files.push_back(list.parent_path() / line);
    require_environment(
        is_file(files.back()), "[shards] {} lists {}, which is not a file", where, printable(line));
  });
  require_environment(
      !files.empty(), "[shards] {}: needs at least one file name, received none", list);
  return files;
}

std::vector<fs::path> read_file_list(const fs::path& list) {
  return parse_file_list(read_text(list, "shards"), list, [](const fs::path& path) {
    return fs::is_regular_file(path);
  });
}

std::vector<std::string> training_shards(std::vector<std::string> names, bool pattern) {
  std::erase_if(names, [](const std::string& name) { return !may_be_shard(name); });
  std::ranges::sort(names, natural_less);
  if (pattern) {
    require_no_twins({names.begin(), names.end()});
    return names;
  }
  const auto& folders = split_names(/*train=*/true);
  std::vector<fs::path> beside, inside;
  for (const fs::path file : names) {
    const auto folder = lower_case(file.parent_path().string());
    if (folder.empty()) beside.push_back(file);
    if (std::ranges::find(folders, folder) != folders.end()) inside.push_back(file);
  }
  // One of no split is taken by its name only: it is not here yet.
  const auto is_plain = [](const fs::path& file) {
    return file.extension().string().starts_with(".tfrecord");
  };
  return texts_of(files_of_split(std::move(beside), std::move(inside), /*train=*/true, is_plain),
                  [](const fs::path& file) { return file.string(); });
}

std::vector<fs::path> other_test_shards(const fs::path& folder) {
  auto files = files_in(folder);
  std::erase_if(files, [](const fs::path& file) { return !splits_of(file).test; });
  return take_other_test_files(files);
}

std::vector<fs::path> shards_at(const fs::path& where, bool train) {
  if (fs::is_directory(where)) return files_of_split(where, train);
  if (fs::is_regular_file(where))
    return where.extension() == ".txt" ? read_file_list(where) : std::vector{where};
  return is_pattern(where) ? files_matching(where) : std::vector<fs::path>();
}

std::vector<fs::path> find_shards(const fs::path& where, bool train) {
  auto files = shards_at(where, train);
  require(!files.empty(),
          "[shards] needs a file, a list of files (.txt), a pattern, or a folder of files with {} "
          "in their names, received {}",
          train ? "train" : "test, val or eval",
          printable(where.string()));
  require_no_twins(files);
  return files;
}

}  // namespace dimred::data
