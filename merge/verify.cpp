#include "merge/verify.h"

#include <nlohmann/json.hpp>

#include "checkpoints/sealed_json.h"
#include "checkpoints/tensor_digests.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"

namespace dimred::merge {

nlohmann::ordered_json verified_record(const std::filesystem::path& folder) {
  const auto file = folder / "merge.json";
  auto json = parse_ordered_json(InputFile(file).text(own_json_limits.bytes),
                                 formatted("[inspect] {} is damaged", file),
                                 own_json_limits);
  checkpoints::require_digest(json, file);
  require_environment(json.contains("tensors"),
                      "[inspect] {} comes from an earlier revision of dimred, which kept no "
                      "digests of the weights; merge again to get digests",
                      file);
  checkpoints::require_tensor_digests(folder, json.at("tensors"), "merge.json");
  return json;
}

}  // namespace dimred::merge
