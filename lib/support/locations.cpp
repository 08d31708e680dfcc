#include "support/locations.h"

#include <map>
#include <utility>

#include "support/url.h"

namespace dimred {
namespace {

namespace fs = std::filesystem;

std::map<fs::path, std::string>& urls() {
  static std::map<fs::path, std::string> all;
  return all;
}

}  // namespace

void stand_for(const fs::path& path, std::string url) { urls()[path] = std::move(url); }

std::string location_text(const fs::path& path) {
  const auto url = urls().find(path);
  return url == urls().end() ? without_credentials(path.string()) : url->second;
}

}  // namespace dimred
