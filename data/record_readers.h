#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/record_dataset.h"

namespace dimred::data {

/// TFRecord shards of tf.Example with image/encoded (JPEG or PNG) and image/class/label; see
/// docs/data.md. `.gz` files (by content) are decompressed into the cache folder once. Both
/// checksums of a record are verified when the index is made and again when this process first
/// reads it; later reads are views of the page cache.
std::unique_ptr<Dataset> open_tfrecord(const RecordOptions& options);

/// Base64 part files: a line is Base64 of a JPEG or PNG, a tab and the label, or the label first;
/// each file's first line says which, and every line must agree. `files` may be one file_list.txt
/// instead, whose lines name the part files (relative to its folder).
std::unique_ptr<Dataset> open_base64(const RecordOptions& options);

/// Whether the file begins as a TFRecord file does (its first length has its checksum), plain or
/// gz.
bool is_tfrecord(const std::filesystem::path& file);

/// The shards behind a path: a file, a pattern with * ? [ ], a list of them (.txt, one a line,
/// relative to its folder), or a folder, of which the files of the training or the other split are
/// taken by name: "train" in the name, or "test", "val" or "eval" (train-00000-of-00010,
/// flowers_validation_00000-of-00005.tfrecord); the files of a subfolder train, or test, val,
/// validation, as well. In natural number order. Throws std::invalid_argument when there are none.
std::vector<std::filesystem::path> find_shards(const std::filesystem::path& where, bool train);
/// The same; empty when there are none.
std::vector<std::filesystem::path> shards_at(const std::filesystem::path& where, bool train);

/// The shards among the files below a folder, given by name ("train/a" for one in a folder of it):
/// the training set's as above, or, where the names are those of a `pattern`, all; in natural
/// number order. May be empty.
std::vector<std::string> training_shards(std::vector<std::string> names, bool pattern);

/// The files that a list names, one a line, relative to its folder. Throws std::runtime_error when
/// it names none, or one that is no file.
std::vector<std::filesystem::path> read_file_list(const std::filesystem::path& list);

/// The same of a list's text; `list` gives the folder and the name in messages.
std::vector<std::filesystem::path> parse_file_list(std::string_view text,
                                                   const std::filesystem::path& list,
                                                   bool (*is_file)(const std::filesystem::path&));

// The formats, for the index, dimred data inspect and the fuzzers.
extern const RecordFormat tfrecord_format;
extern const RecordFormat base64_format;

}  // namespace dimred::data
