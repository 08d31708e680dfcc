#include "checkpoints/tensor_digests.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoints/sealed_json.h"
#include "checkpoints/tensor_table.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/list_files.h"
#include "support/printable.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

/// The digest of a tensor of a safetensors file, whose bytes lie in one run.
std::string tensor_digest(const InputFile& file, const StoredTensor& tensor) {
  const auto begin = tensor.boxes.front().offset;
  DigestStream digest;
  file.read(begin, begin + tensor.bytes(), [&](ByteView part) { digest.update(part); });
  return digest.hex();
}

}  // namespace

void require_tensor_digests(const fs::path& folder,
                            std::map<std::string, std::string> digests,
                            const std::string& record) {
  for (const auto& path : list_files(folder, {".safetensors"})) {
    const auto table = read_tensor_table(path);
    const auto listed = [&](const auto& tensor) { return digests.contains(tensor.name); };
    if (std::ranges::none_of(table, listed)) continue;  // another program's, beside ours
    const InputFile file(path);
    for (const auto& tensor : table) {
      const auto expected = digests.extract(tensor.name);
      require_environment(!expected.empty() && tensor_digest(file, tensor) == expected.mapped(),
                          "[inspect] '{}': \"{}\" is damaged or was changed: {} has {}",
                          path,
                          printable(tensor.name),
                          record,
                          expected.empty() ? "no such tensor" : "another digest");
    }
  }
  require_environment(digests.empty(),
                      "[inspect] '{}' has no tensor \"{}\", but {} lists this tensor",
                      folder,
                      digests.empty() ? "" : printable(digests.begin()->first),
                      record);
}

void require_converted(const fs::path& folder) {
  const auto file = folder / "convert.json";
  if (!fs::exists(file)) return;
  const auto json = parse_ordered_json(InputFile(file).text(own_json_limits.bytes),
                                       formatted("[inspect] {} is damaged", file),
                                       own_json_limits);
  if (!json.is_object() || !json.contains("digest") || !json.contains("tensors")) return;
  require_digest(json, file);
  require_tensor_digests(folder, json.at("tensors"), "convert.json");
}

}  // namespace dimred::checkpoints
