#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// Where the training set and the test set of a data set lie, by the names of files and folders.
namespace dimred::data {

/// The names that the folder (or file, or list) of a split may have, the usual one first: train,
/// training; or test, testing, val, valid, validation, validation_preprocess as MindSpore's
/// ImageNet has it, eval.
const std::vector<std::string>& split_names(bool train);

/// The sets that a name says by whole words: "latest-train_00.tfrecord" is of the training set
/// alone. Words are runs of letters, and begin again at a capital behind a small letter.
struct NamedSplits {
  bool train = false, test = false;
  std::size_t test_name = 0;  // of a test set: the place of the first such word in split_names
};
NamedSplits splits_named_in(std::string_view name);

/// The folder path/NAME for the first of split_names that has one, written in small letters, with
/// a capital first letter or in capitals; empty when there is none. Throws std::invalid_argument
/// where one name is there in two of these forms.
std::filesystem::path split_folder(const std::filesystem::path& path, bool train);

/// The regular file path/NAME`ending`, chosen in the same way.
std::filesystem::path split_file(const std::filesystem::path& path,
                                 bool train,
                                 std::string_view ending);

/// The folder of a split that holds the file `name`: `path` itself, where `itself` is true, or the
/// split_folder in it; empty when there is none.
std::filesystem::path folder_with(const std::string& name,
                                  const std::filesystem::path& path,
                                  bool train,
                                  bool itself);

/// Returns the first 16 regular files, by the bytes of their names, of each kind in a folder, which
/// may hold a million images. Files are of one kind whose extensions differ in digits alone.
std::vector<std::filesystem::path> first_files(const std::filesystem::directory_iterator& folder);

/// Returns whether `is` holds for one of the first_files() in the folder `path` or in the folder of
/// a split in it.
bool holds_a_file(const std::filesystem::path& path, bool (*is)(const std::filesystem::path&));

/// "training" or "test", for messages.
const char* split_text(bool train);

/// The option that names the set, for messages.
const char* split_option(bool train);

}  // namespace dimred::data
