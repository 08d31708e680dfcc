#include "support/result_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <set>
#include <string>

#include "support/atomic_file.h"
#include "support/descriptor.h"
#include "support/errors.h"
#include "support/open_file.h"
#include "support/text.h"

namespace dimred {
namespace {

namespace fs = std::filesystem;

/// The descriptor of this process that a path stands for (/dev/stdout, /proc/self/fd/1). Opening
/// the path would begin at the start of a file that it is redirected to.
std::optional<int> own_descriptor(fs::path path) {
  std::error_code error;
  const auto descriptors = fs::canonical("/proc/self/fd", error);
  constexpr int most_links = 8;
  for (int links = 0; !error && links < most_links && fs::is_symlink(path, error); ++links) {
    const auto number = number_in<int>(path.filename().string());
    if (number && fs::weakly_canonical(path.parent_path(), error) == descriptors) return number;
    path = path.parent_path() / fs::read_symlink(path, error);
  }
  return std::nullopt;
}

void write_all(int descriptor, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const auto written = retrying([&] { return ::write(descriptor, text.data(), text.size()); });
    require_call(written >= 0, "write", path);
    text.remove_prefix(written);
  }
}

bool takes_bytes(const fs::file_status& status) {
  return fs::is_character_file(status) || fs::is_fifo(status);
}

/// Returns whether the file has no bytes, or none that was written: a killed start has reserved it.
bool holds_nothing(const InputFile& file) {
  return file.size() == 0 || (::lseek(file.descriptor(), 0, SEEK_DATA) < 0 && errno == ENXIO);
}

/// Returns whether the file is an earlier output, or holds nothing to lose.
bool is_ours(const fs::path& path, const ResultMark& mark) {
  const InputFile file(path);
  if (mark.text.empty() || holds_nothing(file)) return holds_nothing(file);
  const auto looked_at = static_cast<std::int64_t>(std::max(mark.within, mark.text.size()));
  const auto begin = file.part(0, std::min(file.size(), looked_at));
  return begin.find(mark.text) != begin.npos;
}

void require_replaceable_file(const ResultPlace& place) {
  const auto& [path, option, mark, overwrite, inputs, remark] = place;
  std::error_code none;
  for (const auto& input : inputs)
    require(!fs::equivalent(path, input, none),
            "[file] {} is an input of this command; choose another {}",
            path,
            option);
  require(overwrite.value_or(true),
          "[file] {} exists already{}; choose another {} or give --overwrite",
          path,
          remark,
          option);
  require(overwrite || is_ours(path, mark),
          "[file] {} exists already{}; choose another {} or remove this file",
          path,
          mark.text.empty() ? "" : formatted(" and is not an earlier {}", mark.what),
          option);
}

/// The file that a path names, behind links.
fs::path target_of(const fs::path& path) {
  return fs::is_symlink(path) ? fs::weakly_canonical(path) : path;
}

/// A new file is written as NAME.tmp (AtomicFile), which may be there: a killed start of this
/// command has left it, or a user calls a file so.
void require_free_temporary(const ResultPlace& place) {
  const fs::path temporary = target_of(place.path).string() + ".tmp";
  std::error_code none;  // a name too long, which the writer says
  const auto status = fs::symlink_status(temporary, none);
  require(!fs::exists(status) || (fs::is_regular_file(status) && is_ours(temporary, place.mark)),
          "[file] {} has the temporary name '{}', but another file has this temporary name; move "
          "that file, or choose another {}",
          place.path,
          temporary,
          place.option);
}

void require_possible_place(const fs::path& path) {
  const auto status = fs::status(path);
  require(!fs::exists(status) || fs::is_regular_file(status) || takes_bytes(status),
          "[file] '{}' is a folder, a block device or a socket; give the name of a file, a pipe or "
          "a character device",
          path);
  const auto folder = target_of(path).parent_path();
  require(fs::exists(status) || folder.empty() || fs::is_directory(folder),
          "[file] '{}' needs an existing folder, but '{}' is not a folder",
          path,
          folder);
}

}  // namespace

fs::path owner_of(const fs::path& path) {
  static const std::set<std::string> parts{".lock",
                                           "best",
                                           "checkpoints",
                                           "config.toml",
                                           "curve.csv",
                                           "ema.h5",
                                           "final.h5",
                                           "frozen.safetensors",
                                           "initialization.json",
                                           "manifest.json",
                                           "model.pt",
                                           "snapshots",
                                           "start.h5",
                                           "step_times.csv",
                                           "steps.csv"};
  constexpr int most_levels = 4;  // RUN/checkpoints/state_1/NAME
  auto part = fs::weakly_canonical(fs::absolute(path));
  for (int level = 0; level < most_levels && part.has_relative_path(); ++level) {
    const auto run = part.parent_path();
    if (parts.contains(part.filename()) && fs::exists(run / "config.toml") &&
        fs::exists(run / "manifest.json"))
      return run;
    part = run;
  }
  return {};
}

void require_outside_runs(const fs::path& path, std::string_view option) {
  const auto run = owner_of(path);
  require(run.empty(), "[file] {} is a part of the run {}; choose another {}", path, run, option);
}

void require_result_place(const ResultPlace& place) {
  if (own_descriptor(place.path)) return;
  require_possible_place(place.path);
  if (takes_bytes(fs::status(place.path))) return;
  require_outside_runs(place.path, place.option);
  if (fs::exists(place.path)) require_replaceable_file(place);
  require_free_temporary(place);
}

void write_result(const ResultPlace& place, std::string_view text) {
  require_result_place(place);
  const auto& path = place.path;
  if (const auto descriptor = own_descriptor(path)) {
    std::cout.flush();  // what has been printed comes first
    std::fflush(stdout);
    return write_all(*descriptor, text, path);
  }
  if (takes_bytes(fs::status(path))) {
    const Descriptor opened(open_retrying(path, O_WRONLY));
    require_call(opened >= 0, "open", path);
    return write_all(opened, text, path);
  }
  write_file_atomically(target_of(path), text);
}

}  // namespace dimred
