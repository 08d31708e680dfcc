#include "data/shard_names.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "data/class_names.h"
#include "data/mapped_file.h"
#include "data/paths.h"
#include "support/bytes.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/option_values.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_matching(const fs::path& pattern) {
  auto files = matches(pattern, "shards");
  std::erase_if(files, [](const auto& file) { return !fs::is_regular_file(file); });
  sort_naturally(files);
  return files;
}

/// Names that begin with a dot, our caches, what is being written or downloaded, and texts are no
/// shards.
bool may_be_shard(const fs::path& path) {
  const auto name = path.filename().string();
  if (name.starts_with('.')) return false;
  const auto ends = {".tmp", ".part", ".of", ".txt", ".json", ".md", ".index"};
  return std::ranges::none_of(ends, [&](const char* end) { return name.ends_with(end); });
}

bool is_named_for_split(const fs::path& path, bool train) {
  const auto parts =
      train ? std::vector<std::string>{"train"} : std::vector<std::string>{"test", "val", "eval"};
  const auto name = lower_case(path.filename().string());
  return std::ranges::any_of(
      parts, [&](const auto& part) { return name.find(part) != std::string::npos; });
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& item : fs::directory_iterator(folder))
    if (item.is_regular_file() && may_be_shard(item.path())) files.push_back(item.path());
  sort_naturally(files);
  return files;
}

std::vector<fs::path> files_of_split(const fs::path& folder, bool train) {
  const auto files = files_in(folder);
  auto found = files;
  std::erase_if(found, [&](const auto& file) { return !is_named_for_split(file, train); });
  if (!found.empty()) return found;
  if (const auto inner = split_folder(folder, train); !inner.empty()) return files_in(inner);
  if (!train) return {};
  found = files;
  std::erase_if(found, [&](const auto& file) { return is_named_for_split(file, false); });
  return found;
}

}  // namespace

std::vector<fs::path> parse_file_list(std::string_view text,
                                      const fs::path& list,
                                      bool (*is_file)(const fs::path&)) {
  std::vector<fs::path> files;
  for_each_line(text, [&](std::string_view line, std::int64_t number) {
    const auto where = formatted("{}:{}", list, number);
    require_environment(line.find('\0') == std::string_view::npos,
                        "[shards] {}: needs a list of file names, received {}",
                        where,
                        printable(line));
    files.push_back(list.parent_path() / line);
    require_environment(
        is_file(files.back()), "[shards] {} names {}, which is no file", where, printable(line));
  });
  require_environment(!files.empty(), "[shards] {}: needs at least one file name", list);
  return files;
}

std::vector<fs::path> read_file_list(const fs::path& list) {
  return parse_file_list(text_of(MappedFile(list).bytes()), list, [](const fs::path& path) {
    return fs::is_regular_file(path);
  });
}

std::vector<std::string> training_shards(std::vector<std::string> names, bool pattern) {
  std::erase_if(names, [](const std::string& name) { return !may_be_shard(name); });
  const auto is_beside = [](const fs::path& file) {
    return !file.has_parent_path() && is_named_for_split(file, /*train=*/true);
  };
  const auto is_inside = [](const fs::path& file) { return file.parent_path() == "train"; };
  const auto is_of_no_split = [](const fs::path& file) {  // only by its name: it is not here yet
    return !file.has_parent_path() && !is_named_for_split(file, /*train=*/false) &&
           file.extension().string().starts_with(".tfrecord");
  };
  const bool beside = std::ranges::any_of(names, is_beside);
  const bool inside = std::ranges::any_of(names, is_inside);
  std::erase_if(names, [&](const fs::path& file) {
    return !pattern && !(beside   ? is_beside(file)
                         : inside ? is_inside(file)
                                  : is_of_no_split(file));
  });
  std::ranges::sort(names, natural_less);
  return names;
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
  return files;
}

}  // namespace dimred::data
