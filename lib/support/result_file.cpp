#include "support/result_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>

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

}  // namespace

void require_result_place(const fs::path& path) {
  if (own_descriptor(path)) return;
  const auto status = fs::status(path);
  require(!fs::exists(status) || fs::is_regular_file(status) || takes_bytes(status),
          "[file] '{}' is a folder, a block device or a socket; needs the name of a "
          "file, a pipe or a character device",
          path);
  const auto target = fs::is_symlink(path) ? fs::weakly_canonical(path) : path;
  const auto folder = target.parent_path();
  require(fs::exists(status) || folder.empty() || fs::is_directory(folder),
          "[file] '{}' needs an existing folder, '{}' is none",
          path,
          folder);
}

void write_result(const fs::path& path, std::string_view text) {
  require_result_place(path);
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
  write_file_atomically(fs::is_symlink(path) ? fs::weakly_canonical(path) : path, text);
}

}  // namespace dimred
