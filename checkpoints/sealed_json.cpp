#include "checkpoints/sealed_json.h"

#include <nlohmann/json.hpp>

#include "support/digest.h"
#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The digest of the values alone: white space between them in the file does not count.
std::string digest_without_seal(Json json) {
  json.erase("digest");
  return digest(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

void add_digest(Json& json) { json["digest"] = digest_without_seal(json); }

void require_digest(const Json& json, const fs::path& file) {
  require_environment(
      json.is_object() && json.contains("digest") && json["digest"] == digest_without_seal(json),
      "{} is damaged or was changed: the digest does not match the values",
      file);
}

void seal(Json& json, const fs::path& folder, const std::vector<std::string>& files) {
  for (const auto& name : files) json["files"][name] = file_digest(folder / name);
  add_digest(json);
}

void require_seal(const Json& json, const fs::path& file) {
  require_digest(json, file);
  require_environment(json.contains("files"), "{} lists no files", file);
  for (const auto& [name, expected] : json["files"].items()) {
    const auto beside = file.parent_path() / name;
    require_environment(fs::is_regular_file(beside) && expected == file_digest(beside),
                        "{} is missing, damaged or changed: {} has another digest for this file",
                        beside,
                        file.filename());
  }
}

}  // namespace dimred::checkpoints
