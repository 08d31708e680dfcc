#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dimred {

/// Files of a folder that end in one of `extensions`, in natural number order (…_2 before …_10).
/// Temporary and hidden files are skipped. Throws std::invalid_argument when the folder is missing.
std::vector<std::filesystem::path> list_files(const std::filesystem::path& folder,
                                              const std::vector<std::string>& extensions);

/// Whether the name ends in .tmp, as what a program leaves that was killed while it wrote.
bool is_unfinished(const std::filesystem::path& path);

/// "a2" < "a10": digits compare as numbers (of any length). A strict total order: what is equal in
/// value ("a2", "a02") is ordered by its bytes.
bool natural_less(const std::string& a, const std::string& b);

/// By natural_less.
void sort_naturally(std::vector<std::filesystem::path>& files);

/// Whether the path is a pattern with * ? [ ] or {a,b}, and no file or folder of that very name.
bool is_pattern(const std::filesystem::path& path);

/// The paths that the pattern matches, each once, sorted by bytes. Throws
/// std::runtime_error("[scope] ...") when a folder cannot be read.
std::vector<std::filesystem::path> paths_matching(const std::filesystem::path& pattern,
                                                  std::string_view scope);

/// Whether the pattern would match this path if it were there; {a,b} counts as *.
bool would_match(const std::filesystem::path& pattern, const std::filesystem::path& path);

}  // namespace dimred
