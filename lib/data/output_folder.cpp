#include "data/output_folder.h"

#include <algorithm>

#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/result_file.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr auto job_file = "dimred-data.txt";

}  // namespace

OutputFolder::OutputFolder(fs::path folder, std::string_view job) : folder_(std::move(folder)) {
  const auto text = formatted("{}\n", job);
  require(!fs::exists(folder_) || fs::is_directory(folder_),
          "[data] needs a folder to write to, received the file {}",
          folder_);
  require_outside_runs(folder_, "--output");
  create_folders(folder_);
  const auto file = folder_ / job_file;
  if (fs::exists(file)) {
    const auto before = InputFile(file).text(1 << 20);
    require(before == text,
            "[data] {} holds the files of another job ({}: {}); choose another --output",
            folder_,
            job_file,
            printable(before));
    return;
  }
  require_only_parts(folder_, {});
  write_file_atomically(file, text);
}

void require_only_parts(const fs::path& path, const std::vector<std::string>& parts) {
  if (!fs::is_directory(path)) return;
  // A job killed before its first line was written leaves a temporary file, which is no other job.
  for (const auto& item : fs::directory_iterator(path)) {
    const auto name = item.path().filename().string();
    require(name.ends_with(".tmp") || name == ".dimred" ||
                (std::ranges::find(parts, name) != parts.end() && item.is_directory()),
            "[data] {} already holds other files, such as {}; choose an empty or new folder",
            path,
            printable(name));
  }
}

bool OutputFolder::has(const std::string& name) const {
  return fs::is_regular_file(folder_ / name);
}

}  // namespace dimred::data
