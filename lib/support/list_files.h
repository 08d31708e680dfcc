#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dimred {

/// Files of a folder that end in one of `extensions`, in natural number order (…_2 before …_10).
/// Temporary and hidden files are skipped. Throws std::invalid_argument when the folder is missing.
std::vector<std::filesystem::path> list_files(const std::filesystem::path& folder,
                                              const std::vector<std::string>& extensions);

/// "a2" < "a10": digits compare as numbers (of any length). A strict total order: what is equal in
/// value ("a2", "a02") is ordered by its bytes.
bool natural_less(const std::string& a, const std::string& b);

/// By natural_less.
void sort_naturally(std::vector<std::filesystem::path>& files);

}  // namespace dimred
