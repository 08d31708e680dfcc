#include "commands/inspected_text.h"

namespace dimred::commands {

namespace fs = std::filesystem;

InspectedText inspect_each(const std::vector<fs::path>& paths,
                           const std::function<std::string(const fs::path&)>& describe) {
  InspectedText result;
  for (const auto& path : paths)
    result.add(attempted(path, "  ", [&](const fs::path& one) {
      return text_row("  " + one.filename().string(), "  " + describe(one));
    }));
  return result;
}

}  // namespace dimred::commands
