#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// Which files of record data sets a path stands for.
namespace dimred::data {

/// The shards behind a path: a file, a pattern with * ? [ ] {a,b}, a list of them (.txt, one a
/// line, relative to its folder), or a folder, whose training or other files are taken by whole
/// words of their names (data/splits.h: latest-train-00000-of-00010,
/// flowers_validation_00000-of-00005.tfrecord), or else the files of its split_folder. If no name
/// and no subfolder says train, all files outside the other split are training files. In natural
/// number order. If several words mean a test set, the first of split_names counts, as for folders.
/// Throws std::invalid_argument when there are none, a name says both splits, a split
/// is both in the folder and in a subfolder, or a folder lacks some of the shards that
/// -of-00010 in a name announces.
std::vector<std::filesystem::path> find_shards(const std::filesystem::path& where, bool train);
/// Returns the shards in a folder that are no part of its test set, because their names have a
/// later word of split_names than others': those with val beside those with test.
std::vector<std::filesystem::path> other_test_shards(const std::filesystem::path& folder);
/// Returns the shards as above; empty when there are none.
std::vector<std::filesystem::path> shards_at(const std::filesystem::path& where, bool train);

/// The shards among the files below a folder, given by name ("train/a" for one in a folder of it):
/// the training set's as above (of no split: NAME.tfrecord), or, where the names are those of a
/// `pattern`, all; in natural number order. May be empty.
std::vector<std::string> training_shards(std::vector<std::string> names, bool pattern);

/// The files that a list names, one a line, relative to its folder. Throws std::runtime_error when
/// it names none, or one that is no file.
std::vector<std::filesystem::path> read_file_list(const std::filesystem::path& list);

/// Returns the shards of a list's text; `list` gives the folder and the name in messages.
std::vector<std::filesystem::path> parse_file_list(std::string_view text,
                                                   const std::filesystem::path& list,
                                                   bool (*is_file)(const std::filesystem::path&));

}  // namespace dimred::data
