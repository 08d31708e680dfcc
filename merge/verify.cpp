#include "merge/verify.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoints/safetensors.h"
#include "checkpoints/sealed_json.h"
#include "checkpoints/shape.h"
#include "checkpoints/tensor_table.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/list_files.h"
#include "support/printable.h"

namespace dimred::merge {
namespace {

/// The digest of a tensor of a safetensors file, whose bytes lie in one run.
std::string tensor_digest(const InputFile& file, const checkpoints::StoredTensor& tensor) {
  const auto bits = checkpoints::product(tensor.shape).value() * checkpoints::bits_of(tensor.dtype);
  const auto begin = tensor.boxes.front().offset;
  DigestStream digest;
  file.read(begin, begin + bits / 8, [&](ByteView part) { digest.update(part); });
  return digest.hex();
}

}  // namespace

void verify(const std::filesystem::path& folder, const nlohmann::ordered_json& merge) {
  auto left = merge.at("tensors").get<std::map<std::string, std::string>>();
  for (const auto& path : list_files(folder, {".safetensors"})) {
    const InputFile file(path);
    for (const auto& tensor : checkpoints::read_tensor_table(path)) {
      const auto expected = left.extract(tensor.name);
      require_environment(!expected.empty() && tensor_digest(file, tensor) == expected.mapped(),
                          "[merge] '{}': \"{}\" is damaged or was changed, {}",
                          path,
                          printable(tensor.name),
                          expected.empty() ? "merge.json has no such tensor"
                                           : "merge.json has another digest of it");
    }
  }
  require_environment(left.empty(),
                      "[merge] '{}' has no tensor \"{}\", but its merge.json lists it",
                      folder,
                      left.empty() ? "" : printable(left.begin()->first));
}

nlohmann::ordered_json verified_record(const std::filesystem::path& folder) {
  const auto file = folder / "merge.json";
  auto json = parse_ordered_json(InputFile(file).text(own_json_limits.bytes),
                                 formatted("[inspect] {} is damaged", file),
                                 own_json_limits);
  checkpoints::require_digest(json, file);
  require_environment(
      json.contains("tensors"),
      "[inspect] {} comes from an earlier revision, which kept no digests of the weights",
      file);
  verify(folder, json);
  return json;
}

}  // namespace dimred::merge
