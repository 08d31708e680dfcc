#pragma once

#include <filesystem>
#include <string>

// Local paths that stand for URLs in this process.
namespace dimred {

/// From here on `path` stands for `url`, which may hold no password.
void stand_for(const std::filesystem::path& path, std::string url);

/// The text of a path option's field: of a local path that stands for a URL, the URL.
std::string location_text(const std::filesystem::path& path);

}  // namespace dimred
