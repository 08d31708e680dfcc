#pragma once

#include <filesystem>
#include <string>
#include <vector>

// Functions on the paths of data sets.
namespace dimred::data {

/// Whether the path is a pattern with * ? [ ] or {a,b}, and no file or folder of that very name.
bool is_pattern(const std::filesystem::path& path);

/// The paths that the pattern matches, sorted by bytes. Throws std::runtime_error("[scope] ...")
/// when a folder cannot be read.
std::vector<std::filesystem::path> matches(const std::filesystem::path& pattern, const char* scope);

/// The names that the folder (or file, or list) of a split may have, the usual one first: train; or
/// test, val, validation, or validation_preprocess as MindSpore's ImageNet has it.
const std::vector<std::string>& split_names(bool train);

/// The first of split_names that is a folder in `path`; empty when there is none.
std::filesystem::path split_folder(const std::filesystem::path& path, bool train);

/// The folder of a split that holds the file `name`: `path` itself, where `itself` is true, or the
/// first of split_names in it; empty when there is none.
std::filesystem::path folder_with(const std::string& name,
                                  const std::filesystem::path& path,
                                  bool train,
                                  bool itself);

/// "training" or "test", for messages.
const char* split_text(bool train);

}  // namespace dimred::data
