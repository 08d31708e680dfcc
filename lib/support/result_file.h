#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// A file that a user has named for a result. A name typed wrong, or a pattern that the shell has
// filled in, leads to photographs, tables and runs: nothing is replaced that a command has not
// written itself.
namespace dimred {

/// Tells a command's earlier outputs from other files.
struct ResultMark {
  std::string what;        // "table of dimred predict"
  std::string text;        // stands in each; empty: no file is known again
  std::size_t within = 0;  // bytes at the beginning that hold it; 0: the file begins with it
};

/// An output as a user has named it.
struct ResultPlace {
  std::filesystem::path path;
  std::string option;  // that names it: "--csv"
  ResultMark mark = {};
  std::optional<bool> overwrite = {};  // --overwrite as given; unset: the command has none
  std::vector<std::filesystem::path> inputs = {};  // files that this command reads
  std::string remark = {};  // begins with a space; of a refusal, as the file exists
};

/// Throws std::invalid_argument where write_result() could not write (a folder, a block device or a
/// socket is there, or the folder of the file is not) or must not: an input, a part of a run, or
/// another file than an earlier output of the command; or where NAME.tmp, under which it is written
/// first, is no such output either. A command with an --overwrite replaces any
/// other file, and only with it; one without replaces its earlier output and a file of no bytes.
/// For checks before the work.
void require_result_place(const ResultPlace& place);

/// The run that `path` is, or would be, a part of: its config.toml, manifest.json, curves, weights
/// (final.h5) or module (model.pt), or anything below its best/, checkpoints/ or snapshots/. An
/// empty path stands for no run.
std::filesystem::path owner_of(const std::filesystem::path& path);

/// Throws std::invalid_argument where `path` is, or would be, a part of a run.
void require_outside_runs(const std::filesystem::path& path, std::string_view option);

/// Writes a result after require_result_place(): a new or regular file as write_file_atomically()
/// does, also behind a link, which stays; into a character device or pipe that is there
/// (/dev/null, a fifo) and into an open descriptor (/dev/stdout, /dev/fd/3), without replacing
/// them. Throws std::runtime_error for I/O errors.
void write_result(const ResultPlace& place, std::string_view text);

}  // namespace dimred
